"""Control charon through vici: start and end tunnels, and list SAs."""

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

#: Time to wait for charon's answer in addition to the negotiation, in s.
_REPLY_S = 15.0
#: Log level of a vici command: no messages.
_SILENT = "-1"


@contextmanager
def open_session(path: Path, negotiation_s: float = 0.0) -> Iterator[vici.Session]:
    """Open a vici session on a charon's socket.

    charon logs line by line while it negotiates, and is timed meanwhile.

    Args:
        path: The vici socket.
        negotiation_s: Time limit of a negotiation in s.

    Raises:
        MeasureError: charon does not answer.
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


def negotiate_tunnel(charon: vici.Session, child: str, timeout_s: float, log: Path) -> None:
    """Negotiate IKE and the child SA.

    charon's log is read only after a failure. A listener would compute between charon's messages,
    which are timed.

    Raises:
        MeasureError: The negotiation failed; the text has the cause from charon's log.
    """
    said_before = log.stat().st_size if log.exists() else 0
    try:
        charon.request("initiate", {"child": child, "timeout": str(round(timeout_s * 1000)),
                                    "loglevel": _SILENT})
    except CommandException as error:
        said = log.read_bytes()[said_before:].decode("utf-8", "replace") if log.exists() else ""
        raise MeasureError("ike", "IKE negotiation failed: "
                           f"{find_cause('charon', said.splitlines(), most=1) or error}") from error


def delete_sas(charon: vici.Session, peer: str = "") -> None:
    """Delete the IKE SAs with one peer (or all) without waiting for the peer."""
    for entry in list(charon.list_sas()):
        for sa in entry.values():
            if peer and _to_text(sa["remote-host"]) != peer:
                continue
            # By ID: SAs of one name may have other peers. With a timeout, IKEv2 would wait for an
            # answer that cannot come.
            try:
                list(charon.terminate({"ike-id": _to_text(sa["uniqueid"]), "force": "yes"}))
            except CommandException:
                continue


def list_ike_sas(charon: vici.Session) -> list[dict[str, Any]]:
    """Return the IKE SAs with their algorithms, as plain text values."""
    return [{"name": name, **_to_plain(sa)} for entry in charon.list_sas()
            for name, sa in entry.items()]


def has_tunnel(charon: vici.Session, peers: Collection[str]) -> bool:
    """Return whether a child SA with one of these addresses is installed."""
    return any(_to_text(child["state"]) == "INSTALLED"
               for entry in charon.list_sas() for sa in entry.values()
               if _to_text(sa["remote-host"]) in peers for child in sa["child-sas"].values())


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_to_plain(entry) for entry in value]
    return _to_text(value)


def _to_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
