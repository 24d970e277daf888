"""Inject faults into a measurement of the study adp1987, to test that its checks detect them.

The study measures ADP (Authenticated Datagram Protocol of 1987). `changed_settings` returns the
settings of a host without one protection. All messages still arrive then. `run_attack` runs an
attack while the secure channel works normally: packets are repeated, changed or recorded. The
sender's own network code does that in place of an attacker on the path. The workload calls these
functions in the guest. Captures and received messages are evaluated outside of the guest. `faults`
lists the faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from measure.agent.errors import MeasureError
from measure.agent.workload import Session, Site
from measure.services.programs import HostProgram
from topologies import queueing_disciplines

if TYPE_CHECKING:
    from studies.adp1987.workload import HostPrograms


# --- Removed protections over wires ---
# A host's configuration differs from the cell's, or the sender disobeys it, or the wire has no
# rate. The code runs in the guest and needs no third-party packages.

CLEAR_BODY, UNQUEUED, LONGER_TIMEOUT = "clear-body", "unqueued", "longer-timeout"
UNVERIFIED_OWNER, SECOND_CHANNEL = "unverified-owner", "second-channel"
LATER_CHANNEL, BESIDE_WIRE = "later-channel", "beside-wire"
FALSE_LOG, FASTER_WIRE = "false-log", "faster-wire"
WIRE_FAULTS = (CLEAR_BODY, UNQUEUED, LONGER_TIMEOUT, UNVERIFIED_OWNER, SECOND_CHANNEL,
               LATER_CHANNEL, BESIDE_WIRE, FALSE_LOG, FASTER_WIRE)
#: Factor by which the timeout is longer than the policy's.
_LONGER = 1.5
_PORT = ("alpha", "to-beta")


def changed_settings(fault: str, host: str, task: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a host that an injected fault changes."""
    if fault == CLEAR_BODY:
        return {"scope": "trailer"}
    if host == "alpha" and fault == UNQUEUED:
        return {"queue": False}
    if host == "alpha" and fault == LONGER_TIMEOUT:
        return {"timeout_s": task["timeout_s"] * _LONGER}
    return {}


def signing_owner(fault: str, host: str, owner: str, sender: str) -> str:
    """Return whose key pair a host uses for the owner (user) that sends messages.

    With some faults it is the unpublished one of `mallory`, the attacker. With `forged-owner` only
    the sender uses it. With `unverified-owner` the receiver accepts it as well.
    """
    is_swapped = owner == sender and (fault == UNVERIFIED_OWNER or (
        fault == "forged-owner" and host == "alpha"))
    return "mallory" if is_swapped else owner


@contextmanager
def remove_wire_rate(fault: str, site: Site) -> Iterator[None]:
    """Remove the rate limit of the wire inside the context, if the fault is `faster-wire`."""
    if fault != FASTER_WIRE:
        yield
        return
    node, port = _PORT
    [link] = [link for link in site.network.links if f"{node}/{port}" in link.ends]
    site.testbed.run_command(node, ["tc", "qdisc", "del", "dev", port, "root"])
    try:
        yield
    finally:
        for command in queueing_disciplines.wire_commands(link, port):
            site.testbed.run_command(node, command.split())


# --- Attacks over wires ---

#: Function that returns a context manager for the capture of a part.
CaptureContext = Callable[[str], AbstractContextManager[None]]
#: Function that starts the sender's short phase `proof`.
ProofStart = Callable[[HostProgram], None]
ATTACKS = ("forged-owner", "stale-channel", "replayed", "altered", "unprotected-body",
           "relayed-owner")


