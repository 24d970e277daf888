"""A study's own programs run over a policy on the air: on at home, moving while they run, watched.

The network is got onto as every study does it (`access`), and captured so that today's checks prove
the policy's layers from it (`in_force`). What runs meanwhile is the study's. Standard library only.
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

#: Enough of what is in a tunnel for its inner headers and the beginning of a payload.
_HEADS = Detail(snap_bytes=320, buffer_kib=2048, in_blocks=True)


def asked_points(client: str, hosts: Sequence[str], interface: str, shown: str) -> list[Point]:
    """Where what a mobile node of an address says to hosts at home shows in clear: at the hosts."""
    return [Point(f"{ASKED}{host}", host, interface, f"host {client} and ({shown})")
            for host in hosts]


class OverAir:
    """The policy of a testbed in the mobile world, for a workload with programs of its own.

    One that is `repeatable` is the same in two runs of a seed, which takes virtual time: Mobile
    IP's agents advertise when asked only (RFC 5944, 2.3), not at random times besides, and nobody
    who looks on goes before who is measured.
    """

    def __init__(self, site: Site, *, repeatable: bool = False) -> None:
        keys = site.secrets["mobile_ip"]
        self._site = site
        self._is_repeatable = repeatable
        self.access = Access(site, MobileIp(keys["key_hex"], keys["node_key_hex"],
                                            advertisement_interval_s=0.0 if repeatable
                                            else 1.0))

    def services(self) -> Sequence[Service]:
        """What the network is got onto by."""
        return self.access.services()

    @contextmanager
    def connected(self, scenario: Scenario, out: Path, session: Session, *,
                  has_port: bool) -> Iterator[Stay]:
        """The mobile node at home and able to talk to its peer while this lasts, all captured.

        `has_port` says that the policy has a port that has to be closed before (`uses_eap`).
        Raw values are those of a part of the repetition, PART. Raises MeasureError.
        """
        session = session.part(PART)
        raw = session.raw
        arrival = Arrival(self.access, scenario, session)
        captures = partial(capturing, self._site.testbed, out=out, logs=self._site.logs,
                           summaries=raw.setdefault("captures", []))
        raw["port_check"] = arrival.check_port(out, has_port=has_port)
        arrival.note_wires(out)
        used = [scenario.home, *([scenario.roams_to] if scenario.roams_to else [])]
        points = path_points(self._site, scenario, has_ipsec=self.access.has_ipsec,
                             access_points=used)
        try:
            arrival.begin()
            with captures(auth_points(replace(scenario, roams_to=None)), capture.WHOLE, part=AUTH):
                arrival.get_on(scenario.home)
            stay = Stay(self._site, arrival, session, captures)
            with captures(points, _HEADS, part=TRAFFIC), ExitStack() as stack:
                if self._is_repeatable:
                    stack.enter_context(precedence.given(os.getpid(), capture.PROGRAMS))
                stay.note_keys()
                yield stay
                stay.note_keys()
                arrival.ipsec_state("after_traffic")
                arrival.rest_of_the_path()
                capture.settle(self._site.testbed)
            if scenario.roams_to and not stay.has_moved:
                raise MeasureError("testbed", f"{scenario.mobile_node} did not move while it was "
                                   "measured; have the study's workload move it")
        finally:
            session.stamp("end")
            arrival.finish()

    def around_the_tunnel(self, scenario: Scenario, selector: Sequence[str]) -> None:
        """A negative control's: what the peer sends of this kind passes both tunnel ends in clear.

        `selector` is in the words of `ip xfrm policy`.
        """
        nodes = scenario.network.nodes
        source, target = nodes[scenario.peer].address, nodes[scenario.mobile_node].address
        for node, directions in ((scenario.agent, ("out", "fwd")), (scenario.mobile_node, ("in",))):
            for direction in directions:
                self._site.testbed.run(node, [
                    "ip", "xfrm", "policy", "update", "src", source, "dst", target, *selector,
                    "dir", direction, "priority", "1"])


class Stay:
    """The mobile node on the network: where it is, and its move where the scenario has one."""

    def __init__(self, site: Site, arrival: Arrival, session: Session, captures: Any) -> None:
        self._site, self._arrival, self._session = site, arrival, session
        self._captures = captures
        self.has_moved = False

    @property
    def moves(self) -> bool:
        """Whether the scenario has a move that did not take place yet."""
        return bool(self._arrival.scenario.roams_to) and not self.has_moved

    def move(self, at_s: float = 0.0) -> None:
        """From home to the visited network, as ever; what runs goes on. Raises MeasureError.

        It leaves at that time of the machine's clock, if captures of the move are ready by then.
        """
        scenario = self._arrival.scenario
        assert scenario.roams_to is not None
        points = [point for point in auth_points(scenario) if point.name != "wire"]
        with self._captures(points, capture.WHOLE, part=MOVE):
            time.sleep(max(0.0, at_s - time.monotonic()))
            self._arrival.move(scenario.roams_to)
        self.has_moved = True

    def note_keys(self) -> None:
        """Keep the keys of the peer's and the mobile node's IPsec SAs, to open captures with."""
        if self._arrival.access.has_ipsec:
            scenario = self._arrival.scenario
            kept = self._session.raw.setdefault("esp_keys", [])
            for node in dict.fromkeys((scenario.mobile_node, scenario.peer)):
                kept += [key for key in kernel.xfrm_keys(self._site.testbed, node)
                         if key not in kept]
