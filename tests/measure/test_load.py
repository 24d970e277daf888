"""Tests of measure.load: arrivals, RADIUS, EAP-TLS, and a generator that waits for nobody."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scipy import stats

from conftest import PROJECT
from measure.cpu import clock as cpu_clock
from measure.cpu.clock import MAX_AHEAD_S, InstantTimer
from measure.load import eap_client, generator
from measure.load.calibration_workload import INTERVAL_S
from measure.load.eap_client import EAP_TLS, LENGTH_FLAG, MORE_FLAG, EapTlsError, EapTlsPeer
from measure.load.generator import (
    FIRST_PORT,
    GIVE_UP_S,
    SOCKETS,
    LoadError,
    LoadGenerator,
    LoadTarget,
    even_arrivals,
    poisson_arrivals,
)

_SECRET = b"secret"
_FRAGMENT_BYTES = 500


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys and certificates of a server and of a client, by the role's own script."""
    folder = tmp_path_factory.mktemp("pki")
    script = PROJECT / "ansible" / "roles" / "pki" / "files" / "pki.py"
    for side in ("server", "client"):
        subprocess.run([sys.executable, str(script), "--store", str(folder / "store"), "--output",
                        str(folder / side), "--name", side, "--eap", side, "--key", "p256",
                        "--chain", "3"], check=True, capture_output=True)
    return folder


class TlsServer:
    """The server's side of EAP-TLS in small: requests in fragments, by OpenSSL."""

    def __init__(self, pki: Path) -> None:
        folder = pki / "server" / "pki"
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self.context.load_verify_locations(folder / "ca.pem")
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2
        # A connection that is dropped without an end takes its session with it.
        self._open: list[ssl.SSLObject] = []

    def authenticate(self, peer: EapTlsPeer) -> int:
        """Have a peer authenticate; how many requests it took."""
        inner, outer = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context.wrap_bio(inner, outer, server_side=True)
        self._open.append(tls)
        waiting, requests, is_done = b"", 0, False
        flags = eap_client.START_FLAG
        while True:
            piece, waiting = waiting[:_FRAGMENT_BYTES], waiting[_FRAGMENT_BYTES:]
            requests += 1
            answer = peer.answer_request(request(requests, flags | (MORE_FLAG if waiting else 0),
                                                 piece))
            flags = 0
            inner.write(answer[10:] if answer[5] & LENGTH_FLAG else answer[6:])
            if waiting or answer[5] & MORE_FLAG:
                continue
            if is_done:
                return requests
            try:
                tls.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass
            waiting = outer.read()
            if is_done and not waiting:
                return requests


def request(identifier: int, flags: int, data: bytes) -> bytes:
    """An EAP-TLS request."""
    size = 6 + len(data)
    return bytes((eap_client.EAP_REQUEST, identifier, *size.to_bytes(2, "big"), EAP_TLS,
                  flags)) + data


def test_arrivals_are_poisson_and_repeatable() -> None:
    """Equal arguments give equal arrivals; gaps are exponential, of the rate, and in order."""
    first = list(islice(poisson_arrivals(50, 3, stations=7, offering_share=0.25), 4000))
    assert first == list(islice(poisson_arrivals(50, 3, stations=7, offering_share=0.25), 4000))
    assert first != list(islice(poisson_arrivals(50, 4, stations=7, offering_share=0.25), 4000))
    gaps = [later.due_s - earlier.due_s for earlier, later in pairwise(first)]
    assert stats.kstest(gaps, "expon", args=(0, 1 / 50)).pvalue > 0.01
    assert {arrival.station for arrival in first} == set(range(7))
    assert 0.2 < sum(arrival.offers_session for arrival in first) / 4000 < 0.3


def test_a_request_is_signed_and_whole() -> None:
    """The Message-Authenticator is that of RFC 3579, and a long EAP packet comes back as it was."""
    eap = os.urandom(700)
    made = eap_client.build_access_request(9, bytes(16), eap, user="load", state=b"state",
                                           calling="02",
                                           nas="10.0.0.1", secret=_SECRET)
    said = made[-16:]
    assert said == hmac.new(_SECRET, made[:-16] + bytes(16), "md5").digest()
    packet = eap_client.parse_radius_packet(made)
    assert packet is not None
    assert (packet.code, packet.identifier, packet.eap, packet.state) == (1, 9, eap, b"state")


@pytest.mark.parametrize("data", [b"", b"\x01\x02\x00\x30" + bytes(16),
                                  b"\x01\x02\x00\x16" + bytes(16) + b"\x4f\x01",
                                  b"\x01\x02\x00\x17" + bytes(16) + b"\x4f\x09x"])
