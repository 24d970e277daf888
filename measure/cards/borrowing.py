"""Borrow an 802.11 card for a measurement, and restore it, also if this process is killed.

`borrow_card` is a context manager. It starts a guardian, a second process that restores the card.
The guardian waits until its standard input is closed. The kernel closes it however the borrower
ends. Then the guardian ends programs that still use the card, and restores the card from the
journal: a file with the card's earlier state. Only one process borrows a card at a time. If the
guardian is killed, too, the next borrower restores the card.

`BorrowedCard.place_card` gives a card to a node of an emulated network: its radio moves to the
node's network namespace, and its interface gets the name and the address of the node's. Standard
library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from measure.agent.errors import MeasureError
from measure.cards import users, wireless
from measure.cards.wireless import CardState
from topologies.namespaces import network_of

#: Folder of journals, which is empty after each boot, as are changes of cards.
JOURNALS = Path("/run/qop-cards")
_CODE = Path(__file__).parents[2]
#: Limits in s: for programs to end after SIGTERM, for a guardian, and for a manager to let go.
_GRACE_S, _GUARDIAN_S, _RELEASE_S = 3.0, 30.0, 5.0
_POLL_S = 0.02
#: Beginning of the name of a monitor beside the interface of a card that was placed in another
#: namespace. Access points share a namespace.
MONITOR_NAME = "qopmon"


@dataclass
class BorrowedCard:
    """A card that this process may change.

    - `state`: the card's state before the measurement
    - `folder`: folder for files of programs that use the card. Only root can read it. Each program
      has a path below this folder among its arguments, by which the guardian finds the program
    - `lock`: descriptor that these programs must inherit
    - `monitor`: name of the interface that captures all frames of the radio, "" without one
    - `monitor_missing`: why there is no monitor, "" if there is one or none is wanted
    - `was_restored`: whether an earlier borrower was killed, and the card restored only now
    """

    state: CardState
    folder: Path
    lock: int
    monitor: str = ""
    monitor_missing: str = ""
    was_restored: bool = False

    @property
    def card_name(self) -> str:
        """Return the interface of the card."""
        return self.state.name

    def place_card(self, pid: int, name: str, address: str) -> None:
        """Move the card's radio to the network namespace of a process.

        The card must have been borrowed as one that moves.

        Args:
            pid: The process.
            name: Name of the card's interface there.
            address: MAC address of the interface.

        Raises:
            MeasureError: The driver does not support one of these changes.
        """
        state, step = self.state, "set down"
        try:
            wireless.set_link(state.index, is_up=False)
            step = f"given the address {address}"
            wireless.set_address(state.index, address)
            step = "moved to another network namespace"
            with open(f"/proc/{pid}/ns/net", "rb") as namespace:
                wireless.move_radio(state.phy, namespace.fileno())
            with network_of(pid):
                present = wireless.list_interfaces(state.phy)[state.device]
                step = f"renamed to {name}"
                if present.name != name:
                    wireless.rename_interface(present.index, name)
        except OSError as error:
            raise MeasureError("testbed", f"{state.name}: cannot be {step} ({error.strerror}); "
                               "give another card") from None

    def add_monitor(self, pid: int, name: str) -> str:
        """Make a monitor at the radio of a card in the namespace of a process.

        Returns:
            Why this failed, "" if it did not.
        """
        with network_of(pid):
            return _add_monitor(self.state.phy, name)

    def tune_monitor(self, frequency_mhz: int) -> None:
        """Make the card a monitor of a channel.

        Raises:
            MeasureError: The driver refuses.
        """
        state = self.state
        try:
            wireless.set_link(state.index, is_up=False)
            wireless.set_type(state.index, wireless.MONITOR)
            wireless.set_link(state.index, is_up=True)
            wireless.tune_monitor(state.index, frequency_mhz)
        except OSError as error:
            raise MeasureError("testbed", f"{state.name}: cannot be a monitor at {frequency_mhz} "
                               f"MHz ({error.strerror}); give another card") from None

    def bring_home(self) -> None:
        """Bring the card's radio back from another network namespace.

        Raises:
            OSError: The kernel refuses.
        """
        wireless.return_radio(self.state)
        wireless.release_name(self.state)


@contextmanager
def borrow_card(name: str, *, wants_monitor: bool = True,
                moves: bool = False) -> Iterator[BorrowedCard]:
    """Borrow a card, and restore it at the end of the context.

    Args:
        name: The interface.
        wants_monitor: Whether to make a monitor at the card's radio.
        moves: Whether the card's radio will be placed in another network namespace.

    Raises:
        MeasureError: The card is missing, blocked or in use, permission is missing, or the card
            could not be restored.
    """
    place = JOURNALS / name
    if not (place / "journal.json").exists():  # else the card may be in another namespace
        wireless.read_card(name)  # a missing card is the first thing to say
    if os.geteuid():
        raise MeasureError("testbed", f"{name}: changing a card needs root; give the command with "
                           "sudo")
    lock = _lock_folder(place, name)
    guardian: subprocess.Popen[bytes] | None = None
    try:
        was_restored = restore_from_journal(place)
        card = BorrowedCard(check_card(name, moves=moves), place / "run", lock,
                            was_restored=was_restored)
        guardian = _start_guardian(place)
        _take_card(card, place, wants_monitor=wants_monitor, moves=moves)
        yield card
    finally:
        _give_back(place, name, lock, guardian)


def check_card(name: str, *, moves: bool = False) -> CardState:
    """Return the state of a card that is free.

    Args:
        name: The interface.
        moves: Whether the card's radio will be placed in another network namespace.

    Raises:
        MeasureError: The card is missing, blocked or in use.
    """
    state = wireless.read_card(name)
    others = sorted({each.name for each in wireless.list_interfaces(state.phy).values()}
                    - {name}) if moves else []
    if others:
        raise MeasureError("testbed", f"{name}: its radio has a further interface, {others[0]}, "
                           f"which would move, too; give 'iw dev {others[0]} del', or another card")
    if kind := wireless.find_block(name):
        how = "give 'rfkill unblock wifi'" if kind == "soft" else "use the machine's switch"
        raise MeasureError("testbed", f"{name}: is blocked by rfkill ({kind}); {how}")
    if not state.has_manager and (user := users.describe_use(state)):
        raise _make_use_error(name, user)
    return state


def _make_use_error(name: str, user: str) -> MeasureError:
    return MeasureError("testbed", f"{name}: is in use by {user}; end that, or give another card")


def _start_guardian(place: Path) -> subprocess.Popen[bytes]:
    # A process of its own session: Ctrl-C does not reach it.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "measure.cards.borrowing", str(place)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, cwd="/", env={"PYTHONPATH": str(_CODE), "PATH": os.defpath})


def _take_card(card: BorrowedCard, place: Path, *, wants_monitor: bool, moves: bool) -> None:
    """Save the card's state in the journal, and set the card up as a station.

    NetworkManager stops managing the card. With `wants_monitor`, the radio gets a monitor interface
    as well.
    """
    state = card.state
    monitor = f"qop{state.index}mon"
    card.folder.mkdir(mode=0o700, exist_ok=True)
    _write_journal(place, _Journal(state, monitor, moves))
    if state.has_manager:
        wireless.set_managed(state.name, is_managed=False)
        _wait_released(state.name)
        # A manager may have given the card another address, and takes that back.
        card.state = state = replace(wireless.read_card(state.name), has_manager=True)
        _write_journal(place, _Journal(state, monitor, moves))
    try:
        if state.type != wireless.STATION:
            wireless.set_link(state.index, is_up=False)
            wireless.set_type(state.index, wireless.STATION)
        wireless.set_link(state.index, is_up=True)
    except OSError as error:
        raise MeasureError("testbed", f"{state.name}: cannot be set up as a station "
                           f"({error.strerror}); give another card") from None
    if wants_monitor:
        card.monitor_missing = _add_monitor(state.phy, monitor)
        card.monitor = "" if card.monitor_missing else monitor


def _wait_released(name: str) -> None:
    """Wait until the programs of a manager have left the card."""
    until = time.monotonic() + _RELEASE_S
    while user := users.describe_use(wireless.read_card(name)):
        if time.monotonic() > until:
            raise _make_use_error(name, user)
        time.sleep(_POLL_S)


def _add_monitor(phy: int, name: str) -> str:
    """Create a monitor at a radio, and return why that failed, "" if it did not."""
    if not wireless.supports_type(phy, wireless.MONITOR):
        return "its driver has no monitor mode"
    try:
        wireless.add_monitor(phy, name)
    except OSError as error:
        return f"its driver refuses a monitor beside a station ({error.strerror})"
    return ""


def _give_back(place: Path, name: str, lock: int, guardian: subprocess.Popen[bytes] | None) -> None:
    """Let the guardian restore the card, or do so here if the guardian is gone."""
    if guardian is not None:
        os.close(lock)  # the guardian waits for it
        if guardian.stdin:
            guardian.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            guardian.wait(_GUARDIAN_S)
        lock = _lock_folder(place, name)
    try:
        restore_from_journal(place)
    finally:
        os.close(lock)


def _lock_folder(folder: Path, name: str) -> int:
    """Lock the folder of a card's journal, and return the lock's descriptor.

    Raises:
        MeasureError: Another process has the card.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _RELEASE_S  # a guardian may be at work
    while not _try_lock(lock):
        if time.monotonic() > until:
            os.close(lock)
            raise MeasureError("testbed", f"{name}: is in use by another measurement of qop; wait "
                               "until that has ended")
        time.sleep(_POLL_S)
    return lock


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- The journal, and the guardian that reads it ---


