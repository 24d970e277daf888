"""Load the emulated air with UDP packets, and count the frames that arrive.

The command `qop bench medium` compares these results with the throughput that 802.11 timing allows.
It starts `python3 -m measure.load.medium_load JOB_DIR` as root, inside a guest. JOB_DIR/trial.json
has the network and the loads (`MediumTrial` in bench/medium_trial.py). Each step measures the
goodput of flows, or the frames of stations that all send at once (`send_from_all_stations`). It
prints one JSON line.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure.agent.process import Daemon
from measure.cpu import clock
from measure.services import iperf
from topologies import model
from topologies.builder import Testbed
from topologies.model import STATION
from topologies.namespaces import network_of

# --- Saturation: all stations of an access point's cell send all the time ---
# One process has sockets in all stations' namespaces. Fifty programs would need more of a small
# machine than the emulated air does.

_SATURATION_PORT = 5201
# Queues hold 50 frames. A frame beyond that is dropped, and no sender waits.
_BURST_FRAMES = 25
_SATURATION_SETTLE_S = 1.0
_RESOLVE_S = 0.05


def send_from_all_stations(trial: MediumTrialNetwork, channel: int, payload_bytes: int,
                           seconds: float,
                           pause_s: float) -> dict[str, Any]:
    """Let every station send datagrams at the same time, and count the frames on the air.

    Each station sends a burst of half a queue to its agent, and repeats it after a pause.

    Args:
        trial: The running network.
        channel: Channel on which frames are counted.
        payload_bytes: Payload of a datagram in bytes.
        seconds: Time of counting in s.
        pause_s: Pause between bursts in s.

    Returns:
        Frames per second by the number of the transmitter's traffic class.
    """
    nodes, testbed = trial.network.nodes, trial.testbed
    stations = trial.network.of_duty(STATION)
    with ExitStack() as stack:
        for agent in {nodes[name].agent for name in stations}:
            # Never read: the kernel drops further datagrams, and sends no ICMP port unreachable.
            sink = stack.enter_context(_open_sender_socket(testbed.node(str(agent)).pid))
            sink.bind(("", _SATURATION_PORT))
        senders = [stack.enter_context(_open_sender_socket(testbed.node(name).pid)) for name
                   in stations]
        for sender, name in zip(senders, stations, strict=True):
            sender.connect((nodes[name].gateway, _SATURATION_PORT))
            # Resolve the agent's address while the air has room.
            sender.send(b"")
            time.sleep(_RESOLVE_S)
        _send_bursts(senders, payload_bytes, _SATURATION_SETTLE_S, pause_s)
        begun, begun_s = trial.count_frames(channel), time.monotonic()
        _send_bursts(senders, payload_bytes, seconds, pause_s)
        ended, ended_s = trial.count_frames(channel), time.monotonic()
    return {number: (count - begun[number]) / (ended_s - begun_s)
            for number, count in ended.items()}


def _send_bursts(senders: list[socket.socket], payload_bytes: int, seconds: float,
                 pause_s: float) -> None:
    datagram, end = bytes(payload_bytes), time.monotonic() + seconds
    while time.monotonic() < end:
        for sender in senders:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_BURST_FRAMES):
                    sender.send(datagram)
        time.sleep(pause_s)


def _open_sender_socket(pid: int) -> socket.socket:
    """Return a UDP socket in the network namespace of a process."""
    with network_of(pid):
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


# --- The trial: network, flows and results ---

_CONNECT_S = 15.0
_CLASS = re.compile(r"^class \w+ (\S+) .*\n Sent \d+ bytes (\d+) pkt", re.M)
_ALL_TOGETHER = "1:1"
_SPARE_S = 20.0
# In s: queues are then full. The margin keeps all flows running until the last one is counted.
_SETTLE_S = 1.0
_MARGIN_S = 0.5
_HOSTAPD = """interface={interface}
bridge={bridge}
driver=nl80211
driver_params=control_port=0
ssid={ssid}
hw_mode=g
channel={channel}
ap_isolate=1
"""
_PROTECTED = "wpa=2\nwpa_key_mgmt=WPA-PSK\nrsn_pairwise=CCMP\nwpa_passphrase=qop-medium\n"
_SUPPLICANT = """driver_param=control_port=0
network={{
    ssid="{ssid}"
    scan_freq={frequency}
    {security}
}}
"""


class MediumTrialNetwork:
    """A running wireless network on which the emulated air is measured."""

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        self.network: model.Network = model.from_json(model.Network, job["network"])
        medium = job["medium"]
        self.testbed = Testbed(self.network,
                               model.from_json(model.Medium, medium) if medium else None,
                               seed=job.get("seed", 0))
        self._protected = bool(job.get("protected"))
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> MediumTrialNetwork:
        with ExitStack() as stack:
            stack.enter_context(self.testbed)
            # All access points first, then their stations.
            for start in (self._start_access_point, self._start_station):
                for daemon in [stack.enter_context(start(name)) for name in self._nodes_for(start)]:
                    daemon.wait_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def count_frames(self, channel: int) -> dict[str, int]:
        """Return how many frames each transmitter has sent on a channel, by its class number."""
        host = self.network.of_duty("access_point")[0]
        output = self.testbed.run_command(host, ["tc", "-s", "class", "show", "dev",
                                                 f"air{channel}"])
        return {number: int(packets) for number, packets in _CLASS.findall(output)
                if number != _ALL_TOGETHER}

    def round_trip_s(self) -> float:
        """Return the shortest round trip time between a station and its agent, in s.

        The packets have 84 bytes, and the network is otherwise idle. Debian 12's ping keeps no
        interval in the first second of a kernel's clock: it takes a start at 0 s for no start.
        """
        time.sleep(max(0.0, 1.0 - time.clock_gettime(time.CLOCK_MONOTONIC_RAW)))
        station = self.network.of_duty("station")[0]
        output = self.testbed.run_command(station, ["ping", "-n", "-c", "10", "-i", "0.05",
                                                    self.network.nodes[station].gateway or ""])
        return min(float(time_ms) for time_ms in re.findall(r"time=([0-9.]+) ms", output)) / 1e3

    def measure_goodput(self, flows: list[dict[str, Any]], seconds: float) -> list[float]:
        """Send several UDP streams at the same time, and return the goodput of each in bit/s.

        The server's kernel counts datagrams while all flows run. The duration that iperf3 states is
        no measure, because iperf3 ends with a message on a TCP connection through the full queue.
        """
        with ExitStack() as stack:
            for flow in flows:
                stack.enter_context(iperf.start_server(self.testbed, flow["server"],
                                                       self._folder / (
                    flow["server"] + "-iperf3.log"))).wait_ready()
            pool = stack.enter_context(ThreadPoolExecutor(len(flows)))
            running = [pool.submit(self._run_flow, flow, _SETTLE_S + seconds + _MARGIN_S)
                       for flow in flows]
            time.sleep(_SETTLE_S)
            begun = [self._count_datagrams(flow) for flow in flows]
            time.sleep(seconds)
            ended = [self._count_datagrams(flow) for flow in flows]
            for sender in running:
                sender.result()
        return [flow["payload_bytes"] * 8 * (count - count_0) / (at_s - at_0_s) for
                flow, (at_0_s, count_0), (at_s, count) in zip(flows, begun, ended, strict=True)]

    def _count_datagrams(self, flow: dict[str, Any]) -> tuple[float, int]:
        """Return the time (s), and how many datagrams a stream's server has received by then."""
        pid = self.testbed.node(flow["server"]).pid
        lines = [line.split() for line in Path(f"/proc/{pid}/net/snmp").read_text().splitlines()]
        names, values = [line for line in lines if line[0] == "Udp:"]
        return time.monotonic(), int(values[names.index("InDatagrams")])

    def _run_flow(self, flow: dict[str, Any], seconds: float) -> None:
        iperf.run_stream(
            self.testbed, flow["client"], self.network.nodes[flow["server"]].address,
            protocol="udp", size_bytes=round(flow["rate_bps"] * seconds / 8),
            timeout_s=seconds + _SPARE_S, rate_bps=flow["rate_bps"],
            payload_bytes=flow["payload_bytes"])

    def _nodes_for(self, start: Any) -> list[str]:
        return self.network.of_duty("access_point" if start == self._start_access_point
                                    else "station")

    def _start_access_point(self, name: str) -> Daemon:
        node = self.network.nodes[name]
        radio = node.interfaces[node.radio_interface]
        text = _HOSTAPD.format(interface=node.radio_interface, bridge=radio.bridge, ssid=node.ssid,
                               channel=node.channel)
        return self._start_daemon("hostapd", name, text + (_PROTECTED if self._protected else ""),
                                  [], "AP-ENABLED")

    def _start_station(self, name: str) -> Daemon:
        node = self.network.nodes[name]
        cell = next(cell for cell in self.network.nodes.values()
                    if cell.has_duty("access_point") and cell.agent == node.agent)
        security = 'psk="qop-medium"' if self._protected else "key_mgmt=NONE"
        text = _SUPPLICANT.format(ssid=cell.ssid, frequency=2407 + 5 * (cell.channel or 1),
                                  security=security)
        return self._start_daemon("wpa_supplicant", name, text, ["-i", node.radio_interface, "-c"],
                                  "CTRL-EVENT-CONNECTED")

    def _start_daemon(self, program: str, node: str, text: str, options: list[str],
                      ready: str) -> Daemon:
        file = self._folder / f"{node}-{program}.conf"
        file.write_text(text)
        return Daemon(f"{program} on {node}",
                      self.testbed.node_command(node, [program, *options, str(file)]),
                      self._folder / f"{node}-{program}.log", ready, timeout_s=_CONNECT_S)


def main() -> int:
    """Measure the emulated air as the job folder describes."""
    folder = Path(sys.argv[1])
    job = json.loads((folder / "trial.json").read_text())
    subprocess.run(["ip", "link", "set", "hwsim0", "up"], check=True)
    with MediumTrialNetwork(job, folder) as trial:
        medium = trial.testbed.medium
        clock.set_read_ticks(are_short=medium is not None and medium.has_long_aggregates)
        channels = {node.channel or 0 for node in trial.network.nodes.values() if node.ssid}
        print_trial_result(connected={channel: trial.count_frames(channel) for channel in channels}
                           if job["medium"]
                           else None)
        print_trial_result(round_trip_s=trial.round_trip_s())
        for flows in job["loads"]:
            print_trial_result(goodput_bps=trial.measure_goodput(flows, job["seconds"]))
        if job.get("crowd_bytes"):
            print_trial_result(
                crowd_per_s=send_from_all_stations(trial, 1, job["crowd_bytes"],
                                                                        job["seconds"],
                                                                        job["crowd_pause_s"]))
    return 0


def print_trial_result(**result: Any) -> None:
    """Print one result as a JSON line for the host."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
