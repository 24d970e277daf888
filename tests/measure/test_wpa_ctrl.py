"""Tests of measure.services.hostap over real datagram sockets, with a made daemon."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure.agent.errors import MeasureError
from measure.services import hostap
from measure.services.hostap import ControlSocket, Event, Hostapd, parse_event, private_folder


class Peer:
    """A daemon's control socket: answers commands, and sends events to whoever attached."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attached: list[str] = []
        self.commands: list[str] = []
        self.answer: Callable[[str], bytes | None] = lambda _: b"OK\n"
        self.before_attached: list[bytes] = []
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind(str(path))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            datagram, sender = self._sock.recvfrom(65536)
            command = datagram.decode()
            if command == "END OF TEST":
                return
            self.commands.append(command)
            if command == "ATTACH":
                for event in self.before_attached:
                    self._sock.sendto(event, sender)
                self.attached.append(sender)
            reply = self.answer(command)
            if reply is not None:
                self._sock.sendto(reply, sender)

    def event(self, text: str) -> None:
        """Send an event to those attached."""
        for address in self.attached:
            self._sock.sendto(text.encode(), address)

    def fill(self, text: str) -> None:
        """Send an event to those attached until there is no room for one more."""
        for address in self.attached:
            with contextlib.suppress(BlockingIOError):
                while True:
                    self._sock.sendto(text.encode(), socket.MSG_DONTWAIT, address)

    def close(self) -> None:
        """End the thread and the socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"END OF TEST", str(self.path))
        self._thread.join(5)
        assert not self._thread.is_alive()
        self._sock.close()


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """A daemon that says OK to everything."""
    made = Peer(tmp_path / "wlan0")
    yield made
    made.close()


@pytest.fixture
def control(peer: Peer) -> Iterator[ControlSocket]:
    """A connection to it."""
    with ControlSocket(peer.path, "hostapd on ap") as made:
        yield made


def soon(seconds: float = 5.0) -> float:
    """A deadline that is not to be reached."""
    return time.monotonic() + seconds


def local_sockets() -> set[str]:
    """Socket files of this process's connections."""
    return {entry.name for entry in Path(private_folder().name).iterdir()}


# Connecting ----------------------------------------------------------------------------------


def test_connecting_attaches_one_of_two_sockets(control: ControlSocket, peer: Peer) -> None:
    """Events go to a socket of their own, so that no reply is taken for one."""
    assert peer.commands == ["ATTACH"]
    assert len(peer.attached) == 1
    peer.event("<3>AP-ENABLED ")
    assert control.request("PING") == "OK\n"
    assert control.wait_event({"AP-ENABLED"}, soon()) is not None


def test_closing_removes_both_socket_files(peer: Peer) -> None:
    """Nothing is left; and they were where only this user could put anything."""
    assert Path(private_folder().name).stat().st_mode & 0o777 == 0o700
    before = local_sockets()
    with ControlSocket(peer.path, "x"):
        assert len(local_sockets() - before) == 2
    assert local_sockets() == before


def test_no_socket_names_daemon_and_path(tmp_path: Path) -> None:
    """A daemon that is not there is named, with the socket that was tried; nothing is left."""
    before = local_sockets()
    with pytest.raises(MeasureError, match=r"hostapd on ap: control socket .*none cannot be "
                       r"reached") as caught:
        ControlSocket(tmp_path / "none", "hostapd on ap")
    assert caught.value.stage == "testbed"
    assert local_sockets() == before


def test_events_before_the_reply_to_attach_are_no_reply(peer: Peer) -> None:
    """An event that overtakes the reply to ATTACH is not mistaken for a refusal."""
    peer.before_attached = [b"<3>CTRL-EVENT-SCAN-STARTED "]
    with ControlSocket(peer.path, "x") as control:
        assert control.request("PING") == "OK\n"


def test_refused_attach_leaves_nothing(peer: Peer) -> None:
    """A daemon that refuses events is an error, and the sockets are gone."""
    before = local_sockets()
    peer.answer = lambda _: b"FAIL\n"
    try:
        with pytest.raises(MeasureError, match="x: ATTACH was refused: FAIL"):
            ControlSocket(peer.path, "x")
        assert local_sockets() == before
    finally:
        for name in local_sockets() - before:
            Path("/tmp", name).unlink()


