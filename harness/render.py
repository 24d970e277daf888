"""Render a policy's files for every node with ansible-playbook, outside of the testbed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from guest.processes import tied_command
from harness.errors import UserError
from harness.playing import ANSIBLE, Player, PlayerLostError
from harness.secrets import Secrets
from measure.causes import find_ansible_cause, hide_secrets, secret_values
from measure.time_limits import LEAST_IKE_RETRY_S, LEAST_RADIUS_CLEANUP_S, TimeLimits
from policies import Policy
from topologies.model import Network, Node

_FREQUENCY_OF_CHANNEL_0_MHZ = 2407


def make_inventory(network: Network) -> dict[str, Any]:
    """Return the Ansible inventory of a network.

    It has a group for each duty, and a variable `node` for each host: the node's name, duties,
    first address and agent. Under the name of each duty known here, `node` has the variables of
    that duty's roles. Duties that only a study knows are groups without a role.
    """
    groups: dict[str, dict[str, Any]] = {duty: {} for duty in _DESCRIBE}
    hosts: dict[str, Any] = {}
    limits = TimeLimits(network, None)
    for name, node in network.nodes.items():
        if node.duties:
            hosts[name] = {"ansible_connection": "local",
                           "node": _describe_node(network, name, node, limits)}
        for duty in node.duties:
            groups.setdefault(duty, {})[name] = {}
    return {"all": {"hosts": hosts, "children": {duty: {"hosts": members}
                                                 for duty, members in groups.items()}}}


def _describe_node(network: Network, name: str, node: Node, limits: TimeLimits) -> dict[str, Any]:
    """Return the variables that Ansible gets for a node."""
    described: dict[str, Any] = {"name": name, "duties": node.duties}
    if any(interface.address for interface in node.interfaces.values()):
        described["address"] = node.address
    if node.agent in network.nodes:
        described |= {"agent": node.agent, "agent_address": network.nodes[node.agent].address}
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
    return {"interface": node.radio_interface, "address": node.address, "agent": node.agent,
            "agent_address": network.nodes[node.agent].address, "ssid": home.ssid,
            "frequencies_mhz": sorted({_frequency_mhz(cell) for cell in cells})}


def _describe_access_point(network: Network, node: Node, _name: str) -> dict[str, Any]:
    assert node.agent is not None
    bridge = next(i.bridge for i in node.interfaces.values() if i.radio)
    neighbours = [other.interfaces[other.radio_interface].radio
                  for other in (network.nodes[name] for name in network.of_duty("access_point"))
                  if other.agent == node.agent and other is not node]
    return {"interface": node.radio_interface, "bridge": bridge,
            "address": node.interfaces[bridge or ""].ip,
            "radius_address": network.nodes[node.agent].address, "ssid": node.ssid,
            "channel": node.channel, "hw_mode": "b",
            **({"neighbours": neighbours} if neighbours else {})}


def _describe_radius_client(_network: Network, node: Node, _name: str) -> dict[str, Any]:
    return {"address": node.address, "agent": node.agent}


def _describe_home_agent(network: Network, node: Node, name: str) -> dict[str, Any]:
    def served(duty: str) -> list[dict[str, str]]:
        return [{"name": other, "address": entry.address} for other, entry in network.nodes.items()
                if entry.has_duty(duty) and entry.agent == name]
    others = [other for other in network.of_duty("home_agent") if other != name]
    return {"address": node.address,
            "radius_clients": [client for duty in ("access_point", _RADIUS_CLIENT, "home_agent")
                               for client in served(duty)],
            **({"forwards_to": network.nodes[node.agent].address} if node.agent else {}),
            "mobile_nodes": served("station"),
            "peer_agents": [_peer_agent(node, other, network.nodes[other]) for other in others]}


def _peer_agent(node: Node, other: str, peer: Node) -> dict[str, Any]:
    """Return the tunnels between two home agents: for Mobile IP, and for all other traffic.

    The selectors `home` and `visit` are for Mobile IP, between home agent and care-of address.
    `home` is for nodes of this subnet that are away, `visit` for nodes of the other subnet that are
    here.
    """
    selectors = [("home", f"{node.address}/32", f"{peer.outer_address}/32"),
                 ("visit", f"{node.outer_address}/32", f"{peer.address}/32"),
                 ("subnets", node.serves, peer.serves)]
    return {"name": other, "address": peer.outer_address, "local": node.outer_address,
            "selectors": [dict(zip(("name", "local", "remote"), selector, strict=True))
                          for selector in selectors]}


#: Duty of a node that sends RADIUS requests as access points do, but is no access point.
_RADIUS_CLIENT = "radius_client"
#: Duties of Kerberos: the key distribution centre, and the application server.
_KDC, _KERBEROS_SERVER = "kerberos_kdc", "kerberos_server"


def _realm_name(kdc: str) -> str:
    """Return the realm of a KDC, which has its node's name."""
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
             "home_agent": _describe_home_agent,
             _RADIUS_CLIENT: _describe_radius_client, _KDC: _describe_kdc,
             "kerberos_client": _describe_kerberos_party,
             _KERBEROS_SERVER: _describe_kerberos_party}


