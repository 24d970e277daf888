"""What the study varies: how packets are authenticated, how many listen, and what disturbs them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from studies.study import Cell, Factor, Level, fixed

#: By percentage: eleven levels, and further ones where the figure bends.
PERCENTAGES = (0, 5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100)
MAX_CLIENTS = 7
#: The clients of Fig. 4, and those of Figs. 5 and 6.
FIG_4 = "5"
FIG_5 = ("1", "2", "3", "4", "5")


@dataclass(frozen=True)
class Heuristic:
    """How a stream is authenticated: what the client asks for, and which controller decides."""

    title: str
    wish: Mapping[str, Any]
    controller: Mapping[str, Any] = field(default_factory=lambda: {"kind": "static"})
    has_non_repudiation: bool = True


@dataclass(frozen=True)
class Disturbance:
    """What happens to a stream on its way, or to its clients.

    `share` of every client's processor is somebody else's for a while. On the wire, `loss` is the
    share of packets that are lost, and one packet in `tampered_one_in` is altered.
    """

    title: str
    share: float = 0.0
    loss: float = 0.0
    tampered_one_in: int = 0
    has_security: bool = True


def _by_percentage(level: int) -> Heuristic:
    return Heuristic(f"{level} % of the packets verified",
                     {"scheme": "percentage", "level": level, "range": [0, 100]})


def _delayed(bundle: int) -> Heuristic:
    return Heuristic(f"delayed, bundles of {bundle}", {"scheme": "delayed", "bundle": bundle})


def _automatic(title: str, wish: Mapping[str, Any], **controller: Any) -> Heuristic:
    return Heuristic(title, {"range": [5, 100], "automatic": True, **wish}, controller)


_START = {"scheme": "delayed", "bundle": 3}
HEURISTICS: Mapping[str, Heuristic] = {
    **{f"p{level}": _by_percentage(level) for level in PERCENTAGES},
    "delayed": _delayed(3),
    "delayed-8": _delayed(8),
    "secret-key": Heuristic("secret key connection", {"scheme": "secret-key"},
                            has_non_repudiation=False),
    "adaptive-1998": _automatic("the blend of section 5.2: 10 % at LIMIT, a larger bundle when "
                                "stable", _START, kind="blend-1998"),
    "adaptive-1998-delayed-first": _automatic("as section 4.5 has it: first a larger bundle",
                                              _START, kind="delayed-first-1998"),
    "adaptive-gradual": _automatic("the blend with a small drop, to 18 %", _START,
                                   kind="blend-1998", low=0.18),
    "adaptive-limit-150": _automatic("the blend with LIMIT above the buffer, 150 packets", _START,
                                     kind="blend-1998", limit=150),
    "tree-16": Heuristic("tree chaining (Wong and Lam), 16 packets a tree",
                         {"scheme": "tree", "bundle": 16}),
    "tesla": Heuristic("TESLA (RFC 4082)", {"scheme": "tesla"}, has_non_repudiation=False),
    "bounded": _automatic("the smallest sustainable bundle under a delay bound", _START,
                          kind="bounded", scheme="delayed"),
    "bounded-tree": _automatic("the same with trees", {"scheme": "tree", "bundle": 3},
                               kind="bounded", scheme="tree"),
    "floor": _automatic("the same with a floor of 100 %: sheds, and never passes unverified",
                        {**_START, "range": [100, 100]}, kind="bounded", scheme="delayed"),
    "lyapunov": _automatic("drift plus penalty, by percentage",
                           {"scheme": "percentage", "level": 100}, kind="lyapunov"),
}
DISTURBANCES: Mapping[str, Disturbance] = {
    "idle": Disturbance("nothing else happens"),
    "half": Disturbance("half of the client's processor is stolen for a while", share=0.5),
    "most": Disturbance("80 % of the client's processor are stolen for a while", share=0.8),
    "loss": Disturbance("2 % of the packets are lost on the wire", loss=0.02),
    "tampered": Disturbance("one packet in 8 is altered on the wire", tampered_one_in=8),
    "free": Disturbance("security operations take no time (section 5.3)", has_security=False),
}
#: Measured under every disturbance, with one client; and those whose level the wire shows.
BESIDE = ("p15", "delayed", "delayed-8", "secret-key", "adaptive-1998",
          "adaptive-1998-delayed-first", "tree-16", "tesla", "bounded", "bounded-tree", "floor",
          "lyapunov")
TAMPERED = ("p20", "p50", "p100", "delayed", "secret-key", "tree-16", "tesla")
_ONCE = ("p100", "delayed", "adaptive-1998", "adaptive-gradual", "adaptive-limit-150")


def is_measured(heuristic: str, clients: str, load: str) -> bool:
    """Whether a cell is one of the study's: those behind a figure, a table or a claim."""
    alone = clients == "1"
    if load == "idle":
        return (clients == FIG_4 and heuristic in {f"p{level}" for level in PERCENTAGES}) or (
            clients in FIG_5 and heuristic in {"delayed", "adaptive-1998"}) or (
            alone and heuristic in {*BESIDE, *_ONCE})
    if load == "tampered":
        return alone and heuristic in TAMPERED
    if load == "free":
        return alone and heuristic in {"p0", "adaptive-1998"}
    return alone and heuristic in BESIDE


def cells(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """The study's cells; of levels that share none, all combinations: a user asked for them."""
    every = [Cell({"heuristic": heuristic, "clients": clients, "load": load})
             for heuristic in levels["heuristic"] for clients in levels["clients"]
             for load in levels["load"]]
    yield from [cell for cell in every if is_measured(**cell.ids)] or every


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _level(name: str, value: Heuristic | Disturbance) -> Level:
    content = asdict(value)
    return Level(name, value.title, value=value, content=content, digest=_digest(content))


FACTORS = (
    Factor("heuristic", "Heuristic", fixed([_level(*item) for item in HEURISTICS.items()]),
           plural="heuristics", option="--heuristics", help="How packets are authenticated: "
           "names, separated by commas."),
    Factor("clients", "Clients", fixed([Level(str(count), number=float(count))
                                        for count in range(1, MAX_CLIENTS + 1)]),
           is_number=True, plural="numbers of clients"),
    Factor("load", "Load", fixed([_level(*item) for item in DISTURBANCES.items()]),
           plural="loads"),
)
