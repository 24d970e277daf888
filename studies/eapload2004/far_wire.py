"""Change the wire between the two networks for negative controls, in the guest.

Only packets to the server are affected; answers of the server are never lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Timer

from measure.workload import Site
from studies.eapload2004 import network
from topologies import wires


def delay_packets(site: Site, by_ms: float) -> None:
    """Delay packets to the server by `by_ms` more from now on.

    Raises:
        CalledProcessError: A command has failed.
    """
    _change_wire(site, longer_ms=by_ms)


@contextmanager
def lose_packets(site: Site, seconds: float) -> Iterator[None]:
    """Lose every packet to the server for a number of seconds from now on."""
    _change_wire(site, loss_percent=100)
    mended = Timer(seconds, _change_wire, (site,))
    mended.start()
    try:
        yield
    finally:
        mended.join()


def _change_wire(site: Site, longer_ms: float = 0.0, loss_percent: float = 0.0) -> None:
    end = f"{network.ROUTER_NODE}/{network.FAR_WIRE}"
    [link] = [link for link in site.network.links if end in link.ends]
    other = replace(link, delay_ms=link.delay_ms + longer_ms, loss_percent=loss_percent)
    for step in wires.wire_commands(other, network.FAR_WIRE):
        site.testbed.run_command(network.ROUTER_NODE,
                                 step.replace("qdisc add", "qdisc replace").split())
