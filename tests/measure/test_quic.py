"""Tests of QUIC packets and of the checks of a QUIC tunnel, on captures of moves in R3."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import made_up_captures
from conftest import PROJECT
from measure.capture import pcap
from measure.checks import quic as checks
from measure.checks.observation import Check, Observation, build_observation
from measure.packets import quic
from policies.layers import QUIC, QuicLayer
from topologies.loader import load_scenario

RECORDED = Path(__file__).parents[1] / "recorded" / "quic"
SCENARIO = load_scenario("R3")
HOME, AWAY, AGENT = "10.1.0.12", "10.2.0.140", "10.1.0.1"
#: Time between the last packet of the home address and the first one of the new address.
MOVED_S = {name: float((RECORDED / f"{name}-moved.txt").read_text())
           for name in ("migrated", "reconnected")}
PATH, GOES_ON = "QUIC: new path is validated", "QUIC: connection goes on"
REOPENED = "QUIC: new connection after the move"
MIGRATES = QuicLayer()
Selection = Callable[[quic.QuicDatagram], bool]


def read_keys(name: str) -> list[str]:
    """Return the TLS secrets of a recording."""
    return (RECORDED / f"{name}-keys.txt").read_text().splitlines()


def observe(folder: Path, name: str, keys: Sequence[str] | None = None,
            without: Selection = lambda _: False) -> Observation:
    """Return a recording as a repetition's results, without some of its datagrams."""
    source = RECORDED / f"{name}.pcap"
    kept = [(frame.at_s, frame.data) for frame, datagram in zip(
        pcap.read_frames(source), quic.read_datagrams(source, read_keys(name)), strict=True)
        if not without(datagram)]
    made_up_captures.written(folder / "auth-mn.pcap", kept, made_up_captures.ETHERNET)
    for point, is_there in (("wire", lambda at: at < MOVED_S[name]),
                            ("foreign", lambda at: at >= MOVED_S[name])):
        made_up_captures.written(folder / f"auth-{point}.pcap", [
            frame for frame in kept if is_there(frame[0])], made_up_captures.ETHERNET)
    raw = {"stamps": {"foreign_start": MOVED_S[name]}, "kernel": {},
           "quic_keys": read_keys(name) if keys is None else keys}
    return replace(build_observation(SCENARIO, raw, {}).with_visit(AWAY, QUIC), folder=folder)


def judge(observed: Observation, layer: QuicLayer = MIGRATES) -> dict[str, Check]:
    """Return the checks of a QUIC tunnel by name."""
    return {check.check: check for check in checks.check_quic(layer, observed)}


def find_failing(found: dict[str, Check]) -> set[str]:
    """Return the names of checks that do not hold."""
    return {name for name, check in found.items() if not check.ok}


def test_datagrams_decrypt_with_the_secrets_of_their_connections_only() -> None:
    """All of them open, to packets of the mobile node; without secrets, one-RTT packets do not."""
    opened = quic.read_datagrams(RECORDED / "migrated.pcap", read_keys("migrated"))
    assert all(each.is_open and each.is_whole for each in opened)
    inner = [pair for each in opened for pair in each.inner]
    assert inner
    assert all(HOME in pair for pair in inner)
    closed = quic.read_datagrams(RECORDED / "migrated.pcap", ())
    assert not any(each.is_open for each in closed if not each.long_types)
    other = quic.read_datagrams(RECORDED / "migrated.pcap", read_keys("reconnected"))
    assert not any(each.challenges for each in other)


def test_a_connection_that_migrates_is_proven(tmp_path: Path) -> None:
    """PATH_CHALLENGE and PATH_RESPONSE agree, and the connection before goes on."""
    found = judge(observe(tmp_path, "migrated"))
    assert not find_failing(found)
    assert {PATH, GOES_ON, "QUIC: handshake", "QUIC: packets open"} <= found.keys()


def test_a_connection_opened_anew_is_no_migration(tmp_path: Path) -> None:
    """The client of the control opens another connection at the new address."""
    assert find_failing(judge(observe(tmp_path, "reconnected"))) == {PATH, GOES_ON}


def test_a_policy_that_reconnects_wants_a_new_connection(tmp_path: Path) -> None:
    layer = QuicLayer(on_move="reconnect")
    assert not find_failing(judge(observe(tmp_path, "reconnected"), layer))
    assert find_failing(judge(observe(tmp_path, "migrated"), layer)) == {REOPENED}


@pytest.mark.parametrize(("without", "fails"), [
    (lambda each: bool(each.responses), {PATH}),
    (lambda each: bool(each.challenges), {PATH}),
    (lambda each: bool(each.issued), {GOES_ON}),
    (lambda each: quic.CERTIFICATE in each.handshakes, {"QUIC: handshake"})])
def test_each_check_fails_without_its_evidence(without: Selection, fails: set[str],
                                               tmp_path: Path) -> None:
    """No response, no challenge, no issued connection IDs, no certificate."""
    assert fails <= find_failing(judge(observe(tmp_path, "migrated", without=without)))


def test_a_response_to_another_challenge_proves_no_path(tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    observed = observe(tmp_path, "migrated")
    read = quic.read_datagrams
    monkeypatch.setattr(quic, "read_datagrams", lambda *given: [
        replace(each, responses=tuple("00" * 8 for _ in each.responses)) for each in read(*given)])
    assert find_failing(judge(observed)) == {PATH}


def test_packets_without_the_runs_secrets_prove_nothing(tmp_path: Path) -> None:
    assert {"QUIC: handshake", "QUIC: packets open", PATH} <= find_failing(
        judge(observe(tmp_path, "migrated", keys=())))


def test_a_packet_outside_of_the_tunnel_is_found(tmp_path: Path) -> None:
    """An ICMP packet of the home address, behind the access point."""
    observed = observe(tmp_path, "migrated")
    made_up_captures.add_stray_icmp(tmp_path / "auth-wire.pcap")
    assert find_failing(judge(observed)) == {"QUIC: tunnelled"}


def test_locked_packages_agree_with_those_of_the_testbed() -> None:
    """The worker of a guest with QUIC has one version of each package, from no stated index."""
    locks = [(PROJECT / file).read_text() for file in (
        "studies/qop2007/quic.lock", "requirements/testbed.lock")]
    own, testbed = (dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.M)) for lock in locks)
    assert "aioquic" in own
    assert {name: own[name] for name in own.keys() & testbed.keys()} == {
        name: testbed[name] for name in own.keys() & testbed.keys()}
    assert "://" not in locks[0]
