"""The factors, their levels, and the cells that a table or figure asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from studies.krb5today.mechanisms import LOADED, MECHANISMS
from studies.study import Cell, Factor, Level, chosen_cells, fixed

CUSTOMERS = (1, 2, 8, 32)
WIRES = {"none": "a wire that takes no time", "lan": "10 Mbit/s", "wan": "1 Mbit/s, 44.5 ms",
         "slow": "102 kbit/s, 80.5 ms", "3g": "384 kbit/s, 100 ms", "2g": "9600 bit/s, 520 ms"}
TRANSPORTS = {"default": "UDP first, up to 1465 bytes", "tcp": "TCP always"}
#: Where the library's timers meet a slow wire: both transports.
TIMED = ("spake", "pkinit-dh", "pkinit-rsa")

FACTORS = (
    Factor("mechanism", "Mechanism", option="--mechanisms", read=fixed(
        [Level(name, mechanism.title) for name, mechanism in MECHANISMS.items()]),
        help=f"Mechanisms, of {', '.join(MECHANISMS)}."),
    Factor("wire", "Wire", read=fixed([Level(name, title) for name, title in WIRES.items()])),
    Factor("transport", "Transport", read=fixed(
        [Level(name, title) for name, title in TRANSPORTS.items()])),
    Factor("customers", "Customers", is_number=True, plural="numbers of customers", read=fixed(
        [Level(str(count), number=count) for count in CUSTOMERS])),
)
NAMES = tuple(factor.name for factor in FACTORS)


def ids(mechanism: str, wire: str = "lan", transport: str = "default", *,
        customers: int = 1) -> tuple[str, ...]:
    """A cell's ids: a lone customer near the KDC, but for what is given."""
    return mechanism, wire, transport, str(customers)


def design() -> Iterator[tuple[str, ...]]:
    """Every cell, as often as a table or figure has it."""
    for name in MECHANISMS:
        yield from (ids(name, wire) for wire in WIRES if wire != "none")
    for name in LOADED:
        yield from (ids(name, "none", customers=count) for count in CUSTOMERS)
    for name in TIMED:
        yield from (ids(name, wire, "tcp") for wire in ("lan", "2g"))


def cells(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """The design's cells of the levels that were chosen, each once."""
    return chosen_cells(NAMES, design(), levels)