def test_what_is_no_packet_is_refused(data: bytes) -> None:
    """Too short, longer than it came, an attribute without room or past the end."""
    assert eap_client.parse_radius_packet(data) is None


def test_a_peer_authenticates_and_resumes(pki: Path) -> None:
    """Both sides' chains of three pass in fragments; offered its session, the server takes it."""
    server = TlsServer(pki)
    made = eap_client.create_tls_context(pki / "client" / "pki", "1.2")
    first = EapTlsPeer(lambda: made, "client")
    assert first.identity()[5:] == b"client"
    long = server.authenticate(first)
    second = EapTlsPeer(lambda: made, "client", first.session)
    short = server.authenticate(second)
    assert (first.is_resumed, second.is_resumed) == (False, True)
    assert long > short


def test_a_peer_refuses_a_server_of_another_authority(pki: Path, tmp_path: Path) -> None:
    """The chain is checked to the root that the peer knows."""
    script = PROJECT / "ansible" / "roles" / "pki" / "files" / "pki.py"
    subprocess.run([sys.executable, str(script), "--store", str(tmp_path / "store"), "--output",
                    str(tmp_path), "--name", "client", "--eap", "client"], check=True,
                   capture_output=True)
    with pytest.raises(EapTlsError, match="CERTIFICATE_VERIFY_FAILED"):
        TlsServer(pki).authenticate(EapTlsPeer(
            lambda: eap_client.create_tls_context(tmp_path / "pki", "1.2"), "client"))


