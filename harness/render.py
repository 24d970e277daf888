"""Make the configuration files of all daemons from a policy, with ansible-playbook.

A policy says which protection a network has, for example WPA3 with EAP-TLS. `render_policy` takes
the policy, the network and the secrets. It returns a folder with the files of each node, such as
hostapd.conf, wpa_supplicant.conf and swanctl.conf. `Renderer` makes them only once per policy,
network and medium. This runs on the host, outside of the emulated network.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from guest.processes import build_tied_command
from harness.ansible_process import ANSIBLE, AnsibleProcess, AnsibleProcessLost
from harness.errors import UserError
from harness.secrets import Secrets, add_sae_keys
from measure.agent.errors import find_ansible_cause, hide_secrets, secret_values
from measure.agent.time_limits import LEAST_IKE_RETRY_S, LEAST_RADIUS_CLEANUP_S, TimeLimits
from policies import Policy
from topologies.ipv6 import ipv6_prefix, ipv6_subnet
from topologies.medium import tuned_frequency_mhz
from topologies.model import (
    DHCP_SERVER,
    GATEWAY,
    IPV6,
    OCSP_RESPONDER,
    RADIUS_SERVER,
    Medium,
    Network,
    Node,
)

#: Basic rate that every OFDM station knows, besides 6 and 24 Mbit/s (17.2.3.4).
_MIDDLE_RATE_BPS = 12_000_000


def make_inventory(network: Network, medium: Medium | None = None) -> dict[str, Any]:
    """Return the Ansible inventory of a network on a medium.

    It has a group for each duty, and a variable `node` for each host: the node's name, duties,
    first address and agent. Under the name of each duty known here, `node` has the variables of
    that duty's roles. Duties that only a study knows are groups without a role.
    """
    groups: dict[str, dict[str, Any]] = {duty: {} for duty in _DESCRIBE}
    hosts: dict[str, Any] = {}
    limits = TimeLimits(network, None)
    for name, own in network.nodes.items():
        # The same daemon leases addresses and sends router advertisements.
        node = replace(own, duties=list(dict.fromkeys((*own.duties, DHCP_SERVER)))) \
            if network.advertised_ports(name) else own
        if node.duties:
            hosts[name] = {"ansible_connection": "local",
                           "node": _describe_node(network, name, node, limits)}
            _tune_radio(hosts[name]["node"], node, network, medium)
        for duty in node.duties:
            groups.setdefault(duty, {})[name] = {}
    return {"all": {"hosts": hosts, "children": {duty: {"hosts": members}
                                                 for duty, members in groups.items()}}}


def _describe_node(network: Network, name: str, node: Node, limits: TimeLimits) -> dict[str, Any]:
    """Return the Ansible variables of a node: its name, address, home agent and duties."""
    described: dict[str, Any] = {"name": name, "duties": node.duties}
    if any(interface.address for interface in node.interfaces.values()):
        described["address"] = network.address_of(name)
    if node.agent in network.nodes:
        described |= {"agent": node.agent, "agent_address": network.address_of(node.agent)}
    if (retry_s := limits.ike_retry_s) > LEAST_IKE_RETRY_S:
        described["ike_retry_s"] = round(retry_s, 3)
    if (cleanup_s := limits.radius_cleanup_s) > LEAST_RADIUS_CLEANUP_S:
        described["radius_cleanup_s"] = cleanup_s
    return described | {duty: {"name": name, **describe(network, node, name)}
                        for duty, describe in _DESCRIBE.items() if node.has_duty(duty)}


def _describe_station(network: Network, node: Node, _name: str) -> dict[str, Any]:
    assert node.agent is not None
    cells = [network.nodes[name] for name in network.of_duty("access_point")]
    home = next(cell for cell in cells if cell.agent == node.agent)
    return {"interface": node.radio_interface, "mac": node.radio_mac, "address": node.address,
            "agent": node.agent,
            "agent_address": network.address_of(node.agent), "ssid": home.ssid,
            **({"bgscan": node.roaming.bgscan_option} if node.roaming else {})}


def _describe_access_point(network: Network, node: Node, name: str) -> dict[str, Any]:
    assert node.agent is not None
    neighbours = [other.interfaces[other.radio_interface].radio
                  for other in (network.nodes[name] for name in network.of_duty("access_point"))
                  if other.agent == node.agent and other is not node]
    return {"interface": node.radio_interface, "bridge": node.radio_bridge,
            "address": node.interfaces[node.radio_bridge].ip,
            **_radius_address(network, name), "ssid": node.ssid,
            **_wired_interface(network, name),
            "stations": [network.nodes[station].radio_mac
                         for station in network.of_duty("station")],
            **({"neighbours": neighbours} if neighbours else {})}


def _wired_interface(network: Network, access_point: str) -> dict[str, str]:
    """Return the access point's interface on its wire, as a variable for Ansible."""
    with contextlib.suppress(LookupError):
        return {"wire": network.link_of(access_point)[0]}
    return {}


