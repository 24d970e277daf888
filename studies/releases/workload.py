"""Let a mobile node join the network in the guest, and ping its peer.

The guest is a virtual machine with the daemons of one Debian release. `Workload.measure` runs one
measurement (repetition) by the given security policy. It leaves captures and the median round-trip
time, which are evaluated outside of the guest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from measure.agent.errors import MeasureError
from measure.agent.workload import Service, Session, Site
from measure.capture.tcpdump import WHOLE_AMID_STREAM
from measure.mobile_node.attachment import WirelessAccess
from topologies.model import Scenario, from_json

_INTERVAL_S = "0.02"
_PATIENCE_S = 60


class Workload:
    """A workload: a mobile node that joins, and echo requests to its peer."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._air = WirelessAccess(site)
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """Return the daemons that the policy needs."""
        return self._air.list_services()

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Measure one repetition.

        Raises:
            MeasureError: The mobile node did not join, or the peer did not answer.
        """
        scenario = from_json(Scenario, task["scenario"])
        session.raw["captures"] = []
        session.stamp("start")
        with self._air.attach_node(scenario, out, session, has_port=task["has_port"],
                                   resumes=task["resumes"],
                                   detail=WHOLE_AMID_STREAM) as stay:
            text = self._site.testbed.run_command(scenario.mobile_node, [
                "ping", "-n", "-c", str(task["asked"]["requests"]), "-i", _INTERVAL_S,
                scenario.network.nodes[scenario.peer].address], timeout_s=_PATIENCE_S)
            if stay.has_pending_move:
                stay.move_away()
        trips_ms = [float(value) for value in re.findall(r"time=([0-9.]+) ms", text)]
        if not trips_ms:
            raise MeasureError("traffic", f"{scenario.peer} answered no echo request")
        session.raw["round_trip_s"] = median(trips_ms) / 1e3
        session.stamp("end")
