"""Run a study's own programs over a policy on the air, optionally with a handoff.

Authentication and captures are the toolkit's (`access`), so that its checks prove the policy's
layers (`in_force`). The programs are the study's. Standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from measure import capture, kernel, precedence
from measure.access import Access
from measure.arrival import Arrival
from measure.capture import Detail, Point, capturing
from measure.errors import MeasureError
from measure.messages import ASKED
from measure.points import AUTH, MOVE, PART, TRAFFIC, auth_points, path_points
from measure.services.mobile_ip import MobileIp
from measure.workload import Service, Session, Site
from topologies.model import Scenario

#: Enough for the inner headers inside a tunnel and the start of a payload.
_HEADS = Detail(snap_bytes=320, buffer_kib=2048, in_blocks=True)


def host_points(client: str, hosts: Sequence[str], interface: str, expression: str) -> list[Point]:
    """Return the points at hosts at home that show a client's packets in clear.

    Args:
        client: Address of the mobile node.
        hosts: Names of the hosts.
        interface: The hosts' interface.
        expression: Capture filter of the packets.
    """
    return [Point(f"{ASKED}{host}", host, interface, f"host {client} and ({expression})")
            for host in hosts]


class OverAir:
    """The policy of a mobile testbed, for a workload with its own programs.

    With `repeatable`, two runs of a seed are equal, which needs virtual time. Mobile IP's agents
    then advertise only on solicitation (RFC 5944, 2.3), not at random times. Observers run at lower
    priority than measured processes.
    """

    def __init__(self, site: Site, *, repeatable: bool = False) -> None:
        keys = site.secrets["mobile_ip"]
        self._site = site
        self._is_repeatable = repeatable
        self.access = Access(site, MobileIp(keys["key_hex"], keys["node_key_hex"],
                                            advertisement_interval_s=0.0 if repeatable
                                            else 1.0))

    def services(self) -> Sequence[Service]:
        """Return the services of network access."""
        return self.access.services()

    @contextmanager
    def connected(self, scenario: Scenario, out: Path, session: Session, *,
                  has_port: bool) -> Iterator[Stay]:
        """Attach the mobile node at home inside the context, with captures.

        The node can then talk to its peer. Raw values are those of the part PART.

        Args:
            scenario: The scenario.
            out: Folder for captures.
            session: The repetition's session.
            has_port: Whether the policy has an 802.1X port, to be checked as closed first
                (`uses_eap`).

        Raises:
            MeasureError: A step failed, or the workload did not move the node as the scenario
                requires.
        """
        session = session.create_part(PART)
        raw = session.raw
        arrival = Arrival(self.access, scenario, session)
        captures = partial(capturing, self._site.testbed, out=out, logs=self._site.logs,
                           summaries=raw.setdefault("captures", []))
        raw["port_check"] = arrival.check_port(out, has_port=has_port)
        arrival.record_wires(out)
        used = [scenario.home, *([scenario.roams_to] if scenario.roams_to else [])]
        points = path_points(self._site, scenario, has_ipsec=self.access.has_ipsec,
                             access_points=used)
        try:
            arrival.reset()
            with captures(auth_points(replace(scenario, roams_to=None)), capture.WHOLE, part=AUTH):
                arrival.attach_at(scenario.home)
            stay = Stay(self._site, arrival, session, captures)
            with captures(points, _HEADS, part=TRAFFIC), ExitStack() as stack:
                if self._is_repeatable:
                    stack.enter_context(precedence.real_time_priority(os.getpid(),
                                                                      capture.PROGRAMS))
                stay.record_keys()
                yield stay
                stay.record_keys()
                arrival.record_tunnel_state("after_traffic")
                arrival.record_path_state()
                capture.settle_captures(self._site.testbed)
            if scenario.roams_to and not stay.has_moved:
                raise MeasureError("testbed", f"{scenario.mobile_node} did not move while it was "
                                   "measured; have the study's workload move it")
        finally:
            session.stamp("end")
            arrival.record_end()

    def bypass_tunnel(self, scenario: Scenario, selector: Sequence[str]) -> None:
        """Let the peer's packets of this kind pass both tunnel ends in clear (negative control).

        `selector` is in the syntax of `ip xfrm policy`.
        """
        nodes = scenario.network.nodes
        source, target = nodes[scenario.peer].address, nodes[scenario.mobile_node].address
        for node, directions in ((scenario.agent, ("out", "fwd")), (scenario.mobile_node, ("in",))):
            for direction in directions:
                self._site.testbed.run_command(node, [
                    "ip", "xfrm", "policy", "update", "src", source, "dst", target, *selector,
                    "dir", direction, "priority", "1"])


class Stay:
    """The mobile node on the network, with its handoff if the scenario has one."""

    def __init__(self, site: Site, arrival: Arrival, session: Session, captures: Any) -> None:
        self._site, self._arrival, self._session = site, arrival, session
        self._captures = captures
        self.has_moved = False

    @property
    def moves(self) -> bool:
        """Return whether the scenario has a handoff that did not take place yet."""
        return bool(self._arrival.scenario.roams_to) and not self.has_moved

    def move_away(self, at_s: float = 0.0) -> None:
        """Move from home to the visited network while the programs run.

        Args:
            at_s: Time of the handoff on the machine's monotonic clock; later if captures are not
                ready.

        Raises:
            MeasureError: The node could not get onto the visited network.
        """
        scenario = self._arrival.scenario
        assert scenario.roams_to is not None
        points = [point for point in auth_points(scenario) if point.name != "wire"]
        with self._captures(points, capture.WHOLE, part=MOVE):
            time.sleep(max(0.0, at_s - time.monotonic()))
            self._arrival.move_to(scenario.roams_to)
        self.has_moved = True

    def record_keys(self) -> None:
        """Record the keys of the peer's and the mobile node's IPsec SAs, to decrypt captures."""
        if self._arrival.access.has_ipsec:
            scenario = self._arrival.scenario
            kept = self._session.raw.setdefault("esp_keys", [])
            for node in dict.fromkeys((scenario.mobile_node, scenario.peer)):
                kept += [key for key in kernel.xfrm_keys(self._site.testbed, node)
                         if key not in kept]