def _radius_address(network: Network, access_point: str) -> dict[str, str]:
    names = ("radius_address", "second_radius_address")
    return {name: network.nodes[server].address for name, server
            in zip(names, network.radius_servers_of(access_point), strict=False)}


def _tune_radio(described: dict[str, Any], node: Node, network: Network,
                medium: Medium | None) -> None:
    """Add channels and the physical layer to the variables of stations and access points."""
    def tuned_channel(channel: int) -> int:
        return medium.tuned_channel(channel, network.access_point_channels) if medium else channel

    if "station" in described:
        described["station"]["frequencies_mhz"] = sorted(
            {tuned_frequency_mhz(medium, channel, network.access_point_channels)
             for channel in network.access_point_channels})
    if "access_point" not in described:
        return
    assert node.channel is not None
    channel = tuned_channel(node.channel)
    described["access_point"] |= {"channel": channel, "hw_mode": "b"}
    if medium is not None and (phy := medium.phy) is not None:
        described["access_point"] |= {
            "hw_mode": "g" if phy.is_in_2_4_ghz else "a",
            "phy": {"format": phy.format, "width_mhz": phy.width_mhz,
                    **({"operating_class": phy.operating_class} if phy.operating_class else {}),
                    "centre_channel": phy.centre_channel(channel), "aifsn": medium.aifs_number,
                    "cw_min_exponent": medium.cw_min.bit_length(),
                    "cw_max_exponent": medium.cw_max.bit_length(),
                    "basic_rates_100kbps": [rate_bps // 100_000 for rate_bps in sorted(
                        {medium.broadcast_rate_bps, _MIDDLE_RATE_BPS, medium.ack_rate_bps})]}}


def _describe_radius_client(_network: Network, node: Node, _name: str) -> dict[str, Any]:
    return {"address": node.address, "agent": node.agent}


def _describe_radius_server(network: Network, node: Node, name: str) -> dict[str, Any]:
    """Return the clients of a RADIUS server, and the servers that it forwards to and asks."""
    def is_client(other: str, entry: Node, duty: str) -> bool:
        if not entry.has_duty(duty):
            return False
        return name in network.radius_servers_of(other) if duty == "access_point" \
            else entry.agent == name
    responders = network.of_duty(OCSP_RESPONDER)
    return {"address": node.address,
            "stations": [network.nodes[station].radio_mac
                         for station in network.of_duty("station")],
            "radius_clients": [{"name": other, "address": entry.address}
                               for duty in ("access_point", _RADIUS_CLIENT, "home_agent",
                                            RADIUS_SERVER)
                               for other, entry in network.nodes.items()
                               if is_client(other, entry, duty)],
            **({"forwards_to": network.nodes[node.agent].address} if node.agent else {}),
            **({"ocsp_address": network.nodes[responders[0]].address} if responders else {})}


def _describe_ocsp_responder(_network: Network, node: Node, _name: str) -> dict[str, Any]:
    return {"address": node.address}


def _describe_gateway(network: Network, node: Node, name: str) -> dict[str, Any]:
    """Return the ends of the tunnels of a gateway: its mobile nodes, and the other gateways."""
    others = [other for other in network.tunnel_gateways if other != name and node.nat is None]
    return {"address": node.address,
            "mobile_nodes": [{"name": other, "address": network.address_of(other)}
                             for other, entry in network.nodes.items()
                             if entry.has_duty("station") and entry.agent == name],
            "peer_agents": [_peer_agent(network, name, other) for other in others],
            **({"leases_addresses": True} if node.has_duty(DHCP_SERVER) else {})}


def _describe_home_agent(network: Network, node: Node, name: str) -> dict[str, Any]:
    return {**_describe_gateway(network, node, name),
            **_describe_radius_server(network, node, name)}