def _frequency_mhz(cell: Node) -> int:
    """Return the centre frequency of a 2.4 GHz channel (1 to 13), in MHz."""
    assert cell.channel is not None
    return _FREQUENCY_OF_CHANNEL_0_MHZ + 5 * cell.channel


class Renderer:
    """A renderer of policies. Each policy is rendered once for each network, on first use.

    `player` supplies the Ansible process, if many policies are to be rendered. The process is
    closed together with the renderer.
    """

    def __init__(self, secrets: Secrets, work: Path,
                 player: Callable[[], Player] | None = None) -> None:
        self._secrets = secrets
        self._work = work
        self._new_player = player
        self._networks: list[Network] = []
        self._tasks: dict[str, asyncio.Task[Path]] = {}
        self._player: Player | None = None

    def begin_rendering(self, policy: Policy, network: Network, mount: str) -> asyncio.Task[Path]:
        """Start to render a policy for a network, unless that was started before.

        Several callers may wait for the task, so a caller must not cancel it.

        Args:
            policy: The policy to render.
            network: The network whose nodes get files.
            mount: Path at which the nodes will find the files.

        Returns:
            A task whose result is the folder with the files of every node. It raises UserError if
                the
            policy cannot be rendered.
        """
        if network not in self._networks:
            self._networks.append(network)
        if self._player is None and self._new_player is not None:
            self._player = self._new_player()
        name = f"{policy.id}-{self._networks.index(network)}"
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(render_policy(
                policy, network, self._secrets, work=self._work, name=name, mount=mount,
                player=self._player))
        return self._tasks[name]

    async def close(self) -> None:
        """Cancel all rendering and close the Ansible process."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._player is not None:
            await self._player.close()


async def render_policy(policy: Policy, network: Network, secrets: Secrets, *, work: Path,
                        name: str, mount: str, player: Player | None = None) -> Path:
    """Render a policy into `work/conf/<name>` and return that folder.

    The run's certificate authority is created in `work/pki` by the first policy that needs it.
    Raises UserError with Ansible's own message.
    """
    output = work / "conf" / name
    rendered = {place: secrets[place] for place in ("network", "station", "gateway", "kerberos")}
    # Policies and networks were validated when they were read. Validation of each role's arguments
    # for each node would take a third of the time.
    variables = {"qop_checks_roles": False,
                 "qop": {"policy": policy.model_dump(mode="json"), "secrets": rendered,
                         "output": str(output), "pki": str(work / "pki"), "mount": mount}}
    inputs = work / "ansible"
    for folder in (inputs, output):  # a network may have no node with files
        folder.mkdir(parents=True, exist_ok=True)
    (inputs / f"{name}.inventory.json").write_text(json.dumps(make_inventory(network)))
    (inputs / f"{name}.vars.json").write_text(json.dumps(variables))
    log = inputs / f"{name}.log"
    arguments = ["-i", str(inputs / f"{name}.inventory.json"), str(ANSIBLE / "policy.yml"),
                 "-e", f"@{inputs / f'{name}.vars.json'}"]
    if await _run_playbook(player, name, arguments, log=log, temporary=inputs / "tmp"):
        cause = find_ansible_cause(log.read_text(errors="replace").splitlines())
        hidden = [*secret_values(secrets.values())]
        raise UserError(f"policy {policy.id}: ansible-playbook failed: "
                        f"{hide_secrets(cause, hidden)} (log: {log})", status=1)
    return output


async def _run_playbook(player: Player | None, name: str, arguments: Sequence[str], *, log: Path,
                        temporary: Path) -> int:
    """Run a playbook with the loaded Ansible process, or else with a new one.

    Returns the exit status of `ansible-playbook`.
    """
    if player is not None:
        with contextlib.suppress(PlayerLostError):
            return await player.run_playbook(name, arguments, log=log, temporary=temporary)
    process = await asyncio.create_subprocess_exec(
        *tied_command("KILL"), "nice", "-n", "10",
        str(Path(sys.executable).with_name("ansible-playbook")), *arguments,
        env={**os.environ, "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
             "ANSIBLE_LOCAL_TEMP": str(temporary), "ANSIBLE_REMOTE_TEMP": str(temporary)},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT, start_new_session=True)
    try:
        said, _ = await process.communicate()
    except asyncio.CancelledError:
        await _end_process(process)
        raise
    log.write_bytes(said)
    return process.returncode or 0


async def _end_process(process: asyncio.subprocess.Process) -> None:
    """Kill an interrupted Ansible with all processes of its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.communicate()  # read to the end, or the pipe would outlive the event loop

