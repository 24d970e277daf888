"""The attacks of the negative controls, each beside a channel that is otherwise as ever.

Who is on the way can send once more, change or keep what goes by; here the sender's own network
does so, below the protocol. What came of it is judged outside, from the capture and the receiver's
deliveries.
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

#: Makes the capture of a part.
Capturing = Callable[[str], AbstractContextManager[None]]
#: Has the sender's short phase go.
Proving = Callable[[HostProgram], None]
ATTACKS = ("forged-owner", "stale-channel", "replayed", "altered", "unprotected-body",
           "relayed-owner")


def run(fault: str, hosts: HostPrograms, capturing: Capturing, session: Session) -> None:
    """One attack, in a short phase that is captured whole. Raises MeasureError."""
    def prove(sender: HostProgram) -> None:
        session.stamp("proof")
        sender.do("proof")

    if fault not in ATTACKS:
        raise MeasureError("testbed", f"--fault {fault}: is not for cells over wires")
    session.raw["attack"] = fault
    attack = _ATTACKS.get(fault, _on_the_way)
    with capturing("proof"):
        session.stamp("attack")
        attack(fault, hosts, prove)
    session.stamp("end")


def _on_the_way(fault: str, hosts: HostPrograms, prove: Proving) -> None:
    """Everything is sent again, changed, or signed with another key, and goes on."""
    with ExitStack() as stack:
        receiver = stack.enter_context(hosts.program("receiver", "beta"))
        sender = stack.enter_context(hosts.program("sender", "alpha", fault=fault))
        sender.do("establish")
        prove(sender)
        sender.end()
        receiver.end()


def _stale(fault: str, hosts: HostPrograms, prove: Proving) -> None:
    """The receiver crashes, and its next kernel session gets all that the last one was sent."""
    with hosts.program("sender", "alpha", fault=fault) as sender:
        with hosts.program("receiver", "beta") as receiver:
            sender.do("establish")
            prove(sender)
            receiver.end()
        with hosts.program("receiver", "beta", log=str(hosts.out / "later.json.gz")) as receiver:
            sender.do("again")
            receiver.end()
        sender.end()


def _relayed(fault: str, hosts: HostPrograms, prove: Proving) -> None:
    """The owner talks to mid, whose program passes itself off as that owner to beta."""
    with ExitStack() as stack:
        receiver = stack.enter_context(hosts.program("receiver", "beta"))
        sender = stack.enter_context(hosts.program("sender", "alpha", fault=fault))
        mallory = stack.enter_context(hosts.program("mallory", "mid"))
        sender.do("establish")
        prove(sender)
        mallory.tell("go")
        sender.do("lure")
        mallory.expect("done go")
        sender.do("rest")
        sender.end()
        receiver.end()


_ATTACKS: Mapping[str, Callable[[str, Any, Proving], None]] = {
    "stale-channel": _stale, "relayed-owner": _relayed}
