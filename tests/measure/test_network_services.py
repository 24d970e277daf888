"""DHCP leases and RADIUS servers at a distance, judged from recorded packets."""

from __future__ import annotations

import hashlib
import hmac
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import made_up_captures
from conftest import PROJECT
from measure.capture import pcap, tshark
from measure.checks import network_services, observation, phases
from measure.checks.observation import Check, Observation
from measure.packets import eap
from topologies import queueing_disciplines
from topologies.loader import load_scenario
from topologies.model import Link, Scenario

RECORDED = Path(__file__).parents[1] / "recorded" / "campus"
DISCOVER, OFFER, REQUEST, ACK = 1, 2, 3, 5
ADDRESS, STATION = "10.1.0.12", "02:00:00:00:1a:00"


def observed(folder: Path, scenario: str = "campus-20ms", how: str = "udp",
             **raw: Any) -> Observation:
    """What was seen of a scenario whose node does not move, in a folder with the recordings."""
    for point in ("wire", "radius"):
        if how:
            shutil.copy(RECORDED / f"{how}-{point}.pcap", folder / f"auth-{point}.pcap")
    shutil.copy(RECORDED / "lease.pcap", folder / "auth-mn.pcap")
    here: Scenario = replace(load_scenario(scenario), roams_to=None)
    values = {"stamps": {"start": 0.0}, "left": {"addressed": False}, "kernel": {}, **raw}
    packets = {"auth-mn": tshark.read_uncorrected([folder / "auth-mn.pcap"])[0]}
    return replace(observation.build_observation(here, values, packets), folder=folder)


def checks(seen: Observation, *, has_dot1x: bool = True) -> dict[str, Check]:
    """The checks by name."""
    return {check.check: check for check in network_services.check_services(has_dot1x, seen)}


def test_a_lease_is_four_messages_and_a_phase(tmp_path: Path) -> None:
    """As dnsmasq and udhcpc exchanged them."""
    messages = network_services.read_dhcp_messages(RECORDED / "lease.pcap")
    assert [message.kind for message in messages] == [DISCOVER, OFFER, REQUEST, ACK]
    assert {message.client for message in messages} == {STATION}
    assert messages[-1].address == ADDRESS
    seen = observed(tmp_path)
    assert checks(seen)["address by DHCP"].ok
    [phase] = [phase for phase in phases.find_phases(
        {**seen.raw, "events": []}, [], seen.packets_of("auth-mn"), STATION)
        if phase.name == "dhcp"]
    assert phase.packets == 4
    assert phase.duration_s == pytest.approx(messages[-1].at_s - messages[0].at_s)
    assert phases.find_retransmissions(seen) == []


@pytest.mark.parametrize("missing", range(4))
def test_a_lease_without_a_message_is_none(missing: int, tmp_path: Path) -> None:
    """Each of the four is needed."""
    seen = observed(tmp_path)
    frames = list(pcap.read_frames(RECORDED / "lease.pcap"))
    pcap.write_frames(tmp_path / "auth-mn.pcap", frames[:missing] + frames[missing + 1:])
    assert not checks(seen)["address by DHCP"].ok


def test_a_lease_of_another_address_or_station_is_none(tmp_path: Path) -> None:
    """The address is the one that the network's file reserves, and the radio the node's own."""
    seen = observed(tmp_path)
    assert not checks(replace(seen, home_address="10.1.0.13"))["address by DHCP"].ok
    assert not checks(replace(seen, mac="02:00:00:00:1b:00"))["address by DHCP"].ok


def test_an_address_that_was_there_before_is_no_lease(tmp_path: Path) -> None:
    """The kernel had one, or the node sent from it before the server had acknowledged."""
    for left in ({"addressed": True}, {}):
        check = checks(observed(tmp_path, left=left))["address by DHCP"]
        assert not check.ok
        assert "an address when it began" in check.detail
    seen = observed(tmp_path)
    first = replace(seen.packets_of("auth-mn")[0], ip_src=ADDRESS)
    early = replace(seen, captures={"auth-mn": [first, *seen.packets_of("auth-mn")]})
    assert "1 packets from 10.1.0.12 before" in checks(early)["address by DHCP"].detail
    assert not checks(early)["address by DHCP"].ok