# Commands ------------------------------------------------------------------------------------


def test_command_is_sent_as_it_stands(control: ControlSocket, peer: Peer) -> None:
    """Tabs and further words arrive unchanged, as INTERFACE_ADD needs."""
    control.send_command("INTERFACE_ADD wlan0\t/conf\tnl80211\t/run")
    assert peer.commands[-1] == "INTERFACE_ADD wlan0\t/conf\tnl80211\t/run"


@pytest.mark.parametrize("reply", [b"FAIL\n", b"UNKNOWN COMMAND\n", b"FAIL-BUSY\n", b"OK", b""])
def test_refused_command_gives_the_reply(reply: bytes, control: ControlSocket, peer: Peer) -> None:
    """Anything but OK is an error with daemon, command and its words, in one line."""
    peer.answer = lambda _: reply
    with pytest.raises(MeasureError, match="hostapd on ap: ENABLE_NETWORK was refused") as caught:
        control.send_command("ENABLE_NETWORK 0")
    assert str(caught.value).endswith(reply.decode().strip())
    assert len(str(caught.value).splitlines()) == 1


def test_reply_to_a_request_is_returned_whole(control: ControlSocket, peer: Peer) -> None:
    """Replies of many lines and odd bytes come back as text."""
    peer.answer = lambda _: b"bssid=02:00\nssid=\xff\n" * 100
    assert control.request("STATUS") == "bssid=02:00\nssid=�\n" * 100


