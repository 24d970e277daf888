"""Strict parsing of the programs' configurations and of user commands, from JSON.

Levels are per cent in JSON, and shares in all other modules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from protocols.authenticast.asking import ClientPolicy
from protocols.authenticast.clock import WallClock, take_clock
from protocols.authenticast.controllers.balance import Balanced
from protocols.authenticast.controllers.blend1998 import (
    Blend1998,
    BlendParameters,
    DelayedFirst1998,
)
from protocols.authenticast.controllers.bounded import Bounded, BoundedParameters
from protocols.authenticast.controllers.lyapunov import Lyapunov
from protocols.authenticast.controllers.state import Controller
from protocols.authenticast.controllers.static import Static
from protocols.authenticast.crypto import VerifyingKey, load_private, load_public
from protocols.authenticast.messages import Wish
from protocols.authenticast.processor import Cost, Steal
from protocols.authenticast.schemes.tesla import Schedule
from protocols.authenticast.server import ServerPolicy
from protocols.authenticast.settings import (
    SIGNATURES,
    Algorithm,
    Range,
    Scheme,
    Setting,
    SettingError,
)
from protocols.authenticast.source import Constant, Frames, read_frames
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
    """The modelled processor of a node. Without costs, none is modelled."""

    costs: Mapping[str, Cost]
    count: int
    steal: tuple[Steal, ...]
    charged_as: Mapping[Algorithm, str]


@dataclass(frozen=True)
class ServerConfig:
    """The configuration of the server program."""

    address: str
    port: int
    policy: ServerPolicy
    controller: Callable[[], Controller]
    source: Constant | Frames
    device: ModelledProcessor
    start_with: int
    seed: int | None
    clock: Callable[[], WallClock]


@dataclass(frozen=True)
class ClientConfig:
    """The configuration of the client program."""

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
    """Load the server's configuration from a file. Raises ConfigError."""
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
    """Load the client's configuration from a file. Raises ConfigError."""
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
                 current: Wish | None = None) -> Wish:
    """Parse the user's request for a stream. Raises ConfigError.

    Args:
        reader: Fields of the configuration or command.
        algorithms: Algorithms of the known server keys. The first is the default where the current
            setting has no signature algorithm, as with a secret key.
        current: The current request, from which missing fields are taken.
    """
    setting = current.setting if current else None
    try:
        permitted = reader.take("range", _parse_range, current.permitted if current else [0, 100])
        scheme = reader.take("scheme", one_of(SCHEMES), _scheme_name(setting))
        asked = reader.take("algorithm", none_or(one_of(ALGORITHMS)), None)
        if asked and asked not in algorithms:
            raise ConfigError(f"{reader.where}: algorithm: no key of the server's is known for "
                              f"{asked.name}; choose from "
                              f"{', '.join(algorithm.name for algorithm in algorithms)}")
        algorithm = asked or (setting.algorithm if setting and setting.algorithm in algorithms
                              else algorithms[0])
        level = reader.take("level", _PERCENT, 100 * permitted.clamp(
            setting.level if setting else permitted.high)) / 100
        wished = Setting(
            scheme, algorithm if scheme.is_signed else Algorithm.HMAC,
            reader.take("bundle", whole_number(-1 << 31, 1 << 31), setting.bundle if setting
                        else 1),
            level if scheme is Scheme.PERCENTAGE else 1.0).check(permitted)
    except SettingError as error:
        raise ConfigError(f"{reader.where}: {error}") from None
    return Wish(permitted, wished,
                reader.take("automatic", parse_boolean, default=current.automatic if current
                            else False),
                reader.take("algorithm_change", parse_boolean,
                            default=current.algorithm_change if current else False))


def _parse_range(value: object) -> Range:
    if isinstance(value, Range):
        return value
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("two levels are needed, in per cent: [lowest, highest]")
    low, high = map(_PERCENT, value)
    return Range(low / 100, high / 100)


def _scheme_name(setting: Setting | None) -> str:
    scheme = setting.scheme if setting else Scheme.PERCENTAGE
    return next(name for name, known in SCHEMES.items() if known is scheme)


def _by_algorithm(keys: list[VerifyingKey]) -> dict[Algorithm, VerifyingKey]:
    return {key.algorithm: key for key in keys}


def _take_schemes(reader: Fields) -> frozenset[Scheme]:
    return frozenset(reader.take("schemes", list_of(one_of(SCHEMES)), list(SCHEMES)))


def _take_seed(reader: Fields) -> int | None:
    return reader.take("seed", none_or(whole_number(0, 1 << 62)), None)


