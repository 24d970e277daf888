"""Create the network of an example script with Mininet-WiFi, and remove it.

The scripts are those in topologies/examples. The functions take the description of a network
(`topologies.model`) and Mininet-WiFi's object `net`. `add_links` and `add_addresses` create wires,
bridges, addresses and routes. `remove_at_end` removes the network's nodes and radios, and nothing
else. `run_command` runs a command on a node.
"""

from __future__ import annotations

import logging
import resource
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mininet.link import Link
from mininet.log import info
from mininet.node import Node
from mn_wifi.module import Mac80211Hwsim
from mn_wifi.net import Mininet_wifi
from mn_wifi.node import AP

from topologies import hwsim, model, queueing_disciplines

#: Folder in which Mininet-WiFi finds the radios that it created.
RADIOS = Path("/sys/kernel/debug/ieee80211")
# mnexec closes every descriptor that a process may have, so a low limit makes starts fast.
_OPEN_FILES = 256
# Packets shall take Mobile IP's routes only, and only the scenario's packets shall be sent.
_SYSCTLS = ("net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.default.send_redirects=0",
            "net.ipv4.conf.all.accept_redirects=0", "net.ipv6.conf.all.disable_ipv6=1",
            "net.ipv6.conf.default.disable_ipv6=1")


class StandaloneAccessPoint(AP):  # type: ignore[misc]
    """An access point in its own namespace: a bridge between its wire and its radio."""

    def __init__(self, name: str, **params: Any) -> None:
        # With `link` set, Mininet-WiFi does not start hostapd.
        super().__init__(name, **{**params, "inNamespace": True, "link": Link})


@contextmanager
def remove_at_end(net: Mininet_wifi) -> Iterator[None]:
    """Remove the network's nodes and radios, and nothing else, at the end of the context.

    Mininet-WiFi's `net.stop()` would do more: end every hostapd and wpa_supplicant of the machine,
    and unload mac80211_hwsim.
    """
    _load_radios()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, hard))
    with hwsim.put_into_path():
        try:
            yield
        finally:
            info("*** Stopping network\n")
            net.stop_graph_params()
            for node in net.stations + net.aps:
                if phy := phy_of(node):
                    run_command(node, ["hwsim_mgmt", "-x", phy])
            for node in net.hosts + net.stations + net.aps:
                node.terminate()


def _load_radios() -> None:
    """Load mac80211_hwsim without radios if it is not loaded.

    Raises:
        RuntimeError: The kernel does not have it, or debugfs is not mounted.
    """
    if not RADIOS.exists() and subprocess.run(
            ["modprobe", "mac80211_hwsim", "radios=0"], capture_output=True, check=False,
            ).returncode:
        raise RuntimeError("the kernel has no mac80211_hwsim that 'modprobe' could load")
    if not RADIOS.exists():
        raise RuntimeError(f"{RADIOS} is not there; give 'mount -t debugfs debugfs "
                           "/sys/kernel/debug'")
    # It is loaded now; Mininet-WiFi could not load a built-in module.
    Mac80211Hwsim.externally_managed = True
    # Otherwise Mininet-WiFi logs all debug messages of all libraries to a file.
    logging.basicConfig(handlers=[logging.NullHandler()])


def wireless_parameters(network: model.Network, name: str) -> dict[str, Any]:
    """Return the parameters with which Mininet-WiFi creates a station or access point."""
    node = network.nodes[name]
    known: dict[str, Any] = {"mac": node.interfaces[node.radio_interface].radio, "mode": "b"}
    if node.position:
        known["position"] = as_position(node.position)
    if node.has_duty("station"):
        return known | {"ip": None, "ip6": None}
    # Mininet-WiFi numbers switches by the digits in their names, which may be missing here.
    number = list(network.nodes).index(name) + 1
    return known | {"ssid": node.ssid, "channel": str(node.channel), "dpid": f"{number:x}"}


def wired_nodes(network: model.Network) -> list[str]:
    """Return the names of the nodes without a radio."""
    return [name for name, node in network.nodes.items()
            if not (node.has_duty("station") or node.has_duty("access_point"))]


