"""Workload of real-time cells: a tunnel, two programs and three captured phases.

It runs in the guest. A short phase is captured whole for the proof. Then the trace is replayed in
its own time, with headers captured. At last it is replayed as fast as it is taken; only packets
that do not belong to the protocol are captured then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from measure.capture import HEADERS, WHOLE, Detail, Point, capturing, settle_captures
from measure.errors import MeasureError
from measure.services.program import HostProgram
from measure.wireguard import PORT
from measure.workload import Session, Site
from studies.adp1987.realtime import BESIDE, LONGER_TIMEOUT
from studies.adp1987.realtime.program import REPORT, WINDOW
from studies.adp1987.realtime.tunnels import Tunnels, message_addresses

if TYPE_CHECKING:
    from studies.adp1987.inside import HostPrograms

#: Negative controls, with the protocols for which each exists.
CONTROLS = {BESIDE: ("wireguard", "esp"), LONGER_TIMEOUT: ("adp",)}
#: Capture filter for the packets of a protocol, fragments included.
OWN = {"adp": "ip proto 253", "wireguard": f"udp port {PORT}", "none": "udp",
       "esp": "esp or udp port 500"}
_COUNTERS = ("tx_bytes", "tx_packets", "rx_bytes", "rx_packets")


def measure_repetition(hosts: HostPrograms, tunnels: Tunnels, session: Session) -> None:
    """Measure one repetition in real time.

    Args:
        hosts: Programs of the repetition's hosts.
        tunnels: Tunnels of the testbed.
        session: Gets time stamps, raw values and progress reports.

    Raises:
        MeasureError: The negative control does not exist for the protocol, or a tunnel fails.
    """
    task, site = hosts.task, hosts.site
    protocol, fault = task["protocol"], task.get("fault", site.fault)
    if fault and protocol not in CONTROLS.get(fault, ()):
        raise MeasureError("testbed", f"--fault {fault}: is not for {protocol} in real time")
    captures = _Captures(site, hosts.out, session)
    session.raw["counters"] = {}
    with ExitStack() as stack:
        stack.enter_context(tunnels.keep_tunnel(protocol, session.raw))
        sink = stack.enter_context(_start_carrier(hosts, "sink", "beta"))
        source = stack.enter_context(_start_carrier(hosts, "source", "alpha"))
        with captures.capture_part("proof", WHOLE, "ip"):
            session.stamp("start")
            tunnels.start_handshake(protocol)
            if fault == BESIDE:
                tunnels.bypass_tunnel(protocol)
            source.run_command("establish")
            hosts.report_wait("proof", session)
            source.run_command("proof")
        _run_phases(hosts, captures, session, source)
        source.finish()
        sink.finish()


def _run_phases(hosts: HostPrograms, captures: _Captures, session: Session,
                source: HostProgram) -> None:
    own = OWN[hosts.task["protocol"]]
    for phase, expression in (("latency", "ip"), ("throughput", f"ip and not ({own})")):
        with captures.capture_part(phase, HEADERS, expression):
            before = _read_counters(hosts.site)
            session.stamp(phase)
            hosts.report_wait(phase, session)
            session.report(f"{phase}-begins")
            source.run_command(phase)
            session.report(f"{phase}-ends")
            after = _read_counters(hosts.site)
            settle_captures()
        session.raw["counters"][phase] = {name: after[name] - before[name] for name in after}
    session.stamp("end")


class _Captures:
    """Captures at the sender's end of the wire."""

    def __init__(self, site: Site, out: Path, session: Session) -> None:
        self._site, self._out, self._session = site, out, session

    @contextmanager
    def capture_part(self, part: str, detail: Detail, expression: str) -> Iterator[None]:
        """Capture packets while the context lasts."""
        with capturing(self._site.testbed, [Point("alpha", "alpha", "to-beta", expression)],
                       detail, part=part, out=self._out, logs=self._site.logs,
                       summaries=self._session.raw["captures"]):
            yield


def _read_counters(site: Site) -> Mapping[str, int]:
    """Return the kernel's counters at the sender's end of the wire."""
    folder = "/sys/class/net/to-beta/statistics"
    said = site.testbed.run_command("alpha", ["cat", *(f"{folder}/{name}" for name in _COUNTERS)])
    return dict(zip(_COUNTERS, map(int, said.split()), strict=True))


def _start_carrier(hosts: HostPrograms, role: str, host: str) -> HostProgram:
    task = hosts.task
    beside = hosts.fault == BESIDE
    ends = message_addresses(hosts.site, task["protocol"], bypasses_tunnel=beside)
    here, there = ends if host == "alpha" else ends[::-1]
    counts = [len(json.loads((hosts.out / f"{phase}.json").read_text())["messages"])
              for phase in hosts.phases]
    return hosts.start_carrier(role, host, {
        "address": here, "peer_address": there,
        "config": str(hosts.write_config(host)) if task["protocol"] == "adp" else "",
        "totals": [sum(counts[:place + 1]) for place in range(len(counts))],
        "counts_from": sum(counts[:-1]), "counts_after": "",
        "window": WINDOW, "report": REPORT, "may_lose": False})