def _describe_dhcp_server(network: Network, node: Node, name: str) -> dict[str, Any]:
    """Return the interfaces of a DHCP server with their subnets, and the reserved addresses.

    With `ip: 6`, it also has the IPv6 subnets of its router advertisements.
    """
    interfaces = []
    for port, interface in node.interfaces.items():
        subnet = ipaddress.IPv4Interface(interface.address).network if interface.address else None
        leases = [{"name": other, "mac": station.radio_mac, "address": station.address,
                   "gateway": station.gateway} for other, station in network.nodes.items()
                  if station.uses_dhcp and ipaddress.IPv4Address(station.address) in (subnet or ())]
        if subnet and leases:
            interfaces.append({"name": port, "subnet": str(subnet.network_address),
                               "mask": str(subnet.netmask), "leases": leases})
    advertised = [{"name": port, "subnet": ipv6_subnet(node.interfaces[port].address or "")}
                  for port in network.advertised_ports(name)]
    return {"interfaces": interfaces, **({"advertised": advertised} if advertised else {})}


def _peer_agent(network: Network, name: str, other: str) -> dict[str, Any]:
    """Return the IPsec tunnels between two home agents, as variables for Ansible.

    The tunnels `home` and `visit` carry Mobile IP between a home agent and a care-of address.
    `home` is for nodes of this subnet that are away, `visit` for nodes of the other subnet that are
    here. The tunnel `subnets` carries all other traffic.
    """
    bits = 128 if network.ip == IPV6 else 32
    ends = [(network.address_of(each), network.outer_address_of(each)) for each in (name, other)]
    serves = [prefix and ipv6_prefix(prefix) if network.ip == IPV6 else prefix
              for prefix in (network.nodes[name].serves, network.nodes[other].serves)]
    selectors = [("home", f"{ends[0][0]}/{bits}", f"{ends[1][1]}/{bits}"),
                 ("visit", f"{ends[0][1]}/{bits}", f"{ends[1][0]}/{bits}"),
                 ("subnets", *serves)]
    return {"name": other, "address": ends[1][1], "local": ends[0][1],
            "selectors": [dict(zip(("name", "local", "remote"), selector, strict=True))
                          for selector in selectors]}


#: Duty of a node that sends RADIUS requests as access points do, but is no access point.
_RADIUS_CLIENT = "radius_client"
#: Duties of Kerberos: the key distribution centre, and the application server.
_KDC, _KERBEROS_SERVER = "kerberos_kdc", "kerberos_server"


def _realm_name(kdc: str) -> str:
    """Return the Kerberos realm of a key distribution centre, made from its node's name."""
    return f"{kdc.upper()}.TEST"


def _describe_kdc(network: Network, _node: Node, name: str) -> dict[str, Any]:
    servers = network.of_duty(_KERBEROS_SERVER)
    realm = _realm_name(name)
    return {"realm": realm,
            "peers": [_realm_name(other) for other in network.of_duty(_KDC) if other != name],
            "servers": [{"node": server, "host": f"{server}.{realm.lower()}"}
                        for server in servers]}


def _describe_kerberos_party(network: Network, node: Node, _name: str) -> dict[str, Any]:
    kdcs = network.of_duty(_KDC)
    return {"home_realm": _realm_name(node.agent if node.agent in kdcs else kdcs[0]),
            "kdcs": [{"realm": _realm_name(kdc), "address": network.nodes[kdc].address}
                     for kdc in kdcs]}


_DESCRIBE = {"station": _describe_station, "access_point": _describe_access_point,
             "home_agent": _describe_home_agent, GATEWAY: _describe_gateway,
             RADIUS_SERVER: _describe_radius_server, DHCP_SERVER: _describe_dhcp_server,
             OCSP_RESPONDER: _describe_ocsp_responder,
             _RADIUS_CLIENT: _describe_radius_client, _KDC: _describe_kdc,
             "kerberos_client": _describe_kerberos_party,
             _KERBEROS_SERVER: _describe_kerberos_party}