@pytest.mark.parametrize("how", ["request", "send_command"])
def test_no_reply_is_given_up(
    how: str, peer: Peer, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A daemon that keeps silent ends in an error that names it and the command."""
    monkeypatch.setattr(hostap, "_REPLY_S", 0.1)
    with ControlSocket(peer.path, "hostapd on ap") as control:
        peer.answer = lambda _: None
        with pytest.raises(MeasureError, match=r"hostapd on ap: no reply to "
                           r"DEAUTHENTICATE \(timed out\)"):
            getattr(control, how)("DEAUTHENTICATE 02:00:00:00:a2:00")


def test_daemon_that_went_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command to a daemon that died is an error at once, not after the time limit."""
    monkeypatch.setattr(hostap, "_REPLY_S", 100_000)
    peer = Peer(tmp_path / "wlan0")
    with ControlSocket(peer.path, "hostapd on ap") as control:
        peer.close()
        with pytest.raises(MeasureError, match=r"no reply to PING .*refused"):
            control.request("PING")


# Events --------------------------------------------------------------------------------------


def test_wait_returns_the_event_and_keeps_what_passed(control: ControlSocket, peer: Peer) -> None:
    """The event asked for comes back; the others on the way are history, with their times."""
    peer.event("<3>CTRL-EVENT-SCAN-STARTED ")
    peer.event("<3>CTRL-EVENT-SCAN-RESULTS ")
    peer.event("<3>CTRL-EVENT-CONNECTED - Connection to 02:00 completed")
    began = time.time()
    event = control.wait_event({"CTRL-EVENT-CONNECTED"}, soon())
    assert event is not None
    assert (event.name, event.text) == ("CTRL-EVENT-CONNECTED", "- Connection to 02:00 completed")
    assert began <= event.at_s <= time.time()
    assert [past.name for past in control.history] == [
        "CTRL-EVENT-SCAN-STARTED", "CTRL-EVENT-SCAN-RESULTS", "CTRL-EVENT-CONNECTED"]


def test_wait_stops_at_the_first_of_several(control: ControlSocket, peer: Peer) -> None:
    """What comes after the event asked for is left for the next wait."""
    peer.event("<3>CTRL-EVENT-EAP-FAILURE ")
    peer.event("<3>CTRL-EVENT-DISCONNECTED reason=23")
    first = control.wait_event({"CTRL-EVENT-CONNECTED", "CTRL-EVENT-EAP-FAILURE"}, soon())
    second = control.wait_event({"CTRL-EVENT-DISCONNECTED"}, soon())
    assert first is not None
    assert first.name == "CTRL-EVENT-EAP-FAILURE"
    assert second is not None
    assert second.text == "reason=23"


def test_wait_wakes_at_the_event_not_at_the_deadline(control: ControlSocket, peer: Peer) -> None:
    """An event a moment later ends the wait then: nothing sleeps or polls."""
    timer = threading.Timer(0.1, peer.event, ["<3>AP-STA-CONNECTED 02:00"])
    timer.start()
    assert control.wait_event({"AP-STA-CONNECTED"}, soon(100_000)) is not None
    timer.join()


def test_wait_uses_no_sleep(
    control: ControlSocket, peer: Peer, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The wait is one of the kernel's: `time.sleep` is not called."""
    def refuse(_: float) -> None:
        raise AssertionError("slept")
    monkeypatch.setattr(time, "sleep", refuse)
    peer.event("<3>AP-ENABLED ")
    assert control.wait_event({"AP-ENABLED"}, soon()) is not None
    assert control.wait_event({"AP-DISABLED"}, time.monotonic() + 0.05) is None


def test_deadline_passes(control: ControlSocket, peer: Peer) -> None:
    """Without the event: None, at the deadline; other events do not put it off."""
    stop = threading.Event()

    def chatter() -> None:
        while not stop.wait(0.02):
            peer.event("<3>CTRL-EVENT-BSS-ADDED 1 02:00")
    talker = threading.Thread(target=chatter)
    talker.start()
    try:
        began = time.monotonic()
        assert control.wait_event({"CTRL-EVENT-CONNECTED"}, began + 0.3) is None
        assert time.monotonic() - began >= 0.29
    finally:
        stop.set()
        talker.join()
    assert len(control.history) >= 3


def test_datagrams_that_are_no_events_are_passed_over(control: ControlSocket, peer: Peer) -> None:
    """A stray datagram neither ends the wait nor enters the history."""
    peer.event("OK\n")
    peer.event("<3>AP-ENABLED ")
    assert control.wait_event({"AP-ENABLED"}, soon()) is not None
    assert [event.name for event in control.history] == ["AP-ENABLED"]


def test_forget_drops_what_waits_and_what_was(control: ControlSocket, peer: Peer) -> None:
    """After forgetting, events of an earlier repetition can end no wait."""
    peer.event("<3>CTRL-EVENT-CONNECTED old")
    peer.event("<3>CTRL-EVENT-CONNECTED older")
    assert control.wait_event({"CTRL-EVENT-CONNECTED"}, soon()) is not None
    control.drop_events()
    assert control.history == []
    assert control.wait_event({"CTRL-EVENT-CONNECTED"}, time.monotonic() + 0.05) is None
    peer.event("<3>CTRL-EVENT-CONNECTED new")
    event = control.wait_event({"CTRL-EVENT-CONNECTED"}, soon())
    assert event is not None
    assert event.text == "new"


# Parsing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("datagram", "name", "text"), [
    (b"<3>CTRL-EVENT-CONNECTED - Connection to 02:00:00:00:a0:00 completed [id=0 id_str=]",
     "CTRL-EVENT-CONNECTED", "- Connection to 02:00:00:00:a0:00 completed [id=0 id_str=]"),
    (b"<2>CTRL-EVENT-SCAN-STARTED ", "CTRL-EVENT-SCAN-STARTED", ""),
    (b"<3>SME: Trying to authenticate with 02:00 (SSID='qop' freq=2412 MHz)",
     "SME:", "Trying to authenticate with 02:00 (SSID='qop' freq=2412 MHz)"),
    (b"<10>AP-ENABLED\n", "AP-ENABLED", ""),
    (b"<3>X \xff\ny", "X", "�\ny"),
])
def test_events_of_the_real_daemons(datagram: bytes, name: str, text: str) -> None:
    """Level, name and text as wpa_supplicant and hostapd send them."""
    assert parse_event(datagram, 1.5) == Event(1.5, name, text)


@pytest.mark.parametrize("datagram", [b"", b"OK\n", b"<x>AP-ENABLED", b"<3>", b"<3> x", b"3>AP"])
def test_no_events(datagram: bytes) -> None:
    """Without a level and a name it is not an event."""
    assert parse_event(datagram, 0) is None