def _take_tesla_schedule(reader: Fields) -> Schedule:
    schedule = Schedule(int(reader.take("interval_s", number_between(0.001, 60), 0.1) * 1e9),
                        reader.take("delay", whole_number(1, 1000), 3),
                        reader.take("intervals", whole_number(8, 1 << 20), 3000))
    reader.end()
    return schedule


def _take_controller(reader: Fields) -> Callable[[], Controller]:
    given = reader.take_object("controller", {"kind": "static"})
    kind = given.take("kind", one_of({name: name for name in (
        "static", "blend-1998", "delayed-first-1998", "bounded", "lyapunov")}))
    make: Callable[[], Controller] = Static
    if kind in {"blend-1998", "delayed-first-1998"}:
        blend = BlendParameters(**_take_parameters(given, BlendParameters))
        make = functools.partial(Blend1998 if kind == "blend-1998" else DelayedFirst1998, blend)
    elif kind == "bounded":
        scheme = given.take("scheme", one_of({"delayed": Scheme.DELAYED, "tree": Scheme.TREE}),
                            "tree")
        make = functools.partial(Bounded, scheme,
                                 BoundedParameters(**_take_parameters(given, BoundedParameters)))
    elif kind == "lyapunov":
        make = functools.partial(Lyapunov, given.take("worth", number_between(1e-6, 1e6), 1.0))
    costs = given.take("costs_s", _parse_signature_costs, {})
    given.end()
    return (lambda: Balanced(make(), costs)) if costs else make


def _take_parameters(reader: Fields,
                     parameter_class: type[BlendParameters | BoundedParameters]) -> dict[str, Any]:
    """Return a controller's parameters. Parameters with an integer default are integers."""
    return {field.name: reader.take(
        field.name, whole_number(1, 1 << 20) if isinstance(field.default, int)
        else number_between(0, 1e6),
        field.default) for field in fields(parameter_class)}


def _parse_signature_costs(value: object) -> dict[Algorithm, tuple[float, float]]:
    if not isinstance(value, dict):
        raise ValueError("an object is needed: algorithm: [seconds to sign, to verify]")  # noqa: TRY004
    costs = {}
    for name, pair in value.items():
        seconds = list_of(number_between(0, 3600))(pair)
        if len(seconds) != 2:
            raise ValueError(f"{name}: give [seconds to sign, seconds to verify]")
        costs[one_of(ALGORITHMS)(name)] = (seconds[0], seconds[1])
    return costs


def _take_source(reader: Fields, folder: Path) -> Constant | Frames:
    kind = reader.take("kind", one_of({"constant": "constant", "frames": "frames"}))
    payload_bytes = reader.take("payload_bytes", whole_number(1, 60000), 1300)
    seed = reader.take("seed", whole_number(0, 1 << 31), 1)
    source: Constant | Frames
    if kind == "constant":
        source = Constant(reader.take("packets", whole_number(1, 1 << 31)),
                          reader.take("packets_per_s", number_between(0.1, 1e6)), payload_bytes,
                          seed)
    else:
        frames = reader.take("file", lambda value: read_frames(folder / parse_text(value)))
        source = Frames(frames, reader.take("frames_per_s", number_between(0.1, 1000)),
                        payload_bytes,
                        reader.take("rounds", whole_number(1, 1 << 20), 1), seed)
    reader.end()
    return source


def _take_device(reader: Fields) -> ModelledProcessor:
    costs = reader.take("costs", _parse_costs, {})
    steal = tuple(Steal(entry.take("from_s", number_between(0)),
                        entry.take("to_s", number_between(0)),
                        entry.take("share", number_between(0, 0.99)))
                  for entry in reader.take_objects("steal", []))
    charged = reader.take("charged_as", _parse_names, {})
    device = ModelledProcessor(costs, reader.take("count", whole_number(1, 64), 1), steal, charged)
    reader.end()
    return device


def _parse_costs(value: object) -> dict[str, Cost]:
    """Parse the costs of operations, by kind.

    A cost is seconds, or [seconds, seconds a byte].
    """
    if not isinstance(value, dict):
        raise ValueError("an object is needed: operation: seconds")  # noqa: TRY004 - see `take`
    costs = {}
    for kind, given in value.items():
        numbers = list_of(number_between(0, 3600))(given if isinstance(given, list) else [given])
        if len(numbers) > 2:
            raise ValueError(f"{kind}: give seconds, or [seconds, seconds a byte]")
        costs[kind] = Cost(*numbers)
    return costs


def _parse_names(value: object) -> dict[Algorithm, str]:
    if not isinstance(value, dict):
        raise ValueError("an object is needed: algorithm: device's name")  # noqa: TRY004 - see `take`
    return {one_of(ALGORITHMS)(name): parse_text(known) for name, known in value.items()}
