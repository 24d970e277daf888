"""Build a network on Mininet's API: namespaces, wires, radios, addresses, routes."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack

from mininet.link import Link
from mininet.net import Mininet
from mininet.node import Node as MininetNode

from topologies import model
from topologies.medium import Air
from topologies.nodes import KINDS, AccessPoint, RadioNode
from topologies.radio import Radios

# mnexec closes every descriptor a process might have: few allowed means quick starts.
_OPEN_FILES = 256
_SYSCTLS = (
    "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.all.accept_redirects=0",
    # Nothing on the air but what a policy asks for: no router solicitations, no DAD.
    "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1",
    # A sender that queues without end would have iperf3 end its count while megabytes still wait.
    "net.ipv4.tcp_notsent_lowat=16384")


class Testbed:
    """A running network. A context manager: leaving it removes everything it made."""

    def __init__(self, network: model.Network, medium: model.Medium | None,
                 cipher_bytes: int = 0) -> None:
        self.network = network
        self.medium = medium
        self.cipher_bytes = cipher_bytes
        self._stack = ExitStack()
        self._net: Mininet | None = None

    def __enter__(self) -> Testbed:
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def node(self, name: str) -> MininetNode:
        """The Mininet node of that name."""
        assert self._net is not None
        return self._net[name]

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """`argv` as it must be started to run on a node and to die with this process."""
        return ["setpriv", "--pdeathsig", "KILL", "mnexec", "-a", str(self.node(name).pid), *argv]

    def run(self, name: str, argv: Sequence[str], timeout_s: float = 10.0) -> str:
        """Run a short command on a node; its standard output. Raises CalledProcessError."""
        done = subprocess.run(self.command(name, argv), capture_output=True, text=True,
                              timeout=timeout_s, check=True)
        return done.stdout

    def _build(self) -> None:
        radios = self._stack.enter_context(Radios())
        self._net = Mininet(controller=None, build=False)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, hard))
        self._stack.callback(self._stop_nodes)
        for name, node in self.network.nodes.items():
            self._net.addHost(name, cls=KINDS[node.kind], ip=None)
        for link in self.network.links:
            self._wire(link)
        for name, node in self.network.nodes.items():
            self._configure(name, node, radios)
        if self.medium is not None:
            air = Air(self.medium, self.cipher_bytes)
            for name in self.network.of_kind("access_point"):
                node = self.network.nodes[name]
                air.attach(self.node(name), node.radio_interface)

    def _wire(self, link: model.Link) -> None:
        (left, left_port), (right, right_port) = (end.split("/") for end in link.ends)
        assert self._net is not None
        self._net.addLink(self.node(left), self.node(right), cls=Link,
                          intfName1=left_port, intfName2=right_port)
        for name, port in ((left, left_port), (right, right_port)):
            # The medium charges for every frame: no packet may be many in disguise.
            self.node(name).cmd(f"ip link set dev {port} gso_max_segs 1")
            if link.delay_ms or link.loss_percent:
                self.node(name).cmd(f"tc qdisc add dev {port} root netem limit 100000 "
                                    f"delay {link.delay_ms}ms loss {link.loss_percent}%")

    def _configure(self, name: str, node: model.Node, radios: Radios) -> None:
        machine = self.node(name)
        for port, interface in node.interfaces.items():
            if interface.radio:
                assert isinstance(machine, RadioNode)
                machine.add_radio(radios, port, interface.radio,
                                  phy=f"qop{os.getpid()}-{name}")
        bridges = {i.bridge for i in node.interfaces.values() if i.bridge}
        for bridge in sorted(bridges):
            assert isinstance(machine, AccessPoint)
            machine.add_bridge(bridge, [port for port, i in node.interfaces.items()
                                        if i.bridge == bridge and not i.radio])
        steps = ["ip link set lo up"]
        for port, interface in node.interfaces.items():
            if interface.address:
                steps.append(f"ip addr add {interface.address} brd + dev {port}")
            if not interface.radio:
                steps.append(f"ip link set {port} up")
        if node.gateway:
            # A station's route waits for its link, which only the supplicant brings up.
            port = node.radio_interface if node.kind == "station" else ""
            if port:
                steps.append(f"ip link set {port} up")
            steps.append(f"ip route add default via {node.gateway}")
        if node.forwarding:
            steps.append("sysctl -qw net.ipv4.ip_forward=1")
        steps.append("sysctl -qw " + " ".join(_SYSCTLS))
        said = machine.cmd("; ".join(steps)).strip()
        if said:
            raise RuntimeError(f"{name}: {said}")

    def _stop_nodes(self) -> None:
        assert self._net is not None
        for host in self._net.hosts:
            host.terminate()