def run_attack(fault: str, hosts: HostPrograms, capturing: CaptureContext,
               session: Session) -> None:
    """Run an attack in a short phase, of which all bytes are captured.

    Args:
        fault: name of the attack, one of `ATTACKS`.
        hosts: programs of the repetition's hosts.
        capturing: starts and ends a capture.
        session: gets the time stamps and the name of the attack.

    Raises:
        MeasureError: the attack does not exist over Ethernet.
    """
    def prove(sender: HostProgram) -> None:
        session.stamp("proof")
        sender.run_command("proof")

    if fault not in ATTACKS:
        raise MeasureError("testbed", f"--fault {fault}: is not for cells over wires")
    session.raw["attack"] = fault
    attack = _ATTACKS.get(fault, _attack_on_path)
    with capturing("proof"):
        session.stamp("attack")
        attack(fault, hosts, prove)
    session.stamp("end")


def _attack_on_path(fault: str, hosts: HostPrograms, prove: ProofStart) -> None:
    """Repeat or change datagrams with messages, or sign with another key."""
    with ExitStack() as stack:
        receiver = stack.enter_context(hosts.start_program("receiver", "beta"))
        sender = stack.enter_context(hosts.start_program("sender", "alpha", fault=fault))
        sender.run_command("establish")
        prove(sender)
        sender.finish()
        receiver.finish()


def _replay_to_next_session(fault: str, hosts: HostPrograms, prove: ProofStart) -> None:
    """Replay all recorded datagrams to the receiver after it has restarted."""
    with hosts.start_program("sender", "alpha", fault=fault) as sender:
        with hosts.start_program("receiver", "beta") as receiver:
            sender.run_command("establish")
            prove(sender)
            receiver.finish()
        with hosts.start_program("receiver", "beta",
                                 log=str(hosts.out / "later.json.gz")) as receiver:
            sender.run_command("again")
            receiver.finish()
        sender.finish()


def _relay_owner(fault: str, hosts: HostPrograms, prove: ProofStart) -> None:
    """Make a user talk to host mid, which then impersonates this user to the receiver."""
    with ExitStack() as stack:
        receiver = stack.enter_context(hosts.start_program("receiver", "beta"))
        sender = stack.enter_context(hosts.start_program("sender", "alpha", fault=fault))
        mallory = stack.enter_context(hosts.start_program("mallory", "mid"))
        sender.run_command("establish")
        prove(sender)
        mallory.send_command("go")
        sender.run_command("lure")
        mallory.expect_line("done go")
        sender.run_command("rest")
        sender.finish()
        receiver.finish()


_ATTACKS: Mapping[str, Callable[[str, Any, ProofStart], None]] = {
    "stale-channel": _replay_to_next_session, "relayed-owner": _relay_owner}


# --- Names of the controls on the air, under a policy ---

#: Negative controls that exist only on the air.
BESIDE_CHANNEL, AROUND_THE_TUNNEL = "beside-channel", "messages-around-tunnel"
WITHOUT_WEP = "messages-without-wep"
#: Ending of controls that also exist over wires, under the name without it.
AIR_SUFFIX = "-on-air"
LONGER_TIMEOUT_ON_AIR, UNVERIFIED_OWNER_ON_AIR = "longer-timeout-on-air", "unverified-owner-on-air"
SECOND_CHANNEL_ON_AIR, FALSE_LOG_ON_AIR = "second-channel-on-air", "false-log-on-air"
LATER_CHANNEL_ON_AIR = "later-channel-on-air"
AIR_FAULTS = (BESIDE_CHANNEL, AROUND_THE_TUNNEL, WITHOUT_WEP, LONGER_TIMEOUT_ON_AIR,
              UNVERIFIED_OWNER_ON_AIR, SECOND_CHANNEL_ON_AIR,
              LATER_CHANNEL_ON_AIR, FALSE_LOG_ON_AIR)


# --- Names of the controls in real time ---

#: Ending of negative controls that also exist over wires, under the name without it.
REALTIME_SUFFIX = "-in-real-time"
#: Negative controls that exist only in real time.
BESIDE_TUNNEL, LONGER_TIMEOUT_IN_REAL_TIME = "beside-tunnel", f"longer-timeout{REALTIME_SUFFIX}"
