"""Survival of a TCP connection that is opened at home and streams during a move.

The kernel of the receiver is asked about the connection, because iperf3 might open another one.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from measure import iperf, kernel
from measure.access import Access
from measure.errors import MeasureError
from topologies.model import Scenario

if TYPE_CHECKING:  # The builder needs Mininet, which only the guest has.
    from topologies.builder import Testbed

# Bytes that show a stream under way. They pass within a second at 1 Mbit/s.
_ENOUGH_BYTES = 100_000
_DEADLINE_S = 10.0
_POLL_S = 0.02
_STREAM_S = 60


def move_during_stream(testbed: Testbed, access: Access, scenario: Scenario) -> dict[str, Any]:
    """Move to the visited network in the middle of a stream.

    The mobile node is connected at home first.

    Returns:
        `connection`: the mobile node's end of the stream's TCP connection. `received_before`,
        `received_arriving` and `received_after`: bytes of the connection at the peer before the
        node left, when it was registered again, and at the end. `outage_s`: time (s) without
        new bytes after the node left.

    Raises:
        MeasureError: the scenario has no move, or the stream does not begin, stalls, or does not
            continue after the move.
    """
    if scenario.roams_to is None:
        raise MeasureError("testbed", f"nobody moves in {scenario.id}")
    nodes, station = testbed.network.nodes, access.connect_mobile_node(scenario)
    argv = ["iperf3", "--client", nodes[scenario.peer].address, "--port", str(iperf.PORT),
            "--time", str(_STREAM_S)]

    def received() -> dict[str, int]:
        return kernel.received_bytes(testbed, scenario.peer, iperf.PORT)

    with subprocess.Popen(testbed.node_command(station.name, argv), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as stream:
        try:
            _wait_until(lambda: max(received().values(), default=0) > _ENOUGH_BYTES,
                        "does not begin")
            seen = received()
            connection = max(seen, key=lambda peer: seen[peer])
            left = time.monotonic()
            station.leave()
            before = received()[connection]
            access.attach_station(station.name, scenario.roams_to)
            arriving = received().get(connection, 0)
            _wait_until(lambda: received().get(connection, 0) > arriving,
                        "did not go on after the move")
            outage_s = time.monotonic() - left
            _wait_until(lambda: received().get(connection, 0) > arriving + _ENOUGH_BYTES, "stalls")
            return {"connection": connection, "received_before": before,
                    "received_arriving": arriving, "received_after": received()[connection],
                    "outage_s": outage_s}
        finally:
            stream.terminate()


def _wait_until(reached: Callable[[], bool], failure: str) -> None:
    until = time.monotonic() + _DEADLINE_S
    while not reached():
        if time.monotonic() > until:
            raise MeasureError("stream", f"the TCP stream {failure} within {_DEADLINE_S:g} s")
        time.sleep(_POLL_S)
