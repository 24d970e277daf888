"""List the combinations of factors that authenticast1998 measures, and build their network.

A server streams signed video to clients that verify the packets. Factors are the way to
authenticate packets (heuristic), number of clients, what disturbs them (load), security policy and
scenario. `select_cells` yields the combinations (cells) for the values that the user chose.
`build_star` builds the Ethernet of server and clients. Over the air, streams have the WLAN and
IPsec protection of a policy. The paper is Schneck and Schwan (1998).
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from policies import StreamLayer
from studies import policy_factors
from studies.policy_factors import NO_POLICY, OF_POLICY, is_on_air
from studies.study import Cell, Factor, Level, StudyError, fixed_levels
from topologies.model import ROUTER, Interface, Link, Network, Node

#: Level of `scenario` for streams over wires.
WIRES = "star-155"
#: Levels of policy and scenario in each cell over wires. They follow heuristic, clients and load.
WIRED = (NO_POLICY, WIRES)
#: Percentages of packets verified: eleven levels, and more where the curve of Fig. 4 bends.
PERCENTAGES = (0, 5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100)
MAX_CLIENTS = 7
#: Numbers of clients in Fig. 4, and in Figs. 5 and 6.
FIG_4 = "5"
FIG_5 = ("1", "2", "3", "4", "5")


@dataclass(frozen=True)
class Heuristic:
    """A way to authenticate a stream: the client's request, and the controller that adapts it.

    - `title`: description in tables and `--help`
    - `wish`: settings that the client requests, such as scheme and fraction to verify
    - `controller`: the server's controller and its parameters
    - `has_non_repudiation`: whether signatures can prove to others who sent a packet
    """

    title: str
    wish: Mapping[str, Any]
    controller: Mapping[str, Any] = field(default_factory=lambda: {"kind": "static"})
    has_non_repudiation: bool = True


@dataclass(frozen=True)
class Disturbance:
    """A level of the factor `load`: other work on clients, or losses and attacks on the wire.

    - `has_security`: false if security operations take no time
    - `share`: fraction of each client's CPU that other work takes for a while
    - `loss`: fraction of packets that the wire loses
    - `tampered_one_in`: N if one packet in N is altered on the wire
    - `flooded_one_in`: N if one packet in N is followed by a forged one, with a far higher number
    - `rate_pps`: packets per second of a constant source that replaces the video
    - `weight`: weight of the first client when the server signs. The others have weight 1.
    """

    title: str
    share: float = 0.0
    loss: float = 0.0
    tampered_one_in: int = 0
    has_security: bool = True
    flooded_one_in: int = 0
    rate_pps: float = 0.0
    weight: float = 1.0


def _percentage_heuristic(level: int) -> Heuristic:
    return Heuristic(f"{level} % of the packets verified",
                     {"scheme": "percentage", "level": level, "range": [0, 100]})


def _delayed_heuristic(bundle: int) -> Heuristic:
    return Heuristic(f"delayed, bundles of {bundle}", {"scheme": "delayed", "bundle": bundle})


def _automatic_heuristic(title: str, request: Mapping[str, Any], **controller: Any) -> Heuristic:
    return Heuristic(title, {"range": [5, 100], "automatic": True, **request}, controller)


_START = {"scheme": "delayed", "bundle": 3}
HEURISTICS: Mapping[str, Heuristic] = {
    **{f"p{level}": _percentage_heuristic(level) for level in PERCENTAGES},
    "delayed": _delayed_heuristic(3),
    "delayed-8": _delayed_heuristic(8),
    "secret-key": Heuristic("secret key connection", {"scheme": "secret-key"},
                            has_non_repudiation=False),
    "adaptive-1998": _automatic_heuristic(
        "the blend of section 5.2: 10 % at LIMIT, a larger bundle when "
        "stable", _START, kind="blend-1998"),
    "adaptive-1998-delayed-first": _automatic_heuristic(
        "as section 4.5 has it: first a larger bundle",
                                                        _START, kind="delayed-first-1998"),
    "adaptive-gradual": _automatic_heuristic("the blend with a small drop, to 18 %", _START,
                                             kind="blend-1998", low=0.18),
    "adaptive-limit-150": _automatic_heuristic("the blend with LIMIT above the buffer, 150 packets",
                                               _START,
                                               kind="blend-1998", limit=150),
    "tree-16": Heuristic("tree chaining (Wong and Lam), 16 packets a tree",
                         {"scheme": "tree", "bundle": 16}),
    "tesla": Heuristic("TESLA (RFC 4082)", {"scheme": "tesla"}, has_non_repudiation=False),
    "bounded": _automatic_heuristic("the smallest sustainable bundle under a delay bound", _START,
                                    kind="bounded", scheme="delayed"),
    "bounded-tree": _automatic_heuristic("the same with trees", {"scheme": "tree", "bundle": 3},
                                         kind="bounded", scheme="tree"),
    "floor": _automatic_heuristic(
        "the same with a floor of 100 %: sheds, and never passes unverified",
                                  {**_START, "range": [100, 100]}, kind="bounded",
                                  scheme="delayed"),
    "lyapunov": _automatic_heuristic("drift plus penalty, by percentage",
                                     {"scheme": "percentage", "level": 100}, kind="lyapunov"),
    OF_POLICY: Heuristic("as the policy's layer says", {}),
}
DISTURBANCES: Mapping[str, Disturbance] = {
    "idle": Disturbance("nothing else happens"),
    "half": Disturbance("half of the client's processor is stolen for a while", share=0.5),
    "most": Disturbance("80 % of the client's processor are stolen for a while", share=0.8),
    "loss": Disturbance("2 % of the packets are lost on the wire", loss=0.02),
    "tampered": Disturbance("one packet in 8 is altered on the wire", tampered_one_in=8),
    "free": Disturbance("security operations take no time (section 5.3)", has_security=False),
    "flood": Disturbance("a forged packet far ahead behind one in 12", flooded_one_in=12),
    "rate-19": Disturbance("19 packets a second, 2 % lost on the wire", loss=0.02, rate_pps=19.0),
    "rate-220": Disturbance("220 packets a second, 2 % lost on the wire", loss=0.02,
                            rate_pps=220.0),
    "weighted": Disturbance("the server signs twice as much for the first client", weight=2.0),
}
#: Heuristics measured with one client under every load, and those measured with tampering,
#: where altered packets show the level.
BESIDE = ("p15", "delayed", "delayed-8", "secret-key", "adaptive-1998",
          "adaptive-1998-delayed-first", "tree-16", "tesla", "bounded", "bounded-tree", "floor",
          "lyapunov")
TAMPERED = ("p20", "p50", "p100", "delayed", "secret-key", "tree-16", "tesla")
#: Heuristics measured on the air over policies, at home and through a handoff.
ON_AIR = ("p100", "delayed-8", "adaptive-1998", "tree-16")
#: Heuristics measured over policies that have only some of the layers of P12, and these policies.
BETWEEN, _POLICIES_BETWEEN = ("adaptive-1998", "tree-16"), ("P2", "P8")
POLICIES, SCENARIOS = ("P1", "P2", "P8", "P12"), ("N2", "R1")
#: Loads of devices only. The other loads need a program on the wire between server and client.
_AIR_LOADS = ("idle", "half", "most", "free")
#: Heuristics measured with forged packets, and the cells that compare rates of tree chaining with
#: those of signing each packet.
FLOODED = ("p20", "delayed-8", "adaptive-1998", "tree-16", "bounded", "bounded-tree", "floor",
           "lyapunov")
RATES = (("p100", "rate-19"), ("p100", "rate-220"), ("tree-16", "rate-220"))
#: Heuristic and clients of the cells whose server cannot sign for all, with and without weights.
SHARED = ("p15", "5")
_BY_LEVEL = frozenset(f"p{level}" for level in PERCENTAGES)
_ONCE = ("p100", "delayed", "adaptive-1998", "adaptive-gradual", "adaptive-limit-150")


#: Heuristics measured with one client, by load.
_ALONE: Mapping[str, Collection[str]] = {
    "idle": {*BESIDE, *_ONCE}, "half": BESIDE, "most": BESIDE, "loss": BESIDE,
    "tampered": TAMPERED, "flood": FLOODED, "free": {"p0", "adaptive-1998"},
    **{load: {heuristic for heuristic, rate in RATES if rate == load} for _, load in RATES}}


def is_measured(heuristic: str, clients: str, load: str) -> bool:
    """Return whether the study measures this combination over Ethernet.

    It does if a figure, a table or a claim needs the combination.
    """
    if load == "idle" and clients == FIG_4 and heuristic in _BY_LEVEL:
        return True
    if load == "idle" and clients in FIG_5 and heuristic in {"delayed", "adaptive-1998"}:
        return True
    if (heuristic, clients) == SHARED:
        return load in {"idle", "weighted"}
    return clients == "1" and heuristic in _ALONE.get(load, ())


def heuristic_of(cell: Cell) -> Heuristic:
    """Return how packets of a combination are authenticated: by its factor or its policy."""
    if cell.ids["heuristic"] != OF_POLICY:
        known: Heuristic = cell.value("heuristic")
        return known
    layer = cell.value("policy").layers.stream
    assert layer is not None
    return heuristic_from_layer(layer)


def heuristic_from_layer(layer: StreamLayer) -> Heuristic:
    """Convert the layer `stream` of a policy file to settings of the protocol's programs."""
    wish: dict[str, Any] = {"scheme": layer.scheme, "range": list(layer.range)}
    if layer.scheme == "percentage":
        wish["level"] = layer.range[1] if layer.level is None else layer.level
    else:
        wish["bundle"] = layer.bundle_packets
    if layer.controller is None:
        return Heuristic(HEURISTICS[OF_POLICY].title, wish,
                         has_non_repudiation=layer.is_signed)
    controller: dict[str, Any] = {"kind": layer.controller}
    if layer.controller == "bounded":
        controller["scheme"] = layer.scheme
    if layer.limit_packets is not None:
        controller["limit"] = layer.limit_packets
    return Heuristic(HEURISTICS[OF_POLICY].title, {**wish, "automatic": True}, controller,
                     has_non_repudiation=layer.is_signed)


