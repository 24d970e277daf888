"""Let all stations join one access point at once, and then stream to a server.

The study lecturehall measures this. `Workload.measure` runs one measurement (repetition) in the
guest, the virtual machine of the test network. It leaves captures and kernel state for the
evaluation. One process has the sockets of all stations, each in its station's network namespace. On
a small host, fifty programs would take more CPU time than the emulated air.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure.agent import kernel_state
from measure.agent.errors import MeasureError
from measure.agent.workload import Service, Session, Site
from measure.attacks import injection
from measure.capture.tcpdump import (
    AIR_INTERFACE,
    CaptureDetail,
    CapturePoint,
    capture_packets,
    settle_captures,
    wire_point,
)
from measure.packets import eap
from measure.services.hostap import (
    ControlSocket,
    Hostapd,
    WpaSupplicant,
    disconnect_station,
    is_port_open,
)
from measure.services.radius import FreeRadius
from studies.lecturehall.network import ACCESS_POINT, AGENT
from topologies.model import STATION
from topologies.namespaces import network_of

PORT = 5201
_UP = {"CTRL-EVENT-CONNECTED"}
#: Interval of the loop that sends datagrams and reads events (s).
_TICK_S = 0.002
#: Time to read an event (also the interval of polls), and longest wait for an open port (s).
_READ_S, _PORT_S = 0.0005, 1.0
#: Time for all stations to connect (s).
_ALL_ON_S = 60.0
#: Control: the first station sends a frame that is marked as encrypted but is readable.
MARKED = "hall-clear-but-marked"
#: Controls: the first station has left at the end; its stream goes to a port without a listener.
LEFT, UNHEARD = "hall-one-leaves", "hall-one-unheard"
#: Control: the first station authenticates before the capture and returns with the keys of that
#: authentication.
REMEMBERED = "hall-one-remembered"
#: CCMP header with the first packet number.
_CCMP_HEADER = bytes.fromhex("0100002000000000")
#: Frames up to this length (bytes) are captured whole, so that they can be decrypted. The key
#: negotiation is among them. Frames of streams are longer by default.
_SHORT_BYTES = 400
#: Snapshot length for the headers of a datagram and of a frame on the air.
_HEADS = CaptureDetail(snap_bytes=96, buffer_kib=4096, in_blocks=True)
_WHOLE = CaptureDetail(snap_bytes=2048, buffer_kib=2048, in_blocks=True)


class Workload:
    """A workload: a hall full of stations that join an access point and stream."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._radius = FreeRadius(site)
        self._supplicants = WpaSupplicant(site)
        self._hostapd = Hostapd(site)
        self._stations = site.network.of_duty(STATION)
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """Return the services that the policy needs, such as RADIUS."""
        return [self._radius, self._supplicants, self._hostapd]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Run one repetition, from unconnected stations to the end of all streams.

        Args:
            task: instructions for the repetition, with the settings.
            out: folder of the repetition, which gets the captures.
            session: raw values and time stamps of the repetition.

        Raises:
            MeasureError: a station does not connect in time.
        """
        testbed, nodes = self._site.testbed, self._site.network.nodes
        raw = session.raw
        raw["captures"] = []
        self._send_home()
        if self._site.fault == REMEMBERED:
            self._get_known(self._stations[0])
        access_point = nodes[ACCESS_POINT]
        places = ((CapturePoint("ap", ACCESS_POINT, access_point.radio_interface,
                                "ether proto 0x888e"),
                   _WHOLE),
                  (CapturePoint("air", None, AIR_INTERFACE, "wlan type data"), _HEADS),
                  (CapturePoint("short", None, AIR_INTERFACE,
                                f"wlan type data and less {_SHORT_BYTES}"), _WHOLE),
                  (wire_point(self._site.network, "wire", ACCESS_POINT,
                              f"udp port {eap.RADIUS_PORT}"), _WHOLE),
                  (CapturePoint("server", AGENT, "air0", f"udp dst port {PORT}"), _HEADS))
        with ExitStack() as stack:
            for point, detail in places:
                stack.enter_context(capture_packets(
                    testbed, [point], detail, part="hall", out=out, logs=self._site.logs,
                    summaries=raw["captures"]))
            session.stamp("start")
            raw["on_s"] = self._connect_stations(task["asked"], session)
            raw["link_keys"] = [key for name in self._stations
                                for key in kernel_state.link_keys(self._station_mac(name))]
            if self._site.fault == MARKED:
                self._mark_a_clear_frame()
            if self._site.fault == LEFT:
                self._take_off(self._stations[0])
            raw["let_in"] = [
                mac for mac, flags in kernel_state.station_flags(
                    testbed, ACCESS_POINT, access_point.radio_interface).items()
                if flags.get("authorized") == "yes"]
            settle_captures()
        session.stamp("end")

    def _send_home(self) -> None:
        """Disconnect all stations, and delete the state of all authentications."""
        for name, control in self._supplicants.controls.items():
            self._take_off(name)
            control.drop_events()

    def _take_off(self, name: str) -> None:
        disconnect_station(self._supplicants.controls[name])
        self._hostapd.forget_station(self._station_mac(name))

    def _get_known(self, name: str) -> None:
        """Authenticate a station and disconnect it, so that both ends have cached keys.

        Raises:
            MeasureError: the station does not connect.
        """
        control = self._supplicants.controls[name]
        until = time.monotonic() + _ALL_ON_S
        control.send_command("ENABLE_NETWORK 0")
        # The access point caches the key after the last message of the handshake.
        if control.wait_event(_UP, until) is None or not self._hostapd.wait_authorized(
                ACCESS_POINT, self._station_mac(name), until):
            raise self._not_on([name], 1)
        control.send_command("DISABLE_NETWORK 0")
        self._hostapd.expire_station(ACCESS_POINT, self._station_mac(name))
        control.drop_events()

    def _not_on(self, names: Sequence[str], stations: int) -> MeasureError:
        """Return the error for stations that did not connect, with a cause from a daemon's log."""
        daemons = [daemon for daemon in (self._supplicants.daemons.get(names[0]),
                                         self._hostapd.daemons.get(ACCESS_POINT),
                                         self._radius.daemons.get(AGENT)) if daemon is not None]
        causes = [f"; {daemon.name}: {cause}" for daemon in daemons
                  if (cause := daemon.recent_cause())]
        return MeasureError("link", f"{', '.join(names[:3])}: not on after {_ALL_ON_S:g} s, with "
                            f"{len(names)} of {stations}{''.join(causes[:1])}")

    def _station_mac(self, name: str) -> str:
        node = self._site.network.nodes[name]
        return node.interfaces[node.radio_interface].radio or ""

    def _mark_a_clear_frame(self) -> None:
        """Send an unencrypted frame with the Protected bit set, from the first station.

        This is an injected fault.
        """
        name, cell = self._stations[0], self._station_mac(ACCESS_POINT)
        injection.inject_frame(self._site.testbed, name, self._site.network.nodes[name],
                               injection.station_frame(self._station_mac(name), cell, cell,
                                                       _CCMP_HEADER + injection.READABLE,
                                                       flags=injection.PROTECTED))

    def _connect_stations(self, settings: Mapping[str, Any], session: Session) -> dict[str, float]:
        """Connect all stations at once, and start each stream when its station is connected.

        Once the last station is connected, all stream together for `stream_s`.

        Args:
            settings: settings of the run.
            session: session of the repetition, for the time stamp of the last connection.

        Returns:
            Time of each station's connection (s since 1970).

        Raises:
            MeasureError: a station does not connect in time.
        """
        controls, on_s = self._supplicants.controls, dict[str, float]()
        waiting, connected, admitted = dict(controls), set[str](), set[str]()
        gap_s = 8 * settings["stream_payload_bytes"] / settings["stream_rate_bps"]
        datagram = bytes(settings["stream_payload_bytes"])
        give_up_s = time.monotonic() + _ALL_ON_S
        end_s = None
        with ExitStack() as stack:
            senders = {name: stack.enter_context(self._open_socket(name)) for name
                       in self._stations}
            sink = stack.enter_context(self._open_socket(AGENT))
            # Never read: datagrams are dropped in the socket buffer, and no ICMP error is sent.
            sink.bind(("", PORT))
            due_s: dict[str, float] = {}
            for control in controls.values():
                control.send_command("ENABLE_NETWORK 0")
            while end_s is None or time.monotonic() < end_s:
                time.sleep(_TICK_S)
                self._hostapd.update_admitted(ACCESS_POINT, admitted)
                connected.update(self._now_on(waiting))
                # Both ends must report success: if the handshake's last message is lost, only one
                # end does.
                for name in [name for name in waiting
                             if name in connected and self._station_mac(name) in admitted]:
                    del waiting[name]
                    on_s[name], due_s[name] = time.time(), time.monotonic()
                now_s = time.monotonic()
                _send_due(senders, due_s, now_s, datagram, gap_s)
                if end_s is None and not waiting:
                    session.stamp("all_on")
                    end_s = now_s + settings["stream_s"]
                elif end_s is None and now_s > give_up_s:
                    raise self._not_on(list(waiting), len(controls))
        return on_s

    def _now_on(self, waiting: Mapping[str, ControlSocket]) -> list[str]:
        """Return the stations that have just connected and whose 802.1X ports are open.

        Waits up to `_PORT_S` until a port is open.
        """
        ready, _, _ = select.select([control.events for control in waiting.values()], [], [], 0)
        on = [name for name, control in waiting.items() if control.events in ready
              and control.wait_event(_UP, time.monotonic() + _READ_S)]
        until = time.monotonic() + _PORT_S
        while time.monotonic() < until and not all(
                is_port_open(waiting[name].read_status()) for name in on):
            time.sleep(_READ_S)
        return on

    def _open_socket(self, node: str) -> socket.socket:
        """Open a UDP socket on a node. The socket of a station is connected to the server."""
        with network_of(self._site.testbed.node(node).pid):
            udp_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        if node != AGENT:
            is_unheard = self._site.fault == UNHEARD and node == self._stations[0]
            udp_socket.connect((self._site.network.nodes[AGENT].address, PORT + is_unheard))
        return udp_socket


def _send_due(senders: Mapping[str, socket.socket], due_s: dict[str, float], now_s: float,
              datagram: bytes, gap_s: float) -> None:
    """Send all datagrams that are due, and update the next times in `due_s`.

    A datagram that finds its station's queue full is lost, as with any program that does not wait.
    """
    for name, at_s in due_s.items():
        missed = max(0, math.floor((now_s - at_s) / gap_s) + 1)
        for _ in range(missed):
            with contextlib.suppress(OSError):
                senders[name].send(datagram)
        due_s[name] = at_s + missed * gap_s
