"""Test of neighbours that know each other: every end of every wire, and nobody else."""

from __future__ import annotations

from collections.abc import Sequence

from measure.agent.kernel_state import set_neighbours
from topologies import shapes
from topologies.loader import load_wire
from topologies.model import Network


class SaidTestbed:
    """Takes note of commands; an interface's address is its node's name and its own."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.said: dict[tuple[str, str], str] = {}

    def run_command(self, name: str, argv: Sequence[str]) -> str:
        """What the command would print."""
        if argv[0] == "cat":
            return f"{name} {argv[1].split('/')[4]}\n"
        kind, _, _, address, _, hardware, _, port, *rest = argv
        assert (kind, rest) == ("ip", ["nud", "permanent"])
        self.said[name, port] = f"{address} is {hardware}"
        return ""


def test_each_end_knows_the_other() -> None:
    """By the other's address on that wire, without its prefix, for good."""
    testbed = SaidTestbed(shapes.make_star("two",
                                           {name: load_wire("lan-10m") for name in ("a", "b")},
                                           lambda _: []))
    set_neighbours(testbed)  # type: ignore[arg-type]
    nodes = testbed.network.nodes
    assert len(testbed.said) == 2 * len(testbed.network.links) == 4
    for link in testbed.network.links:
        ends = [end.split("/") for end in link.ends]
        for (node, port), (other, its_port) in (ends, ends[::-1]):
            address, _, length = (nodes[other].interfaces[its_port].address or "").partition("/")
            assert length
            assert testbed.said[node, port] == f"{address} is {other} {its_port}"