class Renderer:
    """A renderer of policies: it makes configuration files once per policy, network and medium.

    `player` supplies the Ansible process, if many policies are to be rendered. The process is
    closed together with the renderer.
    """

    def __init__(self, secrets: Secrets, work: Path,
                 player: Callable[[], AnsibleProcess] | None = None) -> None:
        self._secrets = secrets
        self._work = work
        self._new_player = player
        self._networks: list[tuple[Network, Medium | None]] = []
        self._tasks: dict[str, asyncio.Task[Path]] = {}
        self._player: AnsibleProcess | None = None

    def begin_rendering(self, policy: Policy, network: Network, mount: str,
                        medium: Medium | None = None, release: str = "") -> asyncio.Task[Path]:
        """Start to make a policy's configuration files for a network and medium, if not started.

        Several callers may wait for the task, so a caller must not cancel it.

        Args:
            policy: The policy to render.
            network: The network whose nodes get files.
            mount: Path at which the nodes will find the files.
            medium: The medium of the air, whose physical layer access points offer.
            release: Suite of the Debian release whose daemons read the files, "" for the default.

        Returns:
            A task whose result is the folder with the files of every node. It raises UserError if
            the policy cannot be rendered.
        """
        place = network, medium if medium and medium.phy else None
        if place not in self._networks:
            self._networks.append(place)
        if self._player is None and self._new_player is not None:
            self._player = self._new_player()
        name = f"{policy.id}-{self._networks.index(place)}" + (f"-{release}" if release else "")
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(render_policy(
                policy, network, self._secrets, work=self._work, name=name, mount=mount,
                player=self._player, medium=medium, release=release))
        return self._tasks[name]

    async def close(self) -> None:
        """Cancel all rendering and close the Ansible process."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._player is not None:
            self._player.kill_process()


async def render_policy(  # noqa: PLR0913 - inputs of the playbook, most by name
        policy: Policy, network: Network, secrets: Secrets, *, work: Path, name: str, mount: str,
        player: AnsibleProcess | None = None, medium: Medium | None = None,
        release: str = "") -> Path:
    """Make a policy's configuration files in `work/conf/<name>` and return that folder.

    The first policy that needs the run's certificate authority creates it in `work/pki`. Raises
    UserError with Ansible's own message. `mount` is the path at which daemons find the files.
    `player` is a started Ansible process, `medium` the emulated air.
    """
    output = work / "conf" / name
    if policy.layers.link is not None and policy.layers.link.sae == "pk":
        await asyncio.to_thread(add_sae_keys, secrets, sorted(
            {network.nodes[cell].ssid or "" for cell in network.of_duty("access_point")}))
    rendered = {place: secrets[place] for place in ("network", "station", "gateway", "kerberos")}
    # Policies and networks were validated when they were read. Validation of each role's arguments
    # for each node would take a third of the time.
    variables = {"qop_checks_roles": False,
                 "qop": {"policy": policy.model_dump(mode="json"), "secrets": rendered,
                         "output": str(output), "pki": str(work / "pki"), "mount": mount,
                         **({"release": release} if release else {})}}
    inputs = work / "ansible"
    for folder in (inputs, output):  # a network may have no node with files
        folder.mkdir(parents=True, exist_ok=True)
    (inputs / f"{name}.inventory.json").write_text(json.dumps(
        make_inventory(network, medium)))
    (inputs / f"{name}.vars.json").write_text(json.dumps(variables))
    log = inputs / f"{name}.log"
    arguments = ["-i", str(inputs / f"{name}.inventory.json"), str(ANSIBLE / "policy.yml"),
                 "-e", f"@{inputs / f'{name}.vars.json'}"]
    if await _run_playbook(player, arguments, log=log, temporary=inputs / "tmp"):
        cause = find_ansible_cause(log.read_text(errors="replace").splitlines())
        hidden = [*secret_values(secrets.values())]
        raise UserError(f"policy {policy.id}: ansible-playbook failed: "
                        f"{hide_secrets(cause, hidden)} (log: {log})", status=1)
    return output


async def _run_playbook(player: AnsibleProcess | None, arguments: Sequence[str], *,
                        log: Path,
                        temporary: Path) -> int:
    """Run a playbook with the loaded Ansible process if there is one, or with a new process.

    Returns the exit status of `ansible-playbook`.
    """
    if player is not None:
        with contextlib.suppress(AnsibleProcessLost):
            return await player.run_playbook(arguments, log=log, temporary=temporary)
    process = await asyncio.create_subprocess_exec(
        *build_tied_command("KILL"), "nice", "-n", "10",
        str(Path(sys.executable).with_name("ansible-playbook")), *arguments,
        env={**os.environ, "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
             "ANSIBLE_LOCAL_TEMP": str(temporary), "ANSIBLE_REMOTE_TEMP": str(temporary)},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        await _end_process(process)
        raise
    log.write_bytes(output)
    return process.returncode or 0


async def _end_process(process: asyncio.subprocess.Process) -> None:
    """Kill an interrupted Ansible together with all processes of its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.communicate()  # read to the end, or the pipe would outlive the event loop

