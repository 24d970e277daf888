"""Give the nodes of an emulated network 802.11 cards of this machine as radios.

`TestbedCards` borrows a card for each node with a radio (`measure.cards.borrowing`), and places it
in the node's network namespace. A further card, or a monitor at an access point's radio, captures
the air. `read_links` returns what real radios do differently from emulated ones: rates,
retries and signal. Standard library only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from measure.cards import wireless
from measure.cards.borrowing import MONITOR_NAME, BorrowedCard, borrow_card
from measure.cards.station import to_channel
from topologies.medium import frequency_mhz
from topologies.model import ACCESS_POINT, STATION, Network
from topologies.namespaces import network_of

if TYPE_CHECKING:
    from topologies.builder import Testbed

#: Word in place of a node for the card that captures the air, and the name for no such capture.
MONITOR, NO_MONITOR = "monitor", "none"


@dataclass
class TestbedCards:
    """The cards that nodes of an emulated network have, by node, until `borrow_cards` ends.

    `air_missing` says why nothing captures the air, "" if something does.
    """

    network: Network
    cards: dict[str, BorrowedCard] = field(default_factory=dict)
    captures_air: bool = True
    air_missing: str = ""
    _drivers: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def borrow_cards(cls, network: Network, names: Mapping[str, str]) -> Iterator[TestbedCards]:
        """Borrow the cards of the network's nodes, and restore them at the end.

        Args:
            network: The network.
            names: Interface of the card by node. `MONITOR` stands for the card that captures.

        Raises:
            MeasureError: A card cannot be used, or could not be restored.
        """
        with ExitStack() as stack:
            made = cls(network)
            made.captures_air = names.get(MONITOR) != NO_MONITOR
            has_own = MONITOR in names and made.captures_air
            for node in [*network.radio_nodes, *([MONITOR] if has_own else [])]:
                made._drivers[node] = wireless.read_driver(names[node])
                made.cards[node] = stack.enter_context(borrow_card(
                    names[node], wants_monitor=False, moves=node != MONITOR))
            yield made

    def place_card(self, node: str, pid: int, name: str, address: str) -> None:
        """Give a node its card, as the radio with this interface and MAC address."""
        self.cards[node].place_card(pid, name, address)

    def start_monitor(self, testbed: Testbed) -> tuple[str | None, str] | None:
        """Start to hear all frames on the channel of the access points.

        Returns:
            The node (None for this machine) and the interface on which frames are captured. None if
            nothing captures the air; `air_missing` says why.

        Raises:
            MeasureError: The card for the capture cannot be used.
        """
        first, *_ = self.network.of_duty(ACCESS_POINT)
        if not self.captures_air:
            self.air_missing = f"--card {MONITOR}={NO_MONITOR} was given"
            return None
        if MONITOR in self.cards:
            channel = self.network.nodes[first].channel or 1
            self.cards[MONITOR].tune_monitor(frequency_mhz(channel))
            return None, self.cards[MONITOR].card_name
        self.air_missing = self.cards[first].add_monitor(testbed.node(first).pid)
        return None if self.air_missing else (first, MONITOR_NAME)

    def bring_home(self) -> None:
        """Bring all radios back from the nodes' network namespaces."""
        for node, card in self.cards.items():
            if node != MONITOR:
                card.bring_home()

    def read_links(self, testbed: Testbed) -> dict[str, Any]:
        """Return the properties of each card, by node.

        They are its interface and permanent address, driver, regulatory domain and channel. A
        station's link has rates, signal (dBm), and the driver's counts of frames sent, retries and
        failures since it was associated.
        """
        found: dict[str, Any] = {}
        for node, card in self.cards.items():
            found[node] = {"card": card.card_name, "address": card.state.permanent_address,
                           "driver": self._drivers[node]}
            if node == MONITOR:
                continue
            port = self.network.nodes[node].radio_interface
            with network_of(testbed.node(node).pid), contextlib.suppress(OSError):
                found[node] |= {
                    "regulatory_domain": wireless.read_country(card.state.phy),
                    "channel": to_channel(wireless.read_frequency_mhz(port))}
                if self.network.nodes[node].has_duty(STATION):
                    found[node]["link"] = wireless.read_link(port)
        return found
