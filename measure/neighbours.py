"""Set permanent neighbour entries, so that no address resolution disturbs a measurement.

Standard library only: this runs inside the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed


def set_neighbours(testbed: Testbed) -> None:
    """Set a permanent neighbour entry at both ends of each wire."""
    nodes = testbed.network.nodes
    for link in testbed.network.links:
        ends = [end.split("/") for end in link.ends]
        for (node, port), (other, its_port) in (ends, ends[::-1]):
            hardware = testbed.run_command(other, ["cat", f"/sys/class/net/{its_port}/address"])
            testbed.run_command(node,
                                ["ip", "neigh", "replace", nodes[other].interfaces[its_port].ip,
                                       "lladdr", hardware.strip(), "dev", port, "nud", "permanent"])