@pytest.fixture
def slow_server() -> Iterator[tuple[int, threading.Event]]:
    """A server that says nothing before the event, and then accepts everybody."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    listening.settimeout(0.05)
    allowed, ended = threading.Event(), threading.Event()

    def serve() -> None:
        allowed.wait()
        while not ended.is_set():
            try:
                data, whose = listening.recvfrom(4096)
            except TimeoutError:
                continue
            head = bytes((eap_client.ACCESS_ACCEPT, data[1], 0, 20))
            digest = hashlib.md5(head + data[4:20] + _SECRET, usedforsecurity=False).digest()
            listening.sendto(head + digest, whose)

    thread = threading.Thread(target=serve)
    thread.start()
    yield listening.getsockname()[1], allowed
    allowed.set()
    ended.set()
    thread.join()
    listening.close()


def test_equal_gaps_keep_rate_and_stations() -> None:
    """A control changes nothing but the gaps."""
    usual, made = (list(islice(schedule(20, 1, stations=5, offering_share=0.5), 50))
                   for schedule in (poisson_arrivals, even_arrivals))
    assert [arrival.due_s for arrival in made] == pytest.approx(
        [number / 20 for number in range(1, 51)])
    assert [(arrival.station, arrival.offers_session) for arrival in made] == [
        (arrival.station, arrival.offers_session) for arrival in usual]


def test_who_is_begun_late_is_late_from_when_it_was_due(
        pki: Path, slow_server: tuple[int, threading.Event]) -> None:
    """A control has all begin late, and says so; nobody else is: the schedule stays."""
    port, allowed = slow_server
    allowed.set()
    target = LoadTarget("127.0.0.1", "127.0.0.1", _SECRET.decode(), str(pki / "client" / "pki"),
                        "client", port=port)
    late_s, late = 0.2, []
    for control_s in (0.0, late_s):
        reading, writing = os.pipe()
        with LoadGenerator(target) as load:
            threading.Timer(0.5, os.write, (writing, b"stop\n")).start()
            _, ended = load.open_loop(poisson_arrivals(40, 1, stations=5), 1, reading, control_s)
        late.append(min(attempt.begun_s - attempt.due_s for attempt in ended))
        os.close(reading)
        os.close(writing)
    assert 0 <= late[0] < late_s <= late[1]


def test_nobody_is_left_out_while_the_server_stands_still(
        pki: Path, slow_server: tuple[int, threading.Event]) -> None:
    """Arrivals go on, and each counts from when it was due: all of the wait shows.

    Whoever has ended keeps no TLS: a load of tens of thousands would fill a guest's memory.
    """
    port, allowed = slow_server
    target = LoadTarget("127.0.0.1", "127.0.0.1", _SECRET.decode(), str(pki / "client" / "pki"),
                        "client", port=port)
    still_s = 0.5
    spoke_s: list[float] = []
    reading, writing = os.pipe()

    def end() -> None:
        time.sleep(still_s)
        spoke_s.append(time.monotonic())
        allowed.set()
        os.write(writing, b"stop\n")

    thread = threading.Thread(target=end)
    thread.start()
    with LoadGenerator(target) as load:
        began_s, ended = load.open_loop(poisson_arrivals(200, 1, stations=5), 1, reading)
    thread.join()
    due_s = [attempt.due_s - began_s for attempt in ended if attempt.due_s < spoke_s[0]]
    expected = [arrival.due_s for arrival
                in islice(poisson_arrivals(200, 1, stations=5), len(due_s))]
    assert due_s
    assert sorted(due_s) == pytest.approx(expected)
    assert all(not attempt.reason and attempt.peer is None for attempt in ended)
    assert all(attempt.ended_s >= spoke_s[0] for attempt in ended)
    assert {attempt.socket for attempt in ended} == set(range(8))
    assert FIRST_PORT + SOCKETS < 32_768  # whence kernels give ports away by themselves
    for descriptor in (reading, writing):
        os.close(descriptor)


def test_a_server_that_died_is_not_asked_for_ever(pki: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """The first who gets no answer ends a calibration, of however many it was to be."""
    nobody = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    nobody.bind(("127.0.0.1", 0))
    target = LoadTarget("127.0.0.1", "127.0.0.1", _SECRET.decode(), str(pki / "client" / "pki"),
                        "client", port=nobody.getsockname()[1])
    assert GIVE_UP_S == 30
    monkeypatch.setattr(generator, "RETRY_S", 0.05)
    monkeypatch.setattr(generator, "GIVE_UP_S", 0.1)
    with LoadGenerator(target) as made, pytest.raises(LoadError, match="failed: no answer"):
        made.closed_loop(2, 5000)
    nobody.close()


def test_who_wakes_up_late_sets_the_timer_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that says it takes 100 to 300 us to be woken: nine in ten are woken in time.

    Who does not learn goes on as before, and nobody waits longer than half a millisecond.
    """
    rng, now_s = random.Random(1), [0.0]
    late_s = lambda: rng.uniform(0.0001, 0.0003)  # noqa: E731
    armed_s = [0.0]

    def settime(_: int, __: int, instant: Any, ___: object) -> None:
        armed_s[0] = instant._obj.at_s + instant._obj.at_ns / 1e9

    def woken(those: list[int], *_: object) -> tuple[list[int], list[int], list[int]]:
        now_s[0] = max(now_s[0], armed_s[0]) + late_s()
        return [those[-1]], [], []

    def clock() -> float:
        now_s[0] += 0.000001
        return now_s[0]

    for learns, late in ((True, 0.1), (False, 1.0)):
        timer = InstantTimer(0.00008, learns=learns)
        monkeypatch.setattr(timer, "_library", SimpleNamespace(timerfd_settime=settime))
        monkeypatch.setattr(cpu_clock.select, "select", woken)
        monkeypatch.setattr(cpu_clock.time, "monotonic", clock)
        began = []
        for _ in range(2000):
            due_s = now_s[0] + 0.01
            began.append(timer.wait_until([], due_s)[1] - due_s)
        monkeypatch.undo()
        timer.close()
        assert min(began) >= 0
        assert sum(each > 0.000002 for each in began[200:]) / 1800 == pytest.approx(late, abs=0.04)
        assert (timer.ahead_s == 0.00008) is not learns
        assert timer.ahead_s <= MAX_AHEAD_S


def test_a_fixed_piece_of_work_is_timed_at_a_beat(tmp_path: Path) -> None:
    """As often as time allows, in order, until it is asked for; then it ends with who asked."""
    with subprocess.Popen([sys.executable, "-m", "measure.load.calibration_workload"], cwd=PROJECT,
                          text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin and program.stdout
        assert program.stdout.readline() == "ready\n"
        began_s = time.time()
        time.sleep(20 * INTERVAL_S)
        program.stdin.write(f"{tmp_path / 'seen.json'}\n")
        program.stdin.flush()
        assert program.stdout.readline() == "done\n"
        ended_s = time.time()
    seen = json.loads((tmp_path / "seen.json").read_text())
    when_s = [each[0] for each in seen]
    assert 2 <= len(seen) <= (ended_s - began_s) / INTERVAL_S + 1
    assert when_s == sorted(when_s) and began_s < when_s[0] < when_s[-1] < ended_s
    assert all(took_s > 0 for _, took_s in seen)
    assert program.returncode == 0