@dataclass(frozen=True)
class _Journal:
    """A journal of a card: its earlier state, and whether its radio may have moved."""

    state: CardState
    monitor: str
    moves: bool


def _write_journal(folder: Path, entry: _Journal) -> None:
    temporary = folder / ".journal"
    temporary.write_text(json.dumps(asdict(entry)))
    temporary.replace(folder / "journal.json")


def _read_journal(journal: Path) -> _Journal | None:
    """Return the content of a journal, None if it is damaged."""
    try:
        entry = json.loads(journal.read_text())
        return _Journal(CardState(**entry["state"]), entry["monitor"],
                        bool(entry.get("moves")))
    except (ValueError, KeyError, TypeError):
        return None


def restore_from_journal(folder: Path) -> bool:
    """Restore a card by its journal, and return whether there was one.

    The caller has the lock.

    Raises:
        MeasureError: The card could not be restored.
    """
    shutil.rmtree(folder / "run", ignore_errors=True)  # it may have a passphrase
    journal = folder / "journal.json"
    if not journal.exists():
        return False
    entry = _read_journal(journal)
    if entry is None:
        journal.unlink()
        return False
    if entry.moves:
        _release_names(folder)
    wireless.restore_card(entry.state, entry.monitor, has_moved=entry.moves)
    journal.unlink()
    return True


def _release_names(folder: Path) -> None:
    """Make other borrowed cards that are back release names that are not theirs."""
    for journal in folder.parent.glob("*/journal.json"):
        with contextlib.suppress(OSError):  # its guardian may be at work
            entry = _read_journal(journal) if journal.parent != folder else None
            if entry is not None and entry.moves:
                wireless.release_name(entry.state)


def restore_abandoned(name: str) -> bool:
    """Restore a card whose borrower and guardian were killed, and return whether it had to be.

    Raises:
        MeasureError: The card is in use by another process of qop, or could not be restored.
    """
    place = JOURNALS / name
    if not (place / "journal.json").exists():
        return False
    lock = _lock_folder(place, name)
    try:
        return restore_from_journal(place)
    finally:
        os.close(lock)


def _guard_card(folder: Path) -> None:
    """Wait until standard input is closed, end the card's programs, and restore the card."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    begun = time.monotonic()
    while not _try_lock(lock):
        is_late = time.monotonic() - begun > _GRACE_S
        for pid in users.find_processes(f"{folder}/run/"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if is_late else signal.SIGTERM)
        time.sleep(_POLL_S)
    restore_from_journal(folder)


if __name__ == "__main__":
    _guard_card(Path(sys.argv[1]))
