"""Drive charon through vici: bring a tunnel up, tear it down, list what is there."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import vici
from vici.exception import CommandException

from measure.causes import find_cause
from measure.deadlines import wait_at_most
from measure.errors import MeasureError

#: How much longer than a negotiation may take charon's answer is waited for.
_REPLY_S = 15.0
#: Of the levels of what charon says while it does a command: nothing.
_SILENT = "-1"


@contextmanager
def session(path: Path, negotiation_s: float = 0.0) -> Iterator[vici.Session]:
    """A vici session on a charon's socket, for a negotiation of so long at most.

    Raises MeasureError.

    Charon says what it does line by line while it negotiates, and is timed meanwhile.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    wait_at_most(sock, _REPLY_S + negotiation_s)
    try:
        sock.connect(str(path))
        yield vici.Session(sock)
    except BlockingIOError:
        raise MeasureError("ike", f"charon at {path} does not answer (timed out)") from None
    except OSError as error:
        raise MeasureError("ike", f"charon at {path} does not answer ({error})") from error
    finally:
        sock.close()


def initiate(charon: vici.Session, child: str, timeout_s: float, log: Path) -> None:
    """Negotiate IKE and the child SA. Raises MeasureError if it fails, with charon's word on it.

    What charon says line by line meanwhile is in its log, and read there only if it fails: who
    listened would compute between its messages, which are timed.
    """
    said_before = log.stat().st_size if log.exists() else 0
    try:
        charon.request("initiate", {"child": child, "timeout": str(round(timeout_s * 1000)),
                                    "loglevel": _SILENT})
    except CommandException as error:
        said = log.read_bytes()[said_before:].decode("utf-8", "replace") if log.exists() else ""
        raise MeasureError("ike", "IKE negotiation failed: "
                           f"{find_cause('charon', said.splitlines(), most=1) or error}") from error


def terminate(charon: vici.Session, peer: str = "") -> None:
    """Remove the IKE SAs with one peer, or every one, without waiting for the peer's word on it."""
    for entry in list(charon.list_sas()):
        for sa in entry.values():
            if peer and _text(sa["remote-host"]) != peer:
                continue
            # By number: SAs of one name may be with other peers. With a timeout, IKEv2 would wait
            # that long for an answer that cannot come.
            try:
                list(charon.terminate({"ike-id": _text(sa["uniqueid"]), "force": "yes"}))
            except CommandException:
                continue


def security_associations(charon: vici.Session) -> list[dict[str, Any]]:
    """Established IKE SAs with algorithms, as plain text values."""
    return [{"name": name, **_plain(sa)} for entry in charon.list_sas()
            for name, sa in entry.items()]


def has_tunnel(charon: vici.Session, peers: Collection[str]) -> bool:
    """Whether a child SA with one of these addresses is installed."""
    return any(_text(child["state"]) == "INSTALLED"
               for entry in charon.list_sas() for sa in entry.values()
               if _text(sa["remote-host"]) in peers for child in sa["child-sas"].values())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return _text(value)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