def select_cells(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """Yield the combinations of factor values to measure.

    These are the combinations that the study's tables need, if the given values contain some of
    them. Otherwise, the user chose other values, and all possible combinations of these values are
    yielded. If some of these are over Ethernet, only they are yielded.

    Args:
        levels: the values of each factor.

    Raises:
        StudyError: no combination of the values is possible.
    """
    names = tuple(levels)
    every = [Cell(dict(zip(names, row, strict=True)))
             for row in itertools.product(*levels.values())]
    possible = [cell for cell in every if _is_possible(cell)]
    wired = [cell for cell in possible if not is_on_air(cell)]
    if not possible:
        raise StudyError(f"nothing of this can be measured; {NO_POLICY} goes with {WIRES}, "
                         "a policy with a scenario, one client and no load on the wire, and one "
                         f"that has layers.stream with {OF_POLICY}: choose levels that fit")
    yield from [cell for cell in possible if _is_in_study(cell)] or wired or possible


def _is_possible(cell: Cell) -> bool:
    """Return whether a combination of factor values can be measured.

    Over Ethernet there is no security policy. On the air there is one client, and a policy that
    says how packets are authenticated takes precedence.
    """
    ids = cell.ids
    if not is_on_air(cell):
        return ids["scenario"] == WIRES and ids["heuristic"] != OF_POLICY
    has_layer = cell.value("policy").layers.stream is not None
    return (ids["scenario"] != WIRES and ids["clients"] == "1" and ids["load"] in _AIR_LOADS
            and (ids["heuristic"] == OF_POLICY) == has_layer)


def _is_in_study(cell: Cell) -> bool:
    ids = cell.ids
    if is_on_air(cell):
        own = BETWEEN if ids["policy"] in _POLICIES_BETWEEN else ON_AIR
        return ids["load"] == "idle" and ids["heuristic"] in {*own, OF_POLICY}
    return is_measured(ids["heuristic"], ids["clients"], ids["load"])


def _content_digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _make_level(name: str, value: Heuristic | Disturbance) -> Level:
    content = asdict(value)
    return Level(name, value.title, value=value, content=content, digest=_content_digest(content))


PLACES = policy_factors.WireAirFactors(
    policy_factors.wires_level(WIRES, "server and clients on reserved links"),
    policy_factors.PolicyReader(POLICIES, runs={"stream"}), SCENARIOS)


FACTORS = (
    Factor("heuristic", "Heuristic",
           fixed_levels([_make_level(*item) for item in HEURISTICS.items()]),
           plural="heuristics", option="--heuristics", help="Authenticate packets by "
           "these heuristics; './qop studies authenticast1998' lists them (default: from the "
           "profile, else all)."),
    Factor("clients", "Clients", fixed_levels([Level(str(count), number=float(count))
                                               for count in range(1, MAX_CLIENTS + 1)]),
           is_number=True, plural="numbers of clients"),
    Factor("load", "Load", fixed_levels([_make_level(*item) for item in DISTURBANCES.items()]),
           plural="loads"),
    *PLACES.build_factors(),
)


# --- Network over wires: server, router and clients ---
# All links have 155 Mbit/s, and each node has a device.

#: MTU of IP over ATM in bytes (RFC 1626).
MTU_BYTES = 9180
RATE_BPS = 155_520_000.0
DELAY_MS = 0.1
SERVER, CLIENT = "server", "client"


def client_name(number: int) -> str:
    """Return the name of a client, numbered from 1."""
    return f"c{number}"


def build_star(clients: int) -> Network:
    """Build a network of a server and clients, each on its own Ethernet link to a router."""
    nodes = {
        SERVER: Node([SERVER], {"wire": Interface("10.0.0.2/24")}, gateway="10.0.0.1"),
        ROUTER: Node([ROUTER], {"uplink": Interface("10.0.0.1/24")}, forwarding=True)}
    links = [_make_link(f"{SERVER}/wire", f"{ROUTER}/uplink")]
    for number in range(1, clients + 1):
        name = client_name(number)
        nodes[ROUTER].interfaces[f"d{number}"] = Interface(f"10.0.{number}.1/24")
        nodes[name] = Node([CLIENT], {"wire": Interface(f"10.0.{number}.2/24")},
                           gateway=f"10.0.{number}.1")
        links.append(_make_link(f"{ROUTER}/d{number}", f"{name}/wire"))
    return Network(f"star-{clients}", nodes, links)


def _make_link(left: str, right: str) -> Link:
    return Link([left, right], mtu_bytes=MTU_BYTES, rate_bps=RATE_BPS, delay_ms=DELAY_MS,
                queue_packets=1000)
