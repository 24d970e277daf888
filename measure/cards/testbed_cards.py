"""Give the nodes of an emulated network 802.11 cards of this machine as radios.

`TestbedCards` borrows a card for each node with a radio (`measure.cards.borrowing`), and places it
in the node's network namespace. An additional card captures each channel of the access points, or
a monitor interface at an access point's radio does. `list_channels` returns these channels.
`read_links` returns what real radios do differently from emulated radios: rates, retries and
signal. Standard library only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
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

#: Word in place of a node for the cards that capture the air, and the value for no capture.
MONITOR, NO_MONITOR = "monitor", "none"


def list_channels(network: Network) -> dict[int, str]:
    """Return the channels of a network's access points, each with its first access point."""
    channels: dict[int, str] = {}
    for name in network.of_duty(ACCESS_POINT):
        channels.setdefault(network.nodes[name].channel or 1, name)
    return channels


def split_monitors(names: Mapping[str, str]) -> list[str]:
    """Return the interfaces of the cards that only capture the air.

    Args:
        names: Text after "=" in `--card NODE=TEXT`, by node. The text of `MONITOR` has the cards
            that capture, with commas between them, or `NO_MONITOR`.
    """
    text = names.get(MONITOR, "")
    return [] if text in ("", NO_MONITOR) else text.split(",")


def name_monitor(number: int) -> str:
    """Return the key of a card that captures the air, where other cards have a node's name."""
    return MONITOR if number == 1 else f"{MONITOR}-{number}"


@dataclass
class TestbedCards:
    """The borrowed cards of an emulated network's nodes, by node.

    They are borrowed until `borrow_cards` ends. `captures_air` says whether the user wants a
    capture of the air. `air_missing` says why the air is not captured, and is "" if it is captured.
    `heard` has the channel that the radio of a card captures, by node.
    """

    network: Network
    cards: dict[str, BorrowedCard] = field(default_factory=dict)
    captures_air: bool = True
    air_missing: str = ""
    heard: dict[str, int] = field(default_factory=dict)
    _drivers: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def borrow_cards(cls, network: Network, names: Mapping[str, str]) -> Iterator[TestbedCards]:
        """Borrow the cards of the network's nodes, and restore them at the end.

        Args:
            network: The network.
            names: Interface of the card by node. `MONITOR` has the cards that capture, with commas
                between them. A network with fewer channels uses only the first of these cards.

        Raises:
            MeasureError: A card cannot be used, or could not be restored.
        """
        with ExitStack() as stack:
            testbed_cards = cls(network)
            testbed_cards.captures_air = names.get(MONITOR) != NO_MONITOR
            monitors = split_monitors(names)[:len(list_channels(network))]
            used = {node: names[node] for node in network.radio_nodes} | {
                name_monitor(number): name for number, name in enumerate(monitors, 1)}
            for node, name in used.items():
                testbed_cards._drivers[node] = wireless.read_driver(name)
                testbed_cards.cards[node] = stack.enter_context(borrow_card(
                    name, wants_monitor=False, moves=node in network.radio_nodes))
            yield testbed_cards

    def place_card(self, node: str, pid: int, name: str, address: str) -> None:
        """Give a node its card, as the radio with this interface and MAC address."""
        self.cards[node].place_card(pid, name, address)

    def start_monitors(self, testbed: Testbed) -> Sequence[tuple[str | None, str]]:
        """Start to hear all frames on the channels of the access points.

        Returns:
            Nodes (None for this machine), each with an interface on which frames are captured. The
            result is empty if a channel cannot be captured; `air_missing` says why.

        Raises:
            MeasureError: A card for the capture cannot be used.
        """
        if not self.captures_air:
            self.air_missing = f"--card {MONITOR}={NO_MONITOR} was given"
            return ()
        interfaces: list[tuple[str | None, str]] = []
        channels = list_channels(self.network)
        for number, (channel, access_point) in enumerate(channels.items(), 1):
            if (monitor := name_monitor(number)) in self.cards:
                self.cards[monitor].tune_monitor(frequency_mhz(channel))
                interfaces.append((None, self.cards[monitor].card_name))
                self.heard[monitor] = channel
                continue
            name = f"{MONITOR_NAME}{number}"
            if why := self.cards[access_point].add_monitor(testbed.node(access_point).pid, name):
                self.air_missing = f"channel {channel}: {why}" if len(channels) > 1 else why
                self.heard.clear()
                return ()
            interfaces.append((access_point, name))
            self.heard[access_point] = channel
        return interfaces

    def bring_home(self) -> None:
        """Bring all radios back from the nodes' network namespaces."""
        for node in self.network.radio_nodes:
            if node in self.cards:
                self.cards[node].bring_home()

    def read_links(self, testbed: Testbed) -> dict[str, Any]:
        """Return the properties of each card, by node.

        The properties are interface, permanent address, driver, regulatory domain with its rules,
        channel, and the channel that the card's radio captures. The link of a station has rates,
        signal (dBm), and the driver's counts since the association: frames sent, retries, failures.
        """
        found: dict[str, Any] = {}
        for node, card in self.cards.items():
            found[node] = {"card": card.card_name, "address": card.state.permanent_address,
                           "driver": self._drivers[node]}
            if node in self.heard:
                found[node]["captured_channel"] = self.heard[node]
            if node not in self.network.radio_nodes:
                continue
            port = self.network.nodes[node].radio_interface
            with network_of(testbed.node(node).pid), contextlib.suppress(OSError):
                found[node] |= {
                    "regulatory_domain": wireless.read_country(card.state.phy),
                    "regulatory_rules": wireless.read_rules(card.state.phy),
                    "channel": to_channel(wireless.read_frequency_mhz(port))}
                if self.network.nodes[node].has_duty(STATION):
                    found[node]["link"] = wireless.read_link(port)
        return found
