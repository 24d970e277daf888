"""Start KDCs, servers and proxy in the guest, and let users log in by Kerberos.

The guest is the virtual machine of the test network. `Workload.measure` runs one measurement
(repetition). It leaves captures, keys and logs, which are evaluated outside of the guest. All keys
are generated there, and kept for the decryption of captures. The protocols are Kerberos with
extensions such as PKINIT, PKCROSS and PKTAPP. `studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure.agent.errors import MeasureError
from measure.agent.kernel_state import set_neighbours
from measure.agent.workload import Service, Session, Site
from measure.capture.tcpdump import CaptureDetail, CapturePoint, capture_packets, settle_captures
from measure.mobile_node.attachment import WirelessAccess, host_points
from measure.services.programs import Launcher
from studies.kerberos2002 import pki, programs, variants
from studies.kerberos2002.variants import MAX_SERVERS, VARIANTS
from topologies.model import Scenario, from_json
from topologies.shapes import STAR_PORT

_WHOLE = CaptureDetail(snap_bytes=2048, buffer_kib=2048, in_blocks=True)
#: Deadline (s) for servers to listen. In virtual time a start takes next to none.
_READY_S = 20.0
#: Starting order of the parties: a party that asks others starts after them.
_ASKING = (*variants.SERVER_NODES, "kdc-r", "kdc-l", "proxy")
#: Capture points. Servers' messages to each other do not pass their clients.
_CAPTURED = ("client", "kdc-l", "proxy")
_SHOWN = "tcp or udp"


class Workload:
    """A workload: run KDCs, servers and proxy, and a client whose users log in again and again."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._testbed = site.testbed
        self._folder = site.run_folder("client")
        self._launcher = Launcher(site, {"kerberos": "protocols.kerberos.program:run_node"})
        self._air = WirelessAccess(site) if site.network.has_radios else None
        if self._air is None:
            set_neighbours(self._testbed)
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """Return the service that starts programs, and those that the air needs."""
        return [*(self._air.list_services() if self._air else ()), self._launcher]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Run one repetition, from the start of all programs to the end of the last login.

        Args:
            task: combination of factors, devices and options, as `Kerberos2002.task` returns them.
            out: folder of the repetition, which gets captures, keys and logs.
            session: raw values and time stamps of the repetition.

        Raises:
            MeasureError: a program does not answer, or the logins do not end.
        """
        seed = task["first_seed"] + int(out.name.rpartition("-")[2]) - 1
        task = {**task, "seed": seed}
        keys = self._keys_file(task)
        shutil.copy(keys, out / "keys.json")
        documents = programs.build_configurations(task, keys, self._describe_nodes(task),
                                                  self._site.fault)
        nodes = {party: _node_of(party, task) for party in documents}
        session.raw |= {"captures": [], "seed": seed, "addresses": {
            party: self._address_of(node) for party, node in nodes.items()}}
        session.stamp("start")
        with ExitStack() as stack:
            if self._air:
                stay = stack.enter_context(self._air.attach_node(
                    from_json(Scenario, task["scenario"]), out, session,
                    has_port=task["has_port"]))
                if stay.has_pending_move:
                    # A client that moves has logged in at home. The transaction after the move is
                    # measured.
                    (out / "home").mkdir()
                    self._run_parties(documents, nodes, out / "home", task)
                    stay.move_away()
            points = self._capture_points(nodes)
            stack.enter_context(capture_packets(self._testbed, points, _WHOLE, part="traffic",
                                                out=out,
                                                logs=self._site.logs,
                                                summaries=session.raw["captures"]))
            self._run_parties(documents, nodes, out, task)
            settle_captures()
        session.stamp("end")
        session.raw["events"] = {party: _read_last_event(out / f"{party}.jsonl") for party
                                 in documents}

    def _capture_points(self, nodes: Mapping[str, str]) -> list[CapturePoint]:
        """Return where packets are captured. Over the air, that is behind the client's tunnel."""
        hosts = [party for party in nodes if party != "client"]
        points = host_points(self._address_of(nodes["client"]), hosts, STAR_PORT, _SHOWN) \
            if self._air else []
        return [*points,
                *(CapturePoint(party, node, STAR_PORT, _SHOWN) for party, node in nodes.items()
                          if party in _CAPTURED and not (self._air and party == "client"))]

    def _run_parties(self, documents: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, str],
                     out: Path, task: Mapping[str, Any]) -> None:
        """Start the servers and then the client, and wait until the client ends."""
        with ExitStack() as stack:
            # A party that asks others starts after them and so ends before them: every request
            # finds its server.
            for party in sorted(documents.keys() - {"client"}, key=_ASKING.index):
                log = out / f"{party}.jsonl"
                stack.enter_context(self._launcher.run_program("kerberos", nodes[party],
                                                               documents[party], log))
                _wait_ready(party, log)
            stack.enter_context(self._launcher.run_program(
                "kerberos", nodes["client"], documents["client"], out / "client.jsonl"))
            if not self._launcher.wait_ended(nodes["client"], task["deadline_s"]):
                raise MeasureError("stream", "the client's transactions have no end (log: "
                                   "client.jsonl)")

    def _describe_nodes(self, task: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return address, device model and speed of every program's node."""
        nodes = {}
        for party in ("client", "kdc-l", "kdc-r", "proxy", *(
                f"app{number}" for number in range(1, 5))):
            node = _node_of(party, task)
            nodes[party] = {
                "address": self._address_of(node), "device": self._site.devices.get(node, {}),
                "speed": 1.0 if party == "client" else float(task["speed"]),
                "own_processors": party == "client"}
        return nodes

    def _keys_file(self, task: Mapping[str, Any]) -> Path:
        """Return the key file of a cipher suite, which is created at the first use."""
        options = tuple(task[name] for name in ("suite", "certificate_bytes", "chain_length"))
        file = self._folder / f"keys-{'-'.join(map(str, options))}.json"
        if not file.exists():
            suite, size, length = options
            pki.make_keys(file, suite, MAX_SERVERS, size, length)
            if self._site.fault == "one-key-for-two":
                pki.share_key(file)
        return file

    def _address_of(self, node: str) -> str:
        return self._site.network.nodes[node].address


def _node_of(party: str, task: Mapping[str, Any]) -> str:
    """Return the node that runs a program in this repetition."""
    if task["scenario"]:
        return str(task["scenario"]["mobile_node"]) if party == "client" else party
    return variants.node_of(party, task["wire"],
                            is_mobile=VARIANTS[task["protocol"]].way == "mobile")


def _wait_ready(party: str, log: Path) -> None:
    """Wait until a program reports that it answers requests.

    Raises:
        MeasureError: the program has ended, or takes too long.
    """
    until = time.monotonic() + _READY_S
    while '"event": "ready"' not in (log.read_text() if log.exists() else ""):
        if time.monotonic() > until:
            raise MeasureError("stream", f"{party} does not answer (log: {log.name})")
        time.sleep(0.01)


def _read_last_event(log: Path) -> dict[str, Any]:
    """Return the last event in the log of a program.

    A line that is no event is an error message.
    """
    lines = log.read_text().splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise MeasureError("stream", f"{log.stem} said {lines[-1][:200] if lines else 'nothing'!r}")
    event: dict[str, Any] = json.loads(lines[-1])
    return event
