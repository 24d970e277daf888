"""Measure the emulated air: load a network's radios with UDP and count what arrives.

`python3 -m measure.air JOB_DIR` as root, inside a machine. JOB_DIR/trial.json is a `MediumTrial` of
harness/selftest/medium_trial.py. Each step prints one JSON line.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure import crowd, iperf
from measure.process import Daemon
from topologies import model
from topologies.builder import Testbed

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


class Trial:
    """A network on a medium, with running access points and connected stations."""

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        self.network: model.Network = model.from_json(model.Network, job["network"])
        medium = job["medium"]
        self.testbed = Testbed(self.network,
                               model.from_json(model.Medium, medium) if medium else None,
                               seed=job.get("seed", 0))
        self._protected = bool(job.get("protected"))
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Trial:
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
        """Return the frames that each transmitter has sent on a channel, by its class number."""
        host = self.network.of_duty("access_point")[0]
        said = self.testbed.run_command(host, ["tc", "-s", "class", "show", "dev", f"air{channel}"])
        return {number: int(packets) for number, packets in _CLASS.findall(said)
                if number != _ALL_TOGETHER}

    def round_trip_s(self) -> float:
        """Return the shortest round trip between a station and its agent, in s.

        The packets have 84 bytes, and the network is otherwise idle.
        """
        station = self.network.of_duty("station")[0]
        said = self.testbed.run_command(station, ["ping", "-n", "-c", "10", "-i", "0.05",
                                                  self.network.nodes[station].gateway or ""])
        return min(float(time_ms) for time_ms in re.findall(r"time=([0-9.]+) ms", said)) / 1e3

    def measure_goodput(self, flows: list[dict[str, Any]], seconds: float) -> list[float]:
        """Send UDP flows at the same time and return their goodputs in bit/s.

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
        """Return the time (s) and the datagrams that the server's node had received by then."""
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
    """Measure what the job folder describes."""
    folder = Path(sys.argv[1])
    job = json.loads((folder / "trial.json").read_text())
    subprocess.run(["ip", "link", "set", "hwsim0", "up"], check=True)
    with Trial(job, folder) as trial:
        channels = {node.channel or 0 for node in trial.network.nodes.values() if node.ssid}
        print_result(connected={channel: trial.count_frames(channel) for channel in channels}
                     if job["medium"]
                     else None)
        print_result(round_trip_s=trial.round_trip_s())
        for flows in job["loads"]:
            print_result(goodput_bps=trial.measure_goodput(flows, job["seconds"]))
        if job.get("crowd_bytes"):
            print_result(crowd_per_s=crowd.send_from_all(trial, 1, job["crowd_bytes"],
                                                         job["seconds"],
                                                         job["crowd_pause_s"]))
    return 0


def print_result(**result: Any) -> None:
    """Print one result for the host."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
