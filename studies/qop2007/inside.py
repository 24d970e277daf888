"""Workload in the guest: authenticate, move, stream and tidy up.

The results are raw: captures, events, kernel state and iperf3's JSON. They are judged outside the
guest (see `judge`). This module needs no more than the guest has: the standard library and the
toolkit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from measure import capture, iperf, outages, path_mtu, time_limits
from measure.access import Access
from measure.arrival import Arrival
from measure.capture import Detail, Point, capturing
from measure.errors import MeasureError
from measure.points import auth_points, path_points
from measure.services.iperf3 import Iperf3
from measure.services.mobile_ip import MobileIp
from measure.workload import Service, Session, Site
from studies.qop2007 import attacking, survival, unprotected
from topologies.model import Scenario, from_json
from topologies.paths import NetworkPath

#: Context manager of captures at some points, with some detail.
Capturing = Callable[..., AbstractContextManager[object]]
#: Negative control that takes away the protection of an authentication in the middle (see
#: `controls`), and the number of that authentication.
_SECOND_IN_CLEAR, _SECOND = "second-in-clear", 2


@dataclass(frozen=True)
class Streams:
    """Sizes of the TCP and UDP streams, and the rate of UDP."""

    tcp_bytes: int
    udp_bytes: int
    udp_payload_bytes: int
    udp_rate_bps: float
    #: Share of the expected packets that captures keep: one in this many.
    one_in: int = 1


class Workload:
    """Mobile nodes that authenticate by a policy's layers, and stream to a peer."""

    def __init__(self, site: Site) -> None:
        self._site = site
        keys = site.secrets["mobile_ip"]
        self._access = Access(site, MobileIp(
            keys["key_hex"], keys["node_key_hex"], **site.options,
            runner=unprotected.RUNNERS.get(site.fault, "")))
        self._servers = Iperf3(site,
                               [_scenario_from_task(task).peer for task in site.tasks.values()])
        #: Mobile nodes whose last registration was with an agent of another subnet.
        self._abroad: set[str] = set()
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
            "connect": self._connect, "survive": self._survive}

    def services(self) -> Sequence[Service]:
        """Return the services that nodes need to get on the network, and iperf3's servers."""
        return [*self._access.services(), self._servers]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Authenticate several times from a clean state, move if required and stream.

        Args:
            task: the scenario and the numbers and streams of `matrix`, sizes in bytes.
            out: folder of the repetition, which gets the captures.
            session: raw values, time stamps and parts of the repetition.

        Raises:
            MeasureError: an authentication, a move, a stream or a control failed.
        """
        scenario, streams = _scenario_from_task(task), Streams(**task["streams"])
        raw = session.raw
        arrival = Arrival(self._access, scenario, session, roaming=task["roaming"])
        raw["captures"] = []
        captures: Capturing = partial(capturing, self._site.testbed, out=out,
                                      logs=self._site.logs, summaries=raw["captures"])
        raw["port_check"] = arrival.check_port(out, has_port=task["has_port"])
        arrival.record_wires(out)
        try:
            self._refuse_control(task["authentications"])
            self._come_home(scenario)
            if task["resumes"]:  # A session can be resumed only after a first authentication.
                self._access.connect_mobile_node(scenario)
            fewer = self._site.fault == unprotected.FEWER
            at_home = replace(scenario, roams_to=None)
            for number in range(1, task["authentications"] - fewer):
                in_clear = self._site.fault == _SECOND_IN_CLEAR and number == _SECOND
                name = f"auth{number}"
                moves = number > task["authentications"] - task["moves"]
                self._authenticate(scenario if moves else at_home, task["roaming"],
                                   partial(captures, part=name), session.create_part(name),
                                   in_clear=in_clear)
                self._come_home(scenario)
            arrival.reset()
            arrival.visit_first()
            detail = capture.WHOLE_AMID_STREAM if task["move_stream_ms"] else \
                capture.whole_frames(self._site.testbed)
            with (captures(self._auth_points(scenario), detail, part="auth"),
                  self._settling_captures(detail)):
                arrival.attach_at(scenario.home)
                if scenario.roams_to:
                    self._move_node(arrival, scenario.roams_to, session, task["move_stream_ms"])
            with unprotected.capturing_streams(self._site.fault, captures, self._traffic_points(
                    scenario, streams), self._capture_detail):
                session.report_shareable()
                unprotected.apply_control(self._site, scenario)
                raw["attack"] = self._site.fault
                self._send_streams(arrival, streams, session)
                arrival.record_tunnel_state("after_traffic")
                unprotected.apply_afterwards(self._site.fault, self._access, scenario)
                arrival.record_path_state()
                capture.settle_captures(self._site.testbed)
        finally:
            session.stamp("end")
            arrival.record_end()
        attacking.carry_out(self._site.fault, arrival, captures)

    def _come_home(self, scenario: Scenario) -> None:
        """Let a node that was abroad return home once, before anything is measured.

        The agent and the node announce its return in the subnet (RFC 5944, 4.6), which is no part
        of an authentication from a clean state. Under P1 it doubled the first authentication after
        a repetition abroad.
        """
        if scenario.mobile_node in self._abroad:
            self._abroad.remove(scenario.mobile_node)
            self._access.connect_mobile_node(replace(scenario, roams_to=None))

    def _move_node(self, arrival: Arrival, access_point: str, session: Session,
                   interval_ms: int) -> None:
        """Move to another access point, during a stream if `interval_ms` is not 0."""
        scenario = arrival.scenario
        if scenario.foreign_agent is not None and not self._access.follows:
            self._abroad.add(scenario.mobile_node)
        ends = (scenario.mobile_node, scenario.peer)
        with (outages.streaming(self._site, session, ends, interval_ms,
                                added_s=self._access.limits.crossing_s(scenario),
                                keeps_address=self._access.follows) if interval_ms
              else nullcontext()):
            arrival.move_to(access_point)

    def _authenticate(self, scenario: Scenario, roaming: str, captures: Capturing,
                      session: Session, *, in_clear: bool) -> None:
        """Authenticate at home from a clean state and move if required, with pings only."""
        arrival = Arrival(self._access, scenario, session,
                          roaming=roaming if scenario.roams_to else "")
        try:
            with unprotected.leaving_sa(self._site.fault, self._site.testbed, scenario):
                arrival.reset()
            arrival.visit_first()
            detail = capture.whole_frames(self._site.testbed)
            with (captures(self._auth_points(scenario), detail), self._settling_captures(detail),
                  self._in_clear(arrival) if in_clear else nullcontext()):
                arrival.attach_at(scenario.home)
                if scenario.roams_to:
                    self._move_node(arrival, scenario.roams_to, session, 0)
                arrival.record_tunnel_state("after_traffic")
                arrival.record_path_state()
        finally:
            arrival.record_end()

    @contextmanager
    def _settling_captures(self, detail: Detail) -> Iterator[None]:
        """Wait at the end, even after an error, until captures hold all packets.

        A refusal is the last packet that is sent.
        """
        try:
            yield
        finally:
            capture.settle_captures(self._site.testbed, detail)

    def _refuse_control(self, authentications: int) -> None:
        """Refuse the control if the protection that it takes away is missing."""
        if self._site.fault == _SECOND_IN_CLEAR and not (
                authentications > _SECOND and self._access.has_ipsec):
            raise MeasureError("testbed", f"the control {_SECOND_IN_CLEAR} needs a policy with "
                               f"IPsec, and {_SECOND + 1} authentications or more")

    @contextmanager
    def _in_clear(self, arrival: Arrival) -> Iterator[None]:
        """Build no tunnel and remove both ends' IPsec policies, so that packets pass in clear."""
        station = arrival.station
        charon, station.charon = station.charon, None
        for node in (station.name, arrival.scenario.agent):
            self._site.testbed.run_command(node, ["ip", "xfrm", "policy", "flush"])
        try:
            yield
        finally:
            station.charon = charon

    @property
    def _capture_detail(self) -> Detail:
        return capture.HEADERS if self._site.testbed.medium else capture.HEADERS_UNLIMITED

    def _send_streams(self, arrival: Arrival, streams: Streams, session: Session) -> None:
        for protocol, size_bytes in (("tcp", streams.tcp_bytes), ("udp", streams.udp_bytes)):
            tries = time_limits.required_tries(
                self._path_to_peer(arrival)) if protocol == "udp" else 1
            for number in range(1, tries + 1):
                try:
                    self._send_stream(arrival, streams, session, protocol, size_bytes)
                except MeasureError as error:
                    if number == tries or not iperf.is_unanswered(error):
                        raise self._explain_error(error, arrival) from None
                else:
                    break

    def _send_stream(self, arrival: Arrival, streams: Streams, session: Session, protocol: str,
                     size_bytes: int) -> None:
        """Send one stream, after the server has finished the one before. Raises MeasureError."""
        limits, path = self._access.limits, self._path_to_peer(arrival)
        limit_s = limits.tcp_stream_s(path, size_bytes) if protocol == "tcp" else \
            limits.udp_stream_s(path, size_bytes, streams.udp_rate_bps)
        self._servers.wait_idle(arrival.scenario.peer, limits.stream_ended_s(path))
        # Restart the backoffs' random numbers, so that they are equal under every policy, whatever
        # was sent before.
        self._site.testbed.reseed_backoffs(protocol)
        session.stamp(f"{protocol}_start")
        session.raw[f"iperf_{protocol}"] = iperf.run_stream(
            self._site.testbed, arrival.station.name, arrival.peer, protocol=protocol,
            size_bytes=size_bytes, timeout_s=limit_s, rate_bps=streams.udp_rate_bps,
            payload_bytes=streams.udp_payload_bytes)
        session.stamp(f"{protocol}_end")

    def _path_to_peer(self, arrival: Arrival) -> NetworkPath:
        return self._access.limits.to_peer(arrival.scenario)

    def _explain_error(self, error: MeasureError, arrival: Arrival) -> MeasureError:
        """Return a stream's error with the cause that the path shows."""
        cause = self._find_cause(arrival)
        return MeasureError(error.stage, f"{error.reason}: {cause}") if cause else error

    def _find_cause(self, arrival: Arrival) -> str:
        """Return what keeps packets from the peer ("": nothing), by probing the path."""
        name, testbed = arrival.station.name, self._site.testbed
        device = self._access.tunnel_device(name) or arrival.station.radio
        mtu = int(testbed.run_command(name, ["cat", f"/sys/class/net/{device}/mtu"]))
        largest = path_mtu.largest_packet(testbed, name, arrival.peer,
                                          self._access.limits.data_s(arrival.scenario))
        return path_mtu.describe_cause(largest, mtu, arrival.peer)

    def _auth_points(self, scenario: Scenario) -> Sequence[Point]:
        return auth_points(scenario, has_macsec=bool(self._site.testbed.macsec))

    def _traffic_points(self, scenario: Scenario, streams: Streams) -> list[Point]:
        """Return the capture points: the air, the peer and the wires on the path."""
        return [self._receiver_point(scenario), *path_points(
            self._site, scenario, has_ipsec=self._access.has_ipsec, one_in=streams.one_in)]

    def _receiver_point(self, scenario: Scenario) -> Point:
        """Return the capture point of the receiver, behind the tunnel if there is one.

        In transport mode the kernel shows ESP packets only, so these are captured.
        """
        peer = self._site.network.nodes[scenario.peer]
        encrypted = any(state["mode"] == "transport"
                        for state in self._access.ipsec_states(scenario).get(scenario.peer, ()))
        tunnel = self._access.tunnel_device(scenario.peer)
        return Point("peer", scenario.peer, tunnel or peer.interface_of(peer.address),
                     "esp" if encrypted else f"udp dst port {iperf.PORT}")

    def _connect(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """Connect the mobile node as a repetition does, and leave it connected."""
        station = self._access.connect_mobile_node(_scenario_from_task(task))
        return {"station": station.name}

    def _survive(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """Move while a TCP connection is in use (see `survival`)."""
        scenario = _scenario_from_task(task)
        return survival.move_during_stream(self._site.testbed, self._access, scenario)


def _scenario_from_task(task: Mapping[str, Any]) -> Scenario:
    scenario: Scenario = from_json(Scenario, task["scenario"])
    return scenario
