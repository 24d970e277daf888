"""A workload for tests: round trips and bursts between two nodes, and a repetition that listens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measure.agent.errors import MeasureError
from measure.agent.workload import Service, Session, Site

PORT = 7000
# Counts what arrives until nothing has for a while; its first word says that it listens.
_RECEIVER = f"""
import json, socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
sock.bind(("", {PORT}))
print("listening", flush=True)
times = []
while True:
    try:
        sock.recv(4096)
    except TimeoutError:
        break
    times.append(time.time())
    sock.settimeout(float(sys.argv[1]))
print(json.dumps(times), flush=True)
"""
_SENDER = f"""
import socket, sys, time
count, size, gap_s = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
for _ in range(count):
    sock.sendto(bytes(size), (sys.argv[1], {PORT}))
    time.sleep(gap_s) if gap_s else None
"""


class Workload:
    """What a task asks for: `ping`, `burst` or `listen`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.calls = {"echo": lambda task: {"said": task["say"]}}

    def services(self) -> Sequence[Service]:
        """None."""
        return []

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Do what the task asks for."""
        session.stamp("start")
        does = {"ping": self._ping, "burst": self._burst, "listen": self._listen,
                "fail": self._fail}
        does[task["what"]](task, session)
        session.stamp("end")

    def _ping(self, task: Mapping[str, Any], session: Session) -> None:
        address = self._site.network.nodes[task["to"]].address
        said = self._site.testbed.run_command(
            task["from"], ["ping", "-n", "-c", "5", "-i", "2", "-s", str(task["bytes"]), address],
            timeout_s=60)
        session.raw["round_trips_s"] = [float(ms) / 1e3
                                        for ms in re.findall(r"time=([0-9.]+) ms", said)]
        session.raw["ttl"] = [int(ttl) for ttl in re.findall(r"ttl=(\d+)", said)]

    def _burst(self, task: Mapping[str, Any], session: Session) -> None:
        testbed = self._site.testbed
        address = self._site.network.nodes[task["to"]].address
        with subprocess.Popen(
                testbed.node_command(task["to"], [sys.executable, "-c", _RECEIVER,
                                                  str(task["patience_s"])]),
                stdout=subprocess.PIPE, text=True) as receiver:
            assert receiver.stdout is not None
            receiver.stdout.readline()
            testbed.run_command(task["from"],
                                [sys.executable, "-c", _SENDER, address, str(task["count"]),
                                               str(task["bytes"]), str(task.get("gap_s", 0))],
                                timeout_s=120)
            session.raw["arrivals_s"] = json.loads(receiver.stdout.readline())

    def _listen(self, task: Mapping[str, Any], session: Session) -> None:
        """Report every tenth of a second, and take what is told, until told to stop."""
        session.report_shareable()
        # Where the clock skips waiting, many go by before a busy host has said anything.
        for number in range(20_000):
            session.report("tick", number=number)
            for command in session.take_commands():
                session.raw.setdefault("told", []).append(command)
                if command.get("stop"):
                    return
            time.sleep(0.1)
        raise MeasureError("data", "nobody said to stop")

    def _fail(self, task: Mapping[str, Any], session: Session) -> None:
        session.raw["half"] = 1
        if task.get("bug"):
            raise KeyError("a bug of the study's")
        raise MeasureError("data", "as asked")