@given(st.binary(max_size=100))
def test_any_datagram_is_an_event_or_none(datagram: bytes) -> None:
    """No datagram breaks the parser, and an event has a name without blanks."""
    event = parse_event(datagram, 0)
    assert event is None or (event.name and " " not in event.name)


@pytest.mark.parametrize(("status", "is_open"), [
    ({"key_mgmt": "NONE"}, True),
    # The supplicant's 802.1X machine takes no part in these, and says so for ever.
    ({"key_mgmt": "WPA2-PSK", "suppPortStatus": "Unauthorized"}, True),
    ({"key_mgmt": "SAE", "suppPortStatus": "Unauthorized"}, True),
    ({"key_mgmt": "IEEE 802.1X (no WPA)", "suppPortStatus": "Unauthorized"}, False),
    ({"key_mgmt": "IEEE 802.1X (no WPA)", "suppPortStatus": "Authorized"}, True),
    ({"key_mgmt": "WPA2/IEEE 802.1X/EAP", "suppPortStatus": "Unauthorized"}, False),
    ({}, False)])
def test_port_is_open(status: dict[str, str], is_open: bool) -> None:
    """Only where 802.1X decides does its port have to be waited for."""
    assert hostap.is_port_open(status) is is_open


def test_status_is_the_daemons_own_keys_and_values(tmp_path: Path) -> None:
    """STATUS as a mapping; values may hold an equals sign."""
    peer = Peer(tmp_path / "ctrl")
    peer.answer = lambda command: b"OK\n" if command == "ATTACH" else \
        b"key_mgmt=NONE\nssid=a=b\nnot a pair\n"
    try:
        with ControlSocket(tmp_path / "ctrl", "wpa_supplicant") as control:
            assert control.read_status() == {"key_mgmt": "NONE", "ssid": "a=b"}
    finally:
        peer.close()


def test_hostapd_is_never_kept_waiting_by_events_that_nobody_reads(peer: Peer) -> None:
    """It says ten things of every station that comes and goes, to whoever attached, or waits.

    More than a socket holds: unread, the last request would not be answered.
    """
    def gone(command: str) -> bytes:
        for number in range(10 if command.startswith("DEAUTHENTICATE") else 0):
            peer.event(f"<3>AP-STA-DISCONNECTED {number}")
        return b"OK\n"

    peer.answer = gone
    site: Any = None
    hostapd = Hostapd(site)
    with ControlSocket(peer.path, "hostapd on ap-a") as control:
        hostapd.controls["ap-a"] = control
        for _ in range(60):
            hostapd.forget_station("02:00:00:00:a2:00")
    assert sum(command.startswith("DEAUTHENTICATE") for command in peer.commands) == 60


def test_hostapd_that_waits_for_its_reader_answers(peer: Peer) -> None:
    """Where events of a hall's stations have left no room for one more, they are read first.

    Who is let in is what is said from then on, of who has gone again, too.
    """
    site: Any = None
    hostapd = Hostapd(site)
    with ControlSocket(peer.path, "hostapd on ap-a") as control:
        hostapd.controls["ap-a"] = control
        peer.fill("<3>AP-STA-CONNECTED 02:00:00:00:a1:00")
        told = threading.Thread(target=peer.event, daemon=True,
                                args=("<3>AP-STA-CONNECTED 02:00:00:00:a2:00",))
        told.start()

        def once_told(_: str) -> bytes:
            told.join()
            return b"OK\n"

        peer.answer = once_told
        hostapd.forget_station("02:00:00:00:a2:00")
        for mac in ("02:00:00:00:a1:00", "02:00:00:00:a3:00"):
            peer.event(f"<3>AP-STA-CONNECTED {mac}")
        peer.event("<3>AP-STA-DISCONNECTED 02:00:00:00:a3:00")
        admitted: set[str] = set()
        hostapd.update_admitted("ap-a", admitted)
        assert admitted == {"02:00:00:00:a1:00"}
        with pytest.raises(BlockingIOError):
            control.events.recv(1)
