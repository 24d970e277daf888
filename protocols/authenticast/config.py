"""Read and check the JSON configuration files of Authenticast's server and client.

Authenticast streams signed packets over UDP. `load_server` and `load_client` take a path, and
return a `ServerConfig` or `ClientConfig`: address, keys, stream settings, and times of operations
on a slow processor. `take_request` parses a user's request for a stream, from a file or from a
command to the running client. Fractions, such as the fraction of verified packets (level), are per
cent in JSON, and 0 to 1 in all other modules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from protocols.authenticast.client import ClientPolicy
from protocols.authenticast.controllers import (
    AlgorithmController,
    Blend1998,
    BlendParameters,
    BoundedDelayController,
    BoundedDelayParameters,
    Controller,
    DelayedFirst1998,
    LyapunovController,
    StaticController,
)
from protocols.authenticast.crypto import VerifyingKey, load_private, load_public
from protocols.authenticast.loop import WallClock, take_clock
from protocols.authenticast.messages import StreamRequest
from protocols.authenticast.packets import ConstantSource, FrameTraceSource, read_frames
from protocols.authenticast.processor import OperationCost, OtherLoad
from protocols.authenticast.schemes.tesla import TeslaSchedule
from protocols.authenticast.server import ServerPolicy
from protocols.authenticast.settings import (
    SIGNATURES,
    Algorithm,
    LevelRange,
    Scheme,
    SettingError,
    StreamSetting,
)
from protocols.authenticast.stream import StreamPolicy
from protocols.fields import (
    ConfigError,
    Fields,
    key_file,
    list_of,
    none_or,
    number_between,
    one_of,
    parse_address,
    parse_boolean,
    parse_text,
    read_json,
    whole_number,
)

SCHEMES = {scheme.name.lower().replace("_", "-"): scheme for scheme in Scheme}
ALGORITHMS = {algorithm.name: algorithm for algorithm in SIGNATURES}
T = TypeVar("T")
_PORT = whole_number(0, 65535)
_PERCENT = number_between(0, 100)


@dataclass(frozen=True)
class ModelledProcessor:
    """The times of operations on a slow processor, which the program imitates.

    Without such times, operations take the time that they really take.

    - `costs`: time of each operation
    - `count`: number of processors
    - `steal`: times in which other work takes a share of the processor
    - `charged_as`: for an algorithm of today, the paper's algorithm by whose times it is charged
    """

    costs: Mapping[str, OperationCost]
    count: int
    steal: tuple[OtherLoad, ...]
    charged_as: Mapping[Algorithm, str]


@dataclass(frozen=True)
class ServerConfig:
    """The configuration of the server program.

    - `address`, `port`: where the server receives requests
    - `policy`: its keys, and what it grants to clients
    - `controller`: creates the controller of a stream
    - `source`: source of the packets
    - `device`: costs of operations
    - `start_with`: number of clients that must have asked before the streams begin
    - `seed`: seed of all random bytes, None for real ones
    - `clock`: creates the program's clock
    """

    address: str
    port: int
    policy: ServerPolicy
    controller: Callable[[], Controller]
    source: ConstantSource | FrameTraceSource
    device: ModelledProcessor
    start_with: int
    seed: int | None
    clock: Callable[[], WallClock]


@dataclass(frozen=True)
class ClientConfig:
    """The configuration of the client program.

    - `address`, `port`: where the client receives the stream
    - `server`: address and port of the server
    - `policy`: its keys, and the stream that it requests
    - `receive_buffer_bytes`: size of the socket's buffer, None for the system's default
    - `series`: file for the list of packets, if there is to be one
    - `device`: costs of operations
    - `seed`: seed of all random bytes, None for real ones
    - `clock`: creates the program's clock
    """

    address: str
    port: int
    server: tuple[str, int]
    policy: ClientPolicy
    receive_buffer_bytes: int | None
    series: Path | None
    device: ModelledProcessor
    seed: int | None
    clock: Callable[[], WallClock]


def load_server(path: Path) -> ServerConfig:
    """Read the server's configuration file.

    Raises:
        ConfigError: a field is missing, unknown or wrong.
    """
    reader = Fields(read_json(path), path.name)
    keys = reader.take("keys", list_of(key_file(path.parent, load_private)))
    clients, weights = {}, {}
    for entry in reader.take_objects("clients"):
        name = entry.take("name", parse_text)
        clients[name] = _by_algorithm(
            entry.take("keys", list_of(key_file(path.parent, load_public))))
        weights[name] = entry.take("weight", number_between(0.01, 100), 1.0)
        entry.end()
    policy = ServerPolicy(
        reader.take("name", parse_text),
        StreamPolicy({key.algorithm: key for key in keys}, keys[0],
                     reader.take("delay_bound_s", number_between(0.01, 60), 1.0),
                     int(reader.take("hold_s", number_between(0.001, 60), 0.5) * 1e9),
                     _take_tesla_schedule(reader.take_object("tesla", {}))),
        clients, _take_schemes(reader), weights)
    config = ServerConfig(
        reader.take("address", parse_address), reader.take("port", _PORT), policy,
        _take_controller(reader), _take_source(reader.take_object("source"), path.parent),
        _take_device(reader.take_object("device", {})),
        reader.take("start_with", whole_number(1, 1000), 1),
        _take_seed(reader), take_clock(reader.take_object("clock", {})))
    reader.end()
    return config


def load_client(path: Path) -> ClientConfig:
    """Read the client's configuration file.

    Raises:
        ConfigError: a field is missing, unknown or wrong.
    """
    reader = Fields(read_json(path), path.name)
    server = reader.take_object("server")
    keys = _by_algorithm(server.take("keys", list_of(key_file(path.parent, load_public))))
    policy = ClientPolicy(
        reader.take("name", parse_text),
        reader.take("identity", key_file(path.parent, load_private)),
        server.take("name", parse_text), keys, take_request(reader, tuple(keys)),
        reader.take("data_port", whole_number(1, 65535)), frozenset(keys), _take_schemes(reader))
    config = ClientConfig(
        reader.take("address", parse_address), reader.take("port", _PORT, 0),
        (server.take("address", parse_address), server.take("port", whole_number(1, 65535))),
        policy,
        reader.take("receive_buffer_bytes", none_or(whole_number(2048, 1 << 30)), None),
        reader.take("series", none_or(lambda value: path.parent / parse_text(value)), None),
        _take_device(reader.take_object("device", {})), _take_seed(reader),
        take_clock(reader.take_object("clock", {})))
    server.end()
    reader.end()
    return config


def take_request(reader: Fields, algorithms: Sequence[Algorithm],
                 current: StreamRequest | None = None) -> StreamRequest:
    """Parse the user's request for a stream, from the configuration or from a command.

    It has the scheme, the algorithm, the fraction of packets to verify, and the range of fractions
    between which a controller may choose.

    Args:
        reader: fields of the configuration or command.
        algorithms: algorithms of the known server keys. The first is the default where the current
            setting has no signature algorithm, as with a secret key.
        current: the current request, from which missing fields are taken.

    Raises:
        ConfigError: a field is wrong.
    """
    setting = current.setting if current else None
    try:
        permitted = reader.take("range", _parse_range, current.permitted if current else [0, 100])
        scheme = reader.take("scheme", one_of(SCHEMES), _scheme_name(setting))
        algorithm_field = reader.take("algorithm", none_or(one_of(ALGORITHMS)), None)
        if algorithm_field and algorithm_field not in algorithms:
            raise ConfigError(f"{reader.where}: algorithm: no key of the server's is known for "
                              f"{algorithm_field.name}; choose from "
                              f"{', '.join(algorithm.name for algorithm in algorithms)}")
        algorithm = algorithm_field or (
            setting.algorithm if setting and setting.algorithm in algorithms else algorithms[0])
        level = reader.take("level", _PERCENT, 100 * permitted.clamp(
            setting.level if setting else permitted.high)) / 100
        wished = StreamSetting(
            scheme, algorithm if scheme.is_signed else Algorithm.HMAC,
            reader.take("bundle", whole_number(-1 << 31, 1 << 31), setting.bundle if setting
                        else 1),
            level if scheme is Scheme.PERCENTAGE else 1.0).check(permitted)
    except SettingError as error:
        raise ConfigError(f"{reader.where}: {error}") from None
    return StreamRequest(permitted, wished,
                         reader.take("automatic", parse_boolean, default=current.automatic
                                     if current
                                     else False),
                         reader.take("algorithm_change", parse_boolean,
                                     default=current.algorithm_change if current else False))


def _parse_range(value: object) -> LevelRange:
    if isinstance(value, LevelRange):
        return value
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("two levels are needed, in per cent: [lowest, highest]")
    low, high = map(_PERCENT, value)
    return LevelRange(low / 100, high / 100)


def _scheme_name(setting: StreamSetting | None) -> str:
    scheme = setting.scheme if setting else Scheme.PERCENTAGE
    return next(name for name, known in SCHEMES.items() if known is scheme)


def _by_algorithm(keys: list[VerifyingKey]) -> dict[Algorithm, VerifyingKey]:
    return {key.algorithm: key for key in keys}


def _take_schemes(reader: Fields) -> frozenset[Scheme]:
    return frozenset(reader.take("schemes", list_of(one_of(SCHEMES)), list(SCHEMES)))


def _take_seed(reader: Fields) -> int | None:
    return reader.take("seed", none_or(whole_number(0, 1 << 62)), None)


def _take_tesla_schedule(reader: Fields) -> TeslaSchedule:
    schedule = TeslaSchedule(int(reader.take("interval_s", number_between(0.001, 60), 0.1) * 1e9),
                             reader.take("delay", whole_number(1, 1000), 3),
                             reader.take("intervals", whole_number(8, 1 << 20), 3000))
    reader.end()
    return schedule


def _take_controller(reader: Fields) -> Callable[[], Controller]:
    given = reader.take_object("controller", {"kind": "static"})
    kind = given.take("kind", one_of({name: name for name in (
        "static", "blend-1998", "delayed-first-1998", "bounded", "lyapunov")}))
    make: Callable[[], Controller] = StaticController
    if kind in {"blend-1998", "delayed-first-1998"}:
        blend = BlendParameters(**_take_parameters(given, BlendParameters))
        make = functools.partial(Blend1998 if kind == "blend-1998" else DelayedFirst1998, blend)
    elif kind == "bounded":
        scheme = given.take("scheme", one_of({"delayed": Scheme.DELAYED, "tree": Scheme.TREE}),
                            "tree")
        make = functools.partial(BoundedDelayController, scheme,
                                 BoundedDelayParameters(
                                     **_take_parameters(given, BoundedDelayParameters)))
    elif kind == "lyapunov":
        make = functools.partial(LyapunovController,
                                 given.take("worth", number_between(1e-6, 1e6), 1.0))
    costs = given.take("costs_s", _parse_signature_costs, {})
    given.end()
    return (lambda: AlgorithmController(make(), costs)) if costs else make


def _take_parameters(reader: Fields,
                     parameter_class: type[BlendParameters | BoundedDelayParameters]) -> dict[
                         str, Any]:
    """Read the parameters of a controller. Parameters with an integer default must be integers."""
    return {field.name: reader.take(
        field.name, whole_number(1, 1 << 20) if isinstance(field.default, int)
        else number_between(0, 1e6),
        field.default) for field in fields(parameter_class)}


def _parse_signature_costs(value: object) -> dict[Algorithm, tuple[float, float]]:
    """Return the time (s) to sign and the time to verify, by signature algorithm."""
    if not isinstance(value, dict):
        raise ValueError("an object is needed: algorithm: [seconds to sign, to verify]")  # noqa: TRY004
    costs = {}
    for name, pair in value.items():
        seconds = list_of(number_between(0, 3600))(pair)
        if len(seconds) != 2:
            raise ValueError(f"{name}: give [seconds to sign, seconds to verify]")
        costs[one_of(ALGORITHMS)(name)] = (seconds[0], seconds[1])
    return costs


def _take_source(reader: Fields, folder: Path) -> ConstantSource | FrameTraceSource:
    kind = reader.take("kind", one_of({"constant": "constant", "frames": "frames"}))
    payload_bytes = reader.take("payload_bytes", whole_number(1, 60000), 1300)
    seed = reader.take("seed", whole_number(0, 1 << 31), 1)
    source: ConstantSource | FrameTraceSource
    if kind == "constant":
        source = ConstantSource(reader.take("packets", whole_number(1, 1 << 31)),
                                reader.take("packets_per_s", number_between(0.1, 1e6)),
                                payload_bytes,
                                seed)
    else:
        frames = reader.take("file", lambda value: read_frames(folder / parse_text(value)))
        source = FrameTraceSource(frames, reader.take("frames_per_s", number_between(0.1, 1000)),
                                  payload_bytes,
                                  reader.take("rounds", whole_number(1, 1 << 20), 1), seed)
    reader.end()
    return source


def _take_device(reader: Fields) -> ModelledProcessor:
    costs = reader.take("costs", _parse_costs, {})
    steal = tuple(OtherLoad(entry.take("from_s", number_between(0)),
                            entry.take("to_s", number_between(0)),
                            entry.take("share", number_between(0, 0.99)))
                  for entry in reader.take_objects("steal", []))
    charged = reader.take("charged_as", _parse_names, {})
    device = ModelledProcessor(costs, reader.take("count", whole_number(1, 64), 1), steal, charged)
    reader.end()
    return device


def _parse_costs(value: object) -> dict[str, OperationCost]:
    """Parse the time that each kind of operation takes on a modelled processor.

    A time is a number of seconds, or [seconds, seconds per byte].
    """
    if not isinstance(value, dict):
        raise ValueError("an object is needed: operation: seconds")  # noqa: TRY004 - see `take`
    costs = {}
    for kind, given in value.items():
        numbers = list_of(number_between(0, 3600))(given if isinstance(given, list) else [given])
        if len(numbers) > 2:
            raise ValueError(f"{kind}: give seconds, or [seconds, seconds a byte]")
        costs[kind] = OperationCost(*numbers)
    return costs


def _parse_names(value: object) -> dict[Algorithm, str]:
    if not isinstance(value, dict):
        raise ValueError("an object is needed: algorithm: device's name")  # noqa: TRY004 - see `take`
    return {one_of(ALGORITHMS)(name): parse_text(known) for name, known in value.items()}
