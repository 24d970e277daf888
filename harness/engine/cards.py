"""Check the 802.11 cards of this machine that a run uses as radios (`--card NODE=INTERFACE`).

`parse_cards` reads the options. Before a results folder is made, `check_plan` refuses a plan whose
nodes with radios are not the nodes that have cards, and `check_cards` refuses cards that cannot be
used. The worker borrows and restores the cards (`measure.cards.testbed_cards`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from harness.engine.machine import require_root
from harness.engine.plan import Plan
from harness.errors import UserError
from measure.agent.errors import MeasureError
from measure.cards import borrowing, wireless
from measure.cards.testbed_cards import (
    MONITOR,
    NO_MONITOR,
    list_channels,
    split_monitors,
)
from topologies.builders import MININET_WIFI
from topologies.model import ACCESS_POINT, Network

#: Value of the setting `medium` for a testbed without an emulated medium.
NO_MEDIUM = "none"


def parse_cards(texts: Sequence[str], on: str) -> dict[str, str]:
    """Return the card of each node from the options, by node.

    The value of `monitor` may be several cards, with commas between them.

    Args:
        texts: Values of `--card`, such as "a2=wlan0".
        on: Value of `--on`: "guest", "vm" or "host".

    Raises:
        UserError: A value has no card, or a node or card is named twice. Or `on` is not "host", and
            only there are the cards of this machine available.
    """
    cards, nodes = dict[str, str](), dict[str, str]()
    for text in texts:
        node, _, name = text.partition("=")
        if not node or not name:
            raise UserError(f"--card {text}: give NODE=INTERFACE, such as a2=wlan0")
        if node in cards:
            how = (f"write --card {MONITOR}={cards[node]},{name}" if node == MONITOR
                   else "leave one out")
            raise UserError(f"--card {text}: {node} has the card {cards[node]}; {how}")
        for each in name.split(",") if node == MONITOR else [name]:
            if not each or (each == NO_MONITOR and name != NO_MONITOR):
                raise UserError(f"--card {text}: give names of cards with a comma between them, or "
                                f"{NO_MONITOR} alone")
            if each in nodes:
                raise UserError(f"--card {text}: {each} is the card of {nodes[each]}; give each "
                                "node a card of its own")
            nodes[each] = node
        cards[node] = name
    if cards and on != "host":
        raise UserError(f"--card {texts[0]}: the cards are this machine's, which {on}s do not see; "
                        "add --on host")
    return cards


def check_plan(plan: Plan, builder: str) -> None:
    """Check that the nodes of a plan with radios are those that have cards.

    Args:
        plan: The plan.
        builder: The requested network builder.

    Raises:
        UserError: A node has no radio, or no card, or there are more monitors than channels.
    """
    cards = plan.settings.cards
    if builder == MININET_WIFI:
        raise UserError(f"--builder {builder}: makes radios by itself; leave it out with --card")
    networks = [testbed.spec.network for testbed in plan.testbeds.values()]
    needed = list(dict.fromkeys(name for network in networks for name in network.radio_nodes))
    for node, name in cards.items():
        if node not in (*needed, MONITOR):
            raise UserError(f"--card {node}={name}: no scenario has a node {node} with a radio; "
                            f"choose from {', '.join(needed) or 'none'}, or {MONITOR}")
    if missing := [node for node in needed if node not in cards]:
        raise UserError(f"--card: no card for {', '.join(missing)}; add --card {missing[0]}=NAME, "
                        "or choose a scenario with fewer nodes")
    most = max(networks, key=lambda network: len(list_channels(network)))
    monitors, channels = split_monitors(cards), [*list_channels(most)]
    if len(monitors) > len(channels):
        raise UserError(f"--card {MONITOR}={cards[MONITOR]}: {most.name} has access points on "
                        f"{len(channels)} channel{'s' * (len(channels) > 1)}, and a card captures "
                        f"one; leave out {monitors[-1]}")


def check_cards(plan: Plan) -> None:
    """Check that a plan's cards can be used, and restore cards that a killed run left changed.

    Raises:
        UserError: A card is missing, blocked or in use, or its driver lacks what its node needs.
    """
    require_root()
    cards = plan.settings.cards
    networks = [testbed.spec.network for testbed in plan.testbeds.values()]
    access_points = [name for network in networks for name in network.of_duty(ACCESS_POINT)]
    used = [*((node, name) for node, name in cards.items() if node != MONITOR),
            *((MONITOR, name) for name in split_monitors(cards))]
    for node, name in used:
        try:
            if borrowing.restore_abandoned(name):
                click.echo(f"qop: {name}: restored after a run that was killed", err=True)
            state = borrowing.check_card(name, moves=node != MONITOR)
        except MeasureError as error:
            raise UserError(f"--card {node}={error}", status=1) from None
        if node in access_points:
            _require_type(state, node, wireless.ACCESS_POINT, "AP mode")
        if node == MONITOR:
            _require_type(state, node, wireless.MONITOR, "monitor mode")
    for network in {(network.name, *list_channels(network)): network
                    for network in networks}.values():
        _tell_captured_air(cards, network)


@contextmanager
def tell_changed_rules() -> Iterator[None]:
    """Print a line if the regulatory rules of the same country have changed at the end.

    Cards get their country back. But the kernel takes the rules of a country only from its
    database. So the rules that are built into the kernel cannot be restored.
    """
    try:
        before = wireless.read_country(), wireless.read_rules()
    except OSError:  # no 802.11 in this kernel, which another check says
        yield
        return
    try:
        yield
    finally:
        country, rules = wireless.read_country(), wireless.read_rules()
        if country == before[0] and rules != before[1]:
            click.echo(f"qop: the rules of the regulatory domain {country} are others than before, "
                       "and the kernel takes none but those of its database; start the machine "
                       "again to have the earlier ones", err=True)


def _tell_captured_air(cards: Mapping[str, str], network: Network) -> None:
    """Print which channels of a network no additional card captures, and what is not proven."""
    why, notes = "", []
    channels = list_channels(network)
    for channel, node in [*channels.items()][len(split_monitors(cards)):]:
        if not wireless.supports_type(wireless.read_card(cards[node]).phy, wireless.MONITOR):
            why = f"--card {node}={cards[node]}: its driver has no monitor mode"
        elif MONITOR in cards:
            notes.append(f"channel {channel} is captured at the radio of {node}")
    if cards.get(MONITOR) == NO_MONITOR:
        why = f"--card {MONITOR}={NO_MONITOR}"
    if why:
        click.echo(f"qop: {why}: checks of frames on the air are not made, such as whether data "
                   "frames are encrypted; records name them", err=True)
    elif notes:
        click.echo(f"qop: --card {MONITOR}={cards[MONITOR]}: hears {len(split_monitors(cards))} of "
                   f"the {len(channels)} channels of {network.name}; {', '.join(notes)}", err=True)


def _require_type(state: wireless.CardState, node: str, number: int, mode: str) -> None:
    """Raise UserError if a card's driver lacks a mode that its node needs."""
    if not wireless.supports_type(state.phy, number):
        raise UserError(f"--card {node}={state.name}: its driver has no {mode}; give another card",
                        status=1)


def choose_medium(cards: Mapping[str, str], chosen: str | None) -> str:
    """Return the setting `medium` of a run with cards, which emulates none.

    Args:
        cards: The cards by node.
        chosen: The user's medium, None without one.

    Raises:
        UserError: The user chose an emulated medium.
    """
    if chosen not in (None, NO_MEDIUM):
        raise UserError(f"--medium {chosen}: the medium of cards is the air; leave it out, or "
                        f"leave out --card {next(iter(cards))}={next(iter(cards.values()))}")
    return NO_MEDIUM