def test_messages_sent_again_are_told_and_no_fault(tmp_path: Path) -> None:
    """A lossy wire repeats a message: the lease holds, and the repetition is flagged."""
    seen = observed(tmp_path)
    first, *rest = pcap.read_frames(RECORDED / "lease.pcap")
    pcap.write_frames(tmp_path / "auth-mn.pcap",
                      [first, replace(first, at_s=first.at_s + 1e-4), *rest])
    again = replace(seen, captures={
        "auth-mn": tshark.read_uncorrected([tmp_path / "auth-mn.pcap"])[0]})
    assert checks(again)["address by DHCP"].ok
    assert any(text.startswith("DHCP message sent again")
               for text in phases.find_retransmissions(again))


@pytest.mark.parametrize("data", [b"", bytes(240), bytes(236) + bytes((99, 130, 83, 99)),
                                  bytes(236) + bytes((99, 130, 83, 99, 53))])
def test_other_datagrams_are_no_messages(data: bytes) -> None:
    """Nothing, BOOTP without options, options without a type, and a type that is cut off."""
    assert network_services.parse_dhcp_message(0.0, data) is None


@pytest.mark.parametrize("how", ["udp", "tls"])
def test_a_server_is_where_the_scenario_has_it(how: str, tmp_path: Path) -> None:
    """Recorded with 10 ms each way: neither near nor 40 ms away, by UDP and inside TLS."""
    check = checks(observed(tmp_path, how=how))["RADIUS server has its delay"]
    assert check.ok, check.detail
    assert "ap-1: 10.00 to 10.00 ms" in check.detail
    assert "10 ms each way expected" in check.detail
    for scenario in ("campus-0ms", "campus-80ms"):
        assert not checks(observed(tmp_path, scenario, how))["RADIUS server has its delay"].ok


def test_a_server_that_answers_from_elsewhere_is_not_there(tmp_path: Path) -> None:
    """Nothing passes its wire, or nothing comes back."""
    seen = observed(tmp_path)
    (tmp_path / "auth-radius.pcap").unlink()
    assert "no packet to 10.9.0.2" in checks(seen)["RADIUS server has its delay"].detail
    assert not checks(seen)["RADIUS server has its delay"].ok
    seen = observed(tmp_path)
    frames = [frame for frame in pcap.read_frames(tmp_path / "auth-wire.pcap")
              if frame.payload[12:16] == bytes((10, 1, 0, 2))]
    pcap.write_frames(tmp_path / "auth-wire.pcap", frames)
    assert not checks(seen)["RADIUS server has its delay"].ok


def test_answers_that_come_too_early_are_seen(tmp_path: Path) -> None:
    """The way there takes its time, and the way back none."""
    seen = observed(tmp_path)
    frames = [replace(frame, at_s=frame.at_s - 0.010)
              if frame.payload[12:16] == bytes((10, 9, 0, 2)) else frame
              for frame in pcap.read_frames(tmp_path / "auth-wire.pcap")]
    made_up_captures.written(tmp_path / "auth-wire.pcap",
                             sorted((frame.at_s, frame.data) for frame in frames))
    assert not checks(seen)["RADIUS server has its delay"].ok


def test_what_the_network_lacks_is_not_asked(tmp_path: Path) -> None:
    """No lease and no distant server elsewhere; no server without 802.1X."""
    assert checks(observed(tmp_path), has_dot1x=False).keys() == {"address by DHCP"}
    seen = observed(tmp_path)
    plain = replace(seen, uses_dhcp=False, radius_wires=())
    assert checks(plain) == {}


def test_a_move_with_keys_asks_no_server(tmp_path: Path) -> None:
    """With kept keys the second access point has nothing to ask; in full it does."""
    seen = observed(tmp_path)
    away = replace(seen.radius_wires[0], access_point="ap-2", client="10.1.0.3", near="foreign")
    both = replace(seen, radius_wires=(*seen.radius_wires, away), moves=True)
    assert checks(replace(both, roaming="ft"))["RADIUS server has its delay"].ok
    assert not checks(replace(both, roaming="full"))["RADIUS server has its delay"].ok


