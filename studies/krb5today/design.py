"""The factors, their levels, and the cells that a table, a figure or a user asks for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from policies import KerberosLayer, Policy
from studies import mobile
from studies.krb5today.mechanisms import LOADED, MECHANISMS
from studies.study import Cell, Factor, Level, StudyError, chosen_cells, fixed

CUSTOMERS = (1, 2, 8, 32)
WIRES = {"none": "a wire that takes no time", "lan": "10 Mbit/s", "wan": "1 Mbit/s, 44.5 ms",
         "slow": "102 kbit/s, 80.5 ms", "3g": "384 kbit/s, 100 ms", "2g": "9600 bit/s, 520 ms"}
#: The level of `wire` of a client on the air, of `scenario` of one on a wire, and of `mechanism` of
#: a policy that says how its user logs in.
AIR, REALMS, OF_POLICY = "air", "realms", "of-policy"
TRANSPORTS = {"default": "UDP first, up to 1465 bytes", "tcp": "TCP always"}
#: Where the library's timers meet a slow wire: both transports.
TIMED = ("spake", "pkinit-dh", "pkinit-rsa")


def of_layer(layer: KerberosLayer) -> str:
    """The mechanism that a policy's layer asks for; "" where it leaves that to the study."""
    if layer.realms != "one":
        return {"shared-key": "cross-realm"}.get(layer.realms, layer.realms)
    if layer.proxy != "none":
        return "iakerb"
    return {None: "", "password": "spake", "pkinit": f"pkinit-{layer.agreement}"}.get(
        layer.initial, str(layer.initial))


def _refusal(policy: Policy) -> str:
    layer = policy.layers.kerberos
    return "" if layer is None or layer.by == "mit" else (
        "layers.kerberos is by programs, and this study runs MIT krb5; write by: mit, or choose "
        "kerberos2002")


_POLICIES = mobile.or_wires(mobile.NO_POLICY, mobile.Policies(
    (), beside=(), runs={"kerberos"}, refusal=_refusal), ())
_SCENARIOS = mobile.or_wires(mobile.wires_level(REALMS, "realms and clients on wires"),
                             mobile.scenarios, ("N2",))

FACTORS = (
    Factor("mechanism", "Mechanism", option="--mechanisms", read=fixed(
        [*(Level(name, mechanism.title) for name, mechanism in MECHANISMS.items()),
         Level(OF_POLICY, "as the policy's layer says")]),
        help=f"Mechanisms, of {', '.join(MECHANISMS)}."),
    Factor("wire", "Wire", read=fixed([Level(name, title) for name, title in (
        *WIRES.items(), (AIR, "the air of a scenario"))])),
    Factor("transport", "Transport", read=fixed(
        [Level(name, title) for name, title in TRANSPORTS.items()])),
    Factor("customers", "Customers", is_number=True, plural="numbers of customers", read=fixed(
        [Level(str(count), number=count) for count in CUSTOMERS])),
    Factor("policy", "Policy", _POLICIES, plural="policies", option="--policies",
           file_option="--policy", help="What protects the air that a client logs in over: names "
           "of policies, or .yml files, which may say how the user logs in (layers.kerberos); "
           "default: none, over wires.",
           file_help="A policy file of your own; may be repeated."),
    Factor("scenario", "Scenario", _SCENARIOS, option="--scenarios", help="With a policy, where "
           "the mobile node logs in: names or .yml files; default: N2."),
)
NAMES = tuple(factor.name for factor in FACTORS)


def ids(mechanism: str, wire: str = "lan", transport: str = "default", *,
        customers: int = 1) -> tuple[str, ...]:
    """A cell's ids: a lone customer on a wire near the KDC, but for what is given."""
    return mechanism, wire, transport, str(customers), mobile.NO_POLICY.id, REALMS


def design() -> Iterator[tuple[str, ...]]:
    """Every cell, as often as a table or figure has it."""
    for name in MECHANISMS:
        yield from (ids(name, wire) for wire in WIRES if wire != "none")
    for name in LOADED:
        yield from (ids(name, "none", customers=count) for count in CUSTOMERS)
    for name in TIMED:
        yield from (ids(name, wire, "tcp") for wire in ("lan", "2g"))


def cells(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """The design's cells of the levels that were chosen, and policies on the air as asked for.

    Raises StudyError where nothing can be.
    """
    every = [*chosen_cells(NAMES, design(), levels), *_on_air(levels)]
    if not every:
        raise StudyError("nothing of this can be measured; a policy goes with a scenario, one "
                         f"customer and wire {AIR}, and one whose layer says how the user logs in "
                         f"with mechanism {OF_POLICY}: choose levels that fit")
    yield from every


def is_on_air(cell: Cell) -> bool:
    """Whether its client is a mobile node."""
    return cell.ids["wire"] == AIR


def mechanism(cell: Cell) -> str:
    """The name of a cell's mechanism, also where its policy says it."""
    if cell.ids["mechanism"] != OF_POLICY:
        return cell.ids["mechanism"]
    return of_layer(cell.value("policy").layers.kerberos)


def _on_air(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """Every policy in every scenario: with its own mechanism, or with each that was chosen.

    By the first transport that was chosen, where the policy does not say it.
    """
    transport = levels["transport"][0].id
    for row in itertools.product(*(levels[name] for name in NAMES)):
        cell = Cell(dict(zip(NAMES, row, strict=True)))
        if (cell.ids["wire"], cell.ids["customers"]) != (AIR, "1") or cell.value(
                "policy") is None or cell.value("scenario") is None:
            continue
        layer = cell.value("policy").layers.kerberos
        is_said = layer is not None and bool(of_layer(layer))
        if is_said == (cell.ids["mechanism"] == OF_POLICY) and cell.ids["transport"] == (
                "default" if layer else transport):
            yield cell
