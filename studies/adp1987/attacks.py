"""Attacks of the negative controls.

Apart from the attack, the channel works normally. An attacker on the path can repeat, change or
record packets. Here the sender's own network code does so, below the protocol. The judge decides
outside of the guest, from the capture and from the receiver's deliveries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from measure.errors import MeasureError
from measure.services.program import HostProgram
from measure.workload import Session

if TYPE_CHECKING:
    from studies.adp1987.inside import HostPrograms

#: Function that returns a context manager for the capture of a part.
Capturing = Callable[[str], AbstractContextManager[None]]
#: Function that starts the sender's short phase `proof`.
Proving = Callable[[HostProgram], None]
ATTACKS = ("forged-owner", "stale-channel", "replayed", "altered", "unprotected-body",
           "relayed-owner")


def run_attack(fault: str, hosts: HostPrograms, capturing: Capturing, session: Session) -> None:
    """Run one attack in a short phase that is captured whole.

    Args:
        fault: Name of the negative control, one of `ATTACKS`.
        hosts: Programs of the repetition's hosts.
        capturing: Starts and ends the capture of a part.
        session: Gets the time stamps and the name of the attack.

    Raises:
        MeasureError: The control does not exist for cells over wires.
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


def _attack_on_path(fault: str, hosts: HostPrograms, prove: Proving) -> None:
    """Repeat or change datagrams with user messages, or sign with another key."""
    with ExitStack() as stack:
        receiver = stack.enter_context(hosts.start_program("receiver", "beta"))
        sender = stack.enter_context(hosts.start_program("sender", "alpha", fault=fault))
        sender.run_command("establish")
        prove(sender)
        sender.finish()
        receiver.finish()


def _replay_to_next_session(fault: str, hosts: HostPrograms, prove: Proving) -> None:
    """Replay all datagrams to a receiver that has restarted with a new kernel session."""
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


def _relay_owner(fault: str, hosts: HostPrograms, prove: Proving) -> None:
    """Have the owner talk to host mid, which impersonates that owner to beta."""
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


_ATTACKS: Mapping[str, Callable[[str, Any, Proving], None]] = {
    "stale-channel": _replay_to_next_session, "relayed-owner": _relay_owner}