# --- Message-Authenticator ---

SECRET, ACCESS_POINT, SERVER = b"a shared secret", "10.1.0.2", "10.1.0.1"
ASKED = bytes(range(16))


def radius_frame(*, is_request: bool, number: int, key: bytes = SECRET,
            user: bytes = b"user") -> bytes:
    """An Ethernet frame with a RADIUS message; without a key it has no Message-Authenticator."""
    asked = eap.build_access_request(number, user, ASKED, key)
    if not is_request:  # an Access-Reject with the attribute alone
        bare = bytes((3, number, 0, 38)) + ASKED + bytes((80, 18)) + bytes(16)
        proof = hmac.digest(key, bare, "md5") if key else bytes(16)
        asked = bare[:4] + bytes(16) + bare[20:22] + proof
    ports = (50000, 1812) if is_request else (1812, 50000)
    ends = (ACCESS_POINT, SERVER) if is_request else (SERVER, ACCESS_POINT)
    packet = made_up_captures.datagram(28 + len(asked), *ends)[:20] + struct.pack(
        "!HHHH", *ports, 8 + len(asked), 0) + asked
    return bytes(12) + b"\x08\x00" + packet


def probe_frames(*, bare: bool, signed: bool) -> list[bytes]:
    """The two requests of the probe, and the server's answers to them."""
    user = eap.PROBE_USER
    return [radius_frame(is_request=True, number=1, key=b"", user=user),
            radius_frame(is_request=True, number=2, user=user),
            *([radius_frame(is_request=False, number=1)] if bare else []),
            *([radius_frame(is_request=False, number=2)] if signed else [])]


WHOLE = [radius_frame(is_request=True, number=7), radius_frame(is_request=False, number=7)]


@pytest.mark.parametrize(("exchange", "probes", "holds"), [
    (WHOLE, probe_frames(bare=False, signed=True), True),
    (WHOLE, probe_frames(bare=True, signed=True), False),
    (WHOLE, probe_frames(bare=False, signed=False), False),
    (WHOLE, [], False),
    ([], probe_frames(bare=False, signed=True), False),
    ([WHOLE[0], radius_frame(is_request=False, number=7, key=b"another")],
     probe_frames(bare=False, signed=True), False),
    ([radius_frame(is_request=True, number=7, key=b""), WHOLE[1]],
     probe_frames(bare=False, signed=True), False)],
    ids=["as required", "answers without it", "answers nothing", "not probed", "no exchange",
         "answer of a forger", "request without it"])
def test_server_that_requires_authenticators_is_proven(
        tmp_path: Path, exchange: list[bytes], probes: list[bytes],
        holds: bool) -> None:
    """Every message has a right one, and of two requests the one with it alone is answered."""
    for name, sent in (("auth-wire", exchange), ("port-radius", probes)):
        made_up_captures.written(tmp_path / f"{name}.pcap", enumerate(sent))
    seen = replace(observation.build_observation(
        load_scenario("N2"), {"stamps": {}, "kernel": {}}, {}), folder=tmp_path,
        radius_secret=SECRET)
    assert network_services.check_message_authenticator(seen).ok is holds


def accounting_frame(*, is_request: bool, status: int = 1, key: bytes = SECRET) -> bytes:
    """An Ethernet frame with an accounting request of the station's session, or its answer."""
    station = b"02-00-00-00-1A-00"
    attributes = struct.pack("!BBI", 40, 6, status) + bytes((31, 2 + len(station))) + station
    content = attributes if is_request else b""
    head = bytes((4 if is_request else 5, 9)) + (20 + len(content)).to_bytes(2, "big")
    asked = hashlib.md5(bytes((4, 9)) + (20 + len(attributes)).to_bytes(2, "big") + bytes(16)
                        + attributes + SECRET).digest()
    digest = hashlib.md5(head + (bytes(16) if is_request else asked) + content + key).digest()
    message = head + digest + content
    ends = (ACCESS_POINT, SERVER) if is_request else (SERVER, ACCESS_POINT)
    ports = (50001, 1813) if is_request else (1813, 50001)
    return bytes(12) + b"\x08\x00" + made_up_captures.datagram(28, *ends)[:2] + (
        28 + len(message)).to_bytes(2, "big") + made_up_captures.datagram(28, *ends)[4:20] + \
        struct.pack("!HHHH", *ports, 8 + len(message), 0) + message


