"""Factors, levels and cells of the study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from policies import KerberosLayer
from studies import mobile
from studies.krb5today.mechanisms import LOADED, MECHANISMS
from studies.logins import Logins
from studies.study import Cell, Factor, Level, fixed_levels

CUSTOMERS = (1, 2, 8, 32)
WIRES = {"none": "a wire that takes no time", "lan": "10 Mbit/s", "wan": "1 Mbit/s, 44.5 ms",
         "slow": "102 kbit/s, 80.5 ms", "3g": "384 kbit/s, 100 ms", "2g": "9600 bit/s, 520 ms"}
#: Level of `scenario` for clients on wires.
REALMS = "three-realms"
TRANSPORTS = {"default": "UDP first, up to 1465 bytes", "tcp": "TCP first"}
#: Mechanisms measured with both transports, on a fast wire and on one slower than the library's
#: timers.
TIMED = ("spake", "pkinit-dh", "pkinit-rsa")


def of_layer(layer: KerberosLayer) -> str:
    """Return the mechanism that a policy's layer requires.

    The text is "" if the layer leaves the mechanism to the study.
    """
    if layer.realms != "one":
        return {"shared-key": "cross-realm"}.get(layer.realms, layer.realms)
    if layer.proxy != "none":
        return "iakerb"
    return {None: "", "password": "spake", "pkinit": f"pkinit-{layer.agreement}"}.get(
        layer.initial, str(layer.initial))


# A policy fixes the transport, and may fix the mechanism.
LOGINS = Logins("mechanism", "mit", "kerberos2002", realms=REALMS, of_layer=of_layer,
                always={"customers": "1"}, fixes=lambda _: {"transport": "default"})
FACTORS = (
    Factor("mechanism", "Mechanism", option="--mechanisms", read=fixed_levels(
        [*(Level(name, mechanism.title) for name, mechanism in MECHANISMS.items()),
         Level(mobile.OF_POLICY, "as the policy's layer says")]),
        help=f"Mechanisms, of {', '.join(MECHANISMS)}."),
    Factor("wire", "Wire", read=fixed_levels([Level(name, title) for name, title in (
        *WIRES.items(), (mobile.AIR, "the air of a scenario"))])),
    Factor("transport", "Transport", read=fixed_levels(
        [Level(name, title) for name, title in TRANSPORTS.items()])),
    Factor("customers", "Customers", is_number=True, plural="numbers of customers",
           read=fixed_levels(
        [Level(str(count), number=count) for count in CUSTOMERS])),
    *LOGINS.places.build_factors(),
)
NAMES = tuple(factor.name for factor in FACTORS)


def cell_ids(mechanism: str, wire: str = "lan", transport: str = "default", *,
        customers: int = 1) -> tuple[str, ...]:
    """Return the level ids of a cell over wires.

    By default, the cell has one customer on the wire `lan`.
    """
    return mechanism, wire, transport, str(customers), mobile.NO_POLICY, REALMS


def design_rows() -> Iterator[tuple[str, ...]]:
    """Generate the level ids of every cell for tables and figures.

    A cell may occur several times.
    """
    for name in MECHANISMS:
        yield from (cell_ids(name, wire) for wire in WIRES if wire != "none")
    for name in LOADED:
        yield from (cell_ids(name, "none", customers=count) for count in CUSTOMERS)
    for name in TIMED:
        yield from (cell_ids(name, wire, "tcp") for wire in ("lan", "2g"))


def design_cells(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """Return the design's cells for the chosen levels, and cells for policies on the air."""
    return LOGINS.list_cells(NAMES, design_rows(), levels)