def as_position(place: Sequence[float]) -> str:
    """Return a position in Mininet-WiFi's format: "x,y,z" in metres."""
    return ",".join(f"{value:g}" for value in (*place, 0)[:3])


def add_links(net: Mininet_wifi, network: model.Network) -> None:
    """Create the wires of a network. Radios need none, they meet on their channel."""
    for link in network.links:
        ends = [end.split("/") for end in link.ends]
        net.addLink(*(net[name] for name, _ in ends), cls=Link, intfName1=ends[0][1],
                    intfName2=ends[1][1])
        for name, port in ends:
            _run_silent(net[name], f"ip link set dev {port} mtu {link.mtu_bytes}")
            for step in queueing_disciplines.wire_commands(link, port, f"{name}/{port}"):
                _run_silent(net[name], step)


def add_addresses(net: Mininet_wifi, network: model.Network) -> None:
    """Create the bridges, addresses and routes of every node.

    Raises:
        RuntimeError: The network has `ip: 6`.
    """
    if network.ip != model.IPV4:
        raise RuntimeError(f"network {network.name}: ip: {network.ip} is measured by ./qop run "
                           "alone; leave ip out")
    linked = {end for link in network.links for end in link.ends}
    for name, node in network.nodes.items():
        bridges = {i.bridge for i in node.interfaces.values() if i.bridge}
        steps = ["ip link set lo up", f"sysctl -qw {' '.join(_SYSCTLS)}"]
        steps += [f"ip link add {bridge} type bridge forward_delay 0 mcast_snooping 0"
                  for bridge in sorted(bridges)]
        for port, interface in node.interfaces.items():
            here = radio_of(net[name]) if interface.radio else port
            if f"{name}/{port}" in linked:
                steps += [f"ip link set {port} master {interface.bridge}"] * bool(interface.bridge)
            elif not interface.radio and port not in bridges:
                # The wire leads to a node that does not take part.
                steps.append(f"ip link add {port} type dummy")
            if interface.address:
                steps.append(f"ip addr add {interface.address} brd + dev {here}")
            steps.append(f"ip link set {here} up")
        for step in steps + _route_commands(net[name], node):
            _run_silent(net[name], step)


def radio_of(node: Node) -> str:
    """Return Mininet-WiFi's name for a node's wireless interface, `a2-wlan0`."""
    return str(node.params["wlan"][0])


def phy_of(node: Node) -> str:
    """Return the kernel's name for a node's radio, "" if it has none (yet)."""
    return run_command(node, ["cat", f"/sys/class/net/{radio_of(node)}/phy80211/name"]).strip()


def node_command(node: Node, argv: Sequence[str]) -> list[str]:
    """Return the command line that runs a program on a node. It ends with this process."""
    return ["setpriv", "--pdeathsig", "KILL", "mnexec", "-a", str(node.pid), *argv]


def run_command(node: Node, argv: Sequence[str], timeout_s: float = 10.0) -> str:
    """Run a short command on a node, outside of its shell, and return its output."""
    return subprocess.run(node_command(node, argv), capture_output=True, text=True,
                          timeout=timeout_s,
                          check=False).stdout


def _route_commands(machine: Node, node: model.Node) -> list[str]:
    """Return commands for a node's routes beyond its own subnets, and for forwarding."""
    steps = []
    if node.has_duty("station"):
        # All traffic goes through the agent, whatever the station's own prefix.
        port = radio_of(machine)
        steps += [f"ip route add {node.gateway} dev {port}",
                  f"ip route add default via {node.gateway} dev {port} onlink"]
    elif node.gateway:
        steps.append(f"ip route add default via {node.gateway}")
    steps += [f"ip route add {prefix} via {hop}" for prefix, hop in node.routes.items()]
    return steps + (["sysctl -qw net.ipv4.ip_forward=1"] if node.forwarding else [])


def _run_silent(node: Node, step: str) -> None:
    """Run one command in a node's shell, and treat any output as an error.

    Raises:
        RuntimeError: The command prints something.
    """
    output = " ".join(node.cmd(step).split())
    if output:
        raise RuntimeError(f"{node.name}: {step}: {output}")