@pytest.mark.parametrize(("frames", "holds"), [
    ([accounting_frame(is_request=True), accounting_frame(is_request=False)], True),
    ([accounting_frame(is_request=True)], False), ([], False),
    ([accounting_frame(is_request=True, status=2), accounting_frame(is_request=False)], False),
    ([accounting_frame(is_request=True), accounting_frame(is_request=False, key=b"x")], False)],
    ids=["taken", "no answer", "no report", "a session's end", "answer of a forger"])
def test_session_is_accounted_by_an_answered_report(
        tmp_path: Path, frames: list[bytes], holds: bool) -> None:
    """The report is of the session's start, and both sides have the secret."""
    made_up_captures.written(tmp_path / "auth-wire.pcap", enumerate(frames))
    seen = replace(observation.build_observation(
        load_scenario("campus-0ms"), {"stamps": {}, "kernel": {}}, {}), folder=tmp_path,
        radius_secret=SECRET)
    assert network_services.check_accounting(seen).ok is holds


# --- Failover to a second server ---

def request_frame(server: str, *, is_request: bool = True) -> bytes:
    """A RADIUS request of the access point's to a server, or the server's answer."""
    frame = radius_frame(is_request=is_request, number=3)
    place = (30, 34) if is_request else (26, 30)
    octets = bytes(map(int, server.split(".")))
    return frame[:place[0]] + octets + frame[place[1]:]


FIRST, SECOND = "10.9.1.2", "10.9.2.2"
VAIN, TAKEN = [request_frame(FIRST)] * 4, [request_frame(SECOND),
                                          request_frame(SECOND, is_request=False)]


@pytest.mark.parametrize(("frames", "holds"), [
    ([*VAIN, *TAKEN], True), (TAKEN, False), (VAIN, False), ([*TAKEN, *VAIN], False),
    ([*VAIN, TAKEN[0]], False),
    ([VAIN[0], request_frame(FIRST, is_request=False), *TAKEN], False)],
    ids=["goes over", "first not asked", "stays", "second before first", "second silent, too",
         "first answers"])
def test_failover_needs_a_silent_server_and_one_that_answers(
        tmp_path: Path, frames: list[bytes], holds: bool) -> None:
    """The access point asks the first server in vain, and then the second one."""
    file = made_up_captures.written(tmp_path / "auth-wire.pcap", enumerate(frames))
    scenario = load_scenario(str(PROJECT / "examples/scenarios/radius-failover.yml"))
    seen = replace(observation.build_observation(
        scenario, {"stamps": {}, "kernel": {}}, {}), folder=file.parent)
    assert checks(seen)["second RADIUS server takes over"].ok is holds


# --- A proxy that forwards requests of a realm ---

PROXY, HOME, REALM = "10.9.1.2", "10.9.2.2", "home.example"


def proxied_frame(source: str, target: str, *, is_request: bool,
                  user: bytes = b"user@home.example", key: bytes = SECRET) -> bytes:
    """A RADIUS request between two servers, or the Access-Accept that answers it."""
    frame = radius_frame(is_request=is_request, number=5, user=user, key=key)
    if not is_request:
        bare = bytes((2, 5, 0, 38)) + ASKED + bytes((80, 18)) + bytes(16)
        proof = hmac.digest(key, bare, "md5")
        frame = frame[:42] + bare[:4] + bytes(16) + bare[20:22] + proof
    ends = b"".join(bytes(map(int, address.split("."))) for address in (source, target))
    return frame[:26] + ends + frame[34:]


