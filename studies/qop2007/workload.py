"""Authenticate a mobile node in the guest, move it, and send streams.

The guest is the virtual machine of the test network. `Workload.measure` runs one measurement
(repetition) with the daemons that the security policy needs. It records raw data only: packet
captures, events, kernel state and the JSON of iperf3. `judge.py` evaluates them outside of the
guest. `move_during_stream` tests whether a TCP connection survives a handoff. The module uses only
the standard library and `measure`, because the guest has nothing else. `studies.qop2007` lists the
terms.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.agent import kernel_state, time_limits
from measure.agent.errors import MeasureError
from measure.agent.workload import Service, Session, Site
from measure.capture import tcpdump
from measure.capture.tcpdump import (
    CaptureDetail,
    CapturePoint,
    auth_points,
    capture_packets,
    path_points,
)
from measure.mobile_node import outages
from measure.mobile_node.access import NetworkAccess
from measure.mobile_node.attachment import AttachmentSteps
from measure.services import iperf
from measure.services.iperf import Iperf3
from measure.services.mobile_ip import MobileIp
from studies.qop2007 import attacks, fault_injection
from topologies.model import Scenario, from_json
from topologies.paths import NetworkPath

if TYPE_CHECKING:
    from topologies.builder import Testbed


# --- Survival of a TCP connection that is opened at home and streams during a move ---
# The kernel of the receiver is asked about the connection, because iperf3 might open another one.

# Bytes that show a stream under way. They pass within a second at 1 Mbit/s.
_ENOUGH_BYTES = 100_000
_DEADLINE_S = 10.0
_POLL_S = 0.02
_STREAM_S = 60


def move_during_stream(testbed: Testbed, access: NetworkAccess,
                       scenario: Scenario) -> dict[str, Any]:
    """Move the mobile node to the visited network while a TCP stream runs.

    The stream starts at home. The function measures whether the TCP connection survives.

    Returns:
        `connection`: the mobile node's end of the stream's TCP connection. `received_before`,
        `received_arriving` and `received_after`: bytes of the connection at the peer before the
        node left, when it was registered again, and at the end. `outage_s`: time (s) without new
        bytes after the node left.

    Raises:
        MeasureError: the scenario has no move, or the stream does not begin, stalls, or does not
            continue after the move.
    """
    if scenario.roams_to is None:
        raise MeasureError("testbed", f"nobody moves in {scenario.id}")
    station = access.connect_mobile_node(scenario)
    argv = ["iperf3", "--client", testbed.network.address_of(scenario.peer), "--port",
            str(iperf.PORT), "--time", str(_STREAM_S)]

    def received() -> dict[str, int]:
        return kernel_state.received_bytes(testbed, scenario.peer, iperf.PORT)

    with subprocess.Popen(testbed.node_command(station.name, argv), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as stream:
        try:
            _wait_until(lambda: max(received().values(), default=0) > _ENOUGH_BYTES,
                        "does not begin")
            received_count = received()
            connection = max(received_count, key=lambda peer: received_count[peer])
            left_s = time.monotonic()
            station.leave()
            before = received()[connection]
            access.attach_station(station.name, scenario.roams_to)
            arriving = received().get(connection, 0)
            _wait_until(lambda: received().get(connection, 0) > arriving,
                        "did not go on after the move")
            outage_s = time.monotonic() - left_s
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


# --- Workload ---

#: Context manager of captures at some points, with some detail.
CaptureContext = Callable[..., AbstractContextManager[object]]
#: Negative control that takes away the protection of an authentication in the middle
#: (`faults.UNPROTECTED`), and the number of that authentication.
_SECOND_IN_CLEAR, _SECOND = "second-in-clear", 2


@dataclass(frozen=True)
class Streams:
    """Sizes (bytes) of the TCP and UDP streams, and the UDP rate (bit/s)."""

    tcp_bytes: int
    udp_bytes: int
    udp_payload_bytes: int
    udp_rate_bps: float
    #: Share of the expected packets that captures keep: one in this many.
    one_in: int = 1


class Workload:
    """A workload: authenticate a mobile node as its policy says, and send streams to a peer."""

    def __init__(self, site: Site) -> None:
        self._site = site
        keys = site.secrets["mobile_ip"]
        self._access = NetworkAccess(site, MobileIp(
            keys["key_hex"], keys["node_key_hex"], **site.options,
            runner=fault_injection.RUNNERS.get(site.fault, "")))
        self._servers = Iperf3(site,
                               [_scenario_from_task(task).peer for task in site.tasks.values()])
        #: Mobile nodes whose last registration was with an agent of another subnet.
        self._abroad: set[str] = set()
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
            "connect": self._connect_station, "survive": self._measure_survival}

    def services(self) -> Sequence[Service]:
        """Return the services to start: those for network access, such as RADIUS, and iperf3."""
        return [*self._access.list_services(), self._servers]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Authenticate several times from a clean state, move if required and stream.

        Args:
            task: the instructions of `cells.build_task`: scenario, counts of authentications and
                moves, and streams with their sizes in bytes.
            out: folder of the repetition, which gets the captures.
            session: raw values, time stamps and parts of the repetition.

        Raises:
            MeasureError: an authentication, a move, a stream or a control failed.
        """
        scenario, streams = _scenario_from_task(task), Streams(**task["streams"])
        raw = session.raw
        arrival = self._make_arrival(scenario, session, task)
        raw["captures"] = []
        captures: CaptureContext = partial(capture_packets, self._site.testbed, out=out,
                                           logs=self._site.logs, summaries=raw["captures"])
        raw["port_check"] = arrival.check_port(out, has_port=task["has_port"],
                                               probes_server=task["probes_server"],
                                               revoked=task["revoked"],
                                               other_name=task["other_name"])
        arrival.try_alternatives(task["alternatives"], out)
        arrival.record_wires(out)
        try:
            self._refuse_control(task["authentications"])
            fault_injection.apply_to_network(self._site, scenario)
            self._come_home(scenario)
            if task["resumes"] and not task["resumes_once"]:
                self._access.begin_session(scenario)
            fewer = self._site.fault == fault_injection.FEWER
            at_home = replace(scenario, roams_to=None)
            for number in range(1, task["authentications"] - fewer):
                in_clear = self._site.fault == _SECOND_IN_CLEAR and number == _SECOND
                name = f"auth{number}"
                moves = number > task["authentications"] - task["moves"]
                self._authenticate(scenario if moves else at_home, task,
                                   partial(captures, part=name), session.create_part(name),
                                   in_clear=in_clear)
                self._come_home(scenario)
            if task["resumes_once"]:
                self._access.begin_session(scenario)
            arrival.reset_state()
            fault_injection.apply_to_station(self._site, scenario)
            arrival.visit_first()
            detail = tcpdump.WHOLE_AMID_STREAM if task["move_stream_ms"] else \
                tcpdump.whole_frames(self._site.testbed)
            with (captures(self._auth_points(scenario), detail, part="auth"),
                  self._settling_captures(detail)):
                arrival.attach_at(scenario.home)
                if scenario.roams_to:
                    self._move_node(arrival, scenario.roams_to, session, task["move_stream_ms"])
                arrival.probe_vlans()
            with fault_injection.capturing_streams(self._site.fault, captures, self._traffic_points(
                    scenario, streams), self._capture_detail):
                session.report_shareable()
                fault_injection.apply_control(self._site, scenario)
                raw["attack"] = self._site.fault
                self._send_streams(arrival, streams, session)
                arrival.record_tunnel_state()
                fault_injection.apply_afterwards(self._site.fault, self._access, scenario)
                arrival.record_path_state()
                tcpdump.settle_captures(self._site.testbed)
            arrival.probe_translation(captures, task["idle_s"],
                                      restarts=self._site.fault != fault_injection.KEPT_MAPPING)
        finally:
            session.stamp("end")
            arrival.record_end()
        attacks.carry_out_attack(self._site.fault, arrival, captures)

    def _make_arrival(self, scenario: Scenario, session: Session,
                      task: Mapping[str, Any]) -> AttachmentSteps:
        """Return the steps of the mobile node, which moves as the task says if it moves at all."""
        return AttachmentSteps(
            self._access, scenario, session, roaming=task["roaming"] if scenario.roams_to else "",
            is_over_ds=self._site.fault == fault_injection.STALE_CHANNEL or (
                task["over_ds"] and self._site.fault != fault_injection.OVER_THE_AIR))

    def _come_home(self, scenario: Scenario) -> None:
        """Return the mobile node to its home network before measuring, if it was in another subnet.

        On its return, node and home agent send announcements (RFC 5944, 4.6). They do not belong to
        an authentication. Under policy P1 (no protection) they doubled the first measured time.
        """
        if scenario.mobile_node in self._abroad:
            self._abroad.remove(scenario.mobile_node)
            self._access.connect_mobile_node(replace(scenario, roams_to=None))

    def _move_node(self, arrival: AttachmentSteps, access_point: str, session: Session,
                   interval_ms: int) -> None:
        """Move the mobile node to another access point.

        With an `interval_ms` other than 0, probe packets run in both directions during the move.
        """
        scenario = arrival.scenario
        if scenario.foreign_agent is not None and not self._access.has_following_tunnel:
            self._abroad.add(scenario.mobile_node)
        ends = (scenario.mobile_node, scenario.peer)
        with (outages.send_probe_streams(self._site, session, ends, interval_ms,
                                         added_s=self._access.limits.crossing_s(scenario),
                                         keeps_address=self._access.has_following_tunnel)
              if interval_ms
              else nullcontext()):
            arrival.move_to(access_point)

    def _authenticate(self, scenario: Scenario, task: Mapping[str, Any], captures: CaptureContext,
                      session: Session, *, in_clear: bool) -> None:
        """Authenticate at home from a clean state, and move if the scenario has a move.

        All authentications of a repetition but the last one use this method. No traffic streams
        follow.
        """
        arrival = self._make_arrival(scenario, session, task)
        try:
            if task["resumes_once"]:
                self._access.begin_session(scenario)
            with fault_injection.leaving_sa(self._site.fault, self._site.testbed, scenario):
                arrival.reset_state()
            fault_injection.apply_to_station(self._site, scenario)
            arrival.visit_first()
            detail = tcpdump.whole_frames(self._site.testbed)
            with (captures(self._auth_points(scenario), detail), self._settling_captures(detail),
                  self._in_clear(arrival) if in_clear else nullcontext()):
                arrival.attach_at(scenario.home)
                if scenario.roams_to:
                    self._move_node(arrival, scenario.roams_to, session, 0)
                arrival.probe_vlans()
                arrival.record_tunnel_state()
                arrival.record_path_state()
        finally:
            arrival.record_end()

    @contextmanager
    def _settling_captures(self, detail: CaptureDetail) -> Iterator[None]:
        """Wait at the end of the block, even after an error, until captures hold all sent packets.

        After a refused authentication, the refusal is the last packet.
        """
        try:
            yield
        finally:
            tcpdump.settle_captures(self._site.testbed, detail)

    def _refuse_control(self, authentications: int) -> None:
        """Refuse the fault `second-in-clear` without IPsec or with too few authentications.

        Raises:
            MeasureError: the fault has no protection to take away.
        """
        if self._site.fault == _SECOND_IN_CLEAR and not (
                authentications > _SECOND and self._access.has_ipsec):
            raise MeasureError("testbed", f"the control {_SECOND_IN_CLEAR} needs a policy with "
                               f"IPsec, and {_SECOND + 1} authentications or more")

    @contextmanager
    def _in_clear(self, arrival: AttachmentSteps) -> Iterator[None]:
        """Keep the IPsec tunnel down and remove IPsec policies, so that packets pass in clear."""
        station = arrival.station
        charon, station.charon = station.charon, None
        for node in (station.name, arrival.scenario.agent):
            self._site.testbed.run_command(node, ["ip", "xfrm", "policy", "flush"])
        try:
            yield
        finally:
            station.charon = charon

    @property
    def _capture_detail(self) -> CaptureDetail:
        medium = self._site.testbed.medium
        if medium is None:
            return tcpdump.HEADERS_UNLIMITED
        return tcpdump.HEADERS_AND_BEACONS if medium.phy else tcpdump.HEADERS

    def _send_streams(self, arrival: AttachmentSteps, streams: Streams, session: Session) -> None:
        """Send the TCP and the UDP stream.

        The start of a UDP stream has no retransmission, so it may be tried several times.
        """
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

    def _send_stream(self, arrival: AttachmentSteps, streams: Streams, session: Session,
                     protocol: str,
                     size_bytes: int) -> None:
        """Send one TCP or UDP stream, once the iperf3 server has finished the previous stream.

        Raises:
            MeasureError: the stream failed, or took too long.
        """
        limits, path = self._access.limits, self._path_to_peer(arrival)
        limit_s = limits.tcp_stream_s(path, size_bytes) if protocol == "tcp" else \
            limits.udp_stream_s(path, size_bytes, streams.udp_rate_bps)
        self._servers.wait_idle(arrival.scenario.peer, limits.stream_ended_s(path))
        # Restart the backoffs' random numbers, so that they are equal under every policy, whatever
        # was sent before.
        self._site.testbed.reseed_backoffs(protocol)
        counted = self._count_frames(arrival)
        session.stamp(f"{protocol}_start")
        session.raw[f"iperf_{protocol}"] = iperf.run_stream(
            self._site.testbed, arrival.station.name,
            fault_injection.find_stream_target(self._site.fault, arrival.scenario),
            protocol=protocol, size_bytes=size_bytes, timeout_s=limit_s,
            rate_bps=streams.udp_rate_bps, payload_bytes=streams.udp_payload_bytes)
        session.stamp(f"{protocol}_end")
        if counted:
            session.raw[f"air_{protocol}"] = {
                name: count - counted[name] for name, count in self._count_frames(arrival).items()}

    def _count_frames(self, arrival: AttachmentSteps) -> Mapping[str, int]:
        """Return the mobile node's counters on the air, or none where no frames are aggregated."""
        medium = self._site.testbed.medium
        return self._site.testbed.count_frames(arrival.station.name) \
            if medium is not None and medium.has_long_aggregates else {}

    def _path_to_peer(self, arrival: AttachmentSteps) -> NetworkPath:
        return self._access.limits.to_peer(arrival.scenario)

    def _explain_error(self, error: MeasureError, arrival: AttachmentSteps) -> MeasureError:
        """Return the error of a failed stream, with a cause that probes of the path show."""
        cause = self._find_cause(arrival)
        return MeasureError(error.stage, f"{error.reason}: {cause}") if cause else error

    def _find_cause(self, arrival: AttachmentSteps) -> str:
        """Find why packets do not reach the peer, by pings of several sizes ("": not found)."""
        name, testbed = arrival.station.name, self._site.testbed
        device = self._access.tunnel_device(name) or arrival.station.radio
        mtu = int(testbed.run_command(name, ["cat", f"/sys/class/net/{device}/mtu"]))
        largest = iperf.largest_packet(testbed, name, arrival.peer,
                                       self._access.limits.data_s(arrival.scenario))
        return iperf.describe_cause(largest, mtu, arrival.peer)

    def _auth_points(self, scenario: Scenario) -> Sequence[CapturePoint]:
        return auth_points(scenario, has_macsec=bool(self._site.testbed.macsec),
                           has_ocsp=self._access.has_ocsp)

    def _traffic_points(self, scenario: Scenario, streams: Streams) -> list[CapturePoint]:
        """Return where packets of the streams are captured: air, peer and wires of the path."""
        return [self._receiver_point(scenario), *path_points(
            self._site, scenario, has_ipsec=self._access.has_ipsec, one_in=streams.one_in)]

    def _receiver_point(self, scenario: Scenario) -> CapturePoint:
        """Return where to capture the stream at the peer: after decryption if there is a tunnel.

        In IPsec transport mode the kernel shows only ESP packets there, so ESP is captured.
        """
        peer = self._site.network.nodes[scenario.peer]
        encrypted = any(state["mode"] == "transport"
                        for state in self._access.ipsec_states(scenario).get(scenario.peer, ()))
        tunnel = self._access.tunnel_device(scenario.peer)
        port = self._site.testbed.find_station_port(scenario.peer, peer.interface_of(peer.address))
        return CapturePoint("peer", scenario.peer, tunnel or port,
                            "esp" if encrypted else f"udp dst port {iperf.PORT}")

    def _connect_station(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """Connect the mobile node as a repetition does, and leave it connected."""
        station = self._access.connect_mobile_node(_scenario_from_task(task))
        return {"station": station.name}

    def _measure_survival(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """Move the mobile node while a TCP connection is in use (see `move_during_stream`)."""
        scenario = _scenario_from_task(task)
        return move_during_stream(self._site.testbed, self._access, scenario)


def _scenario_from_task(task: Mapping[str, Any]) -> Scenario:
    scenario: Scenario = from_json(Scenario, task["scenario"])
    return scenario