AT_PROXY = [proxied_frame("10.1.0.2", PROXY, is_request=True),
            proxied_frame(PROXY, HOME, is_request=True),
            proxied_frame(HOME, PROXY, is_request=False),
            proxied_frame(PROXY, "10.1.0.2", is_request=False)]


@pytest.mark.parametrize(("frames", "holds"), [
    (AT_PROXY, True), ([AT_PROXY[0], AT_PROXY[3]], False), (AT_PROXY[:2], False),
    ([AT_PROXY[0], proxied_frame(PROXY, HOME, is_request=True, user=b"user"), *AT_PROXY[2:]],
     False),
    ([*AT_PROXY[:2], proxied_frame(HOME, PROXY, is_request=False, key=b"another"), AT_PROXY[3]],
     False)], ids=["forwarded", "proxy decides", "no answer", "no realm", "answer of a forger"])
def test_server_of_the_realm_decides_where_requests_are_forwarded(
        tmp_path: Path, frames: list[bytes], holds: bool) -> None:
    """Each request goes on to it with its realm, and its acceptance has the secret."""
    scenario = load_scenario(str(PROJECT / "examples/scenarios/radius-proxy.yml"))
    file = made_up_captures.written(tmp_path / "auth-radius.pcap", enumerate(frames))
    seen = replace(observation.build_observation(
        scenario, {"stamps": {}, "kernel": {}}, {}), folder=file.parent, radius_secret=SECRET)
    assert seen.forwards_to == {"ap": HOME}
    assert network_services.check_forwarding(REALM, seen).ok is holds


# Wires with a rate for each direction, and with losses in bursts


SPECIAL = [({"rate_bps": 2e6, "rate_back_bps": 2e7}, "wires have a rate for each direction"),
           ({"loss_percent": 2.0, "loss_burst_packets": 4.0}, "wires lose packets in bursts")]


def shown(link: Link) -> dict[str, list[dict[str, Any]]]:
    """What `tc -j` shows at both ends of a wire, with fewer digits than the wire has."""
    begins, ends = (round(chance, 6) for chance in queueing_disciplines.burst_chances(link))
    model = {"loss-gemodel": {"p": begins, "r": ends, "1-h": 1, "1-k": 0}} \
        if link.loss_burst_packets > 1 else {}
    return {end: [{"limit": 100, "rate": {"rate": round((link.rate_from(end) or 0) / 8)}, **model}]
            for end in link.ends}


def held(link: Link, queues: dict[str, list[dict[str, Any]]]) -> dict[str, bool]:
    """Which checks of wires there are, and whether they hold."""
    here = Observation({"kernel": {"queues": queues}, "stamps": {}}, {}, STATION, frozenset(),
                       frozenset(), special_wires=(link,))
    return {check.check: check.ok for check in network_services.check_services(
        has_dot1x=False, observed=here)}


@pytest.mark.parametrize(("figures", "name"), SPECIAL)
def test_kernels_have_the_wire_at_both_ends(figures: dict[str, float], name: str) -> None:
    """One end with an ordinary queue, or without one, is found out."""
    link = Link(["a/b", "c/d"], **figures)
    assert held(link, shown(link)) == {name: True}
    equal = Link(["a/b", "c/d"], rate_bps=figures.get("rate_bps"), loss_percent=1.0)
    assert held(link, {**shown(link), "c/d": shown(equal)["c/d"]}) == {name: False}
    assert held(link, {"a/b": shown(link)["a/b"]}) == {name: False}
    assert held(link, {}) == {name: False}


def test_bursts_of_another_length_are_found_out() -> None:
    link = Link(["a/b", "c/d"], loss_percent=2.0, loss_burst_packets=4.0)
    assert held(link, shown(replace(link, loss_burst_packets=5.0))) == {
        "wires lose packets in bursts": False}


def test_ordinary_wires_have_no_check() -> None:
    network = load_scenario("N2").network
    assert network.special_links == ()
    assert replace(network, links=[replace(
        network.links[0], rate_bps=2e6, rate_back_bps=2e7)]).special_links
