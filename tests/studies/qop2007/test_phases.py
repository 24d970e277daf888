"""Tests of phases and of what Table 4 sums: recordings timed, edge cases on made packets."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure.capture import tshark
from measure.capture.tshark import Packet
from measure.checks import phases
from measure.checks.phases import Phase
from recorded import AWAY, ELSEWHERE, IDS, MAC, POLICIES, observed, path, policy_of, raw
from studies.qop2007 import phases as summing

BLANK = tshark.parse_packets("0\t60\n")[0]
EAP_REQUEST, EAP_RESPONSE = 1, 2

LINK = ["scan", "authentication", "association"]
MOBILE_IP = ["agent_discovery", "registration"]
NAMES = {
    "P1": [*LINK, *MOBILE_IP, "first_packet"],
    "P2": [*LINK, *MOBILE_IP, "first_packet"],
    "P3": [*LINK, *MOBILE_IP, "ike", "first_packet"],
    "P4": [*LINK, *MOBILE_IP, "ike", "first_packet"],
    "P5": [*LINK, "dot1x", *MOBILE_IP, "first_packet"],
    "P6": [*LINK, "dot1x", *MOBILE_IP, "first_packet"],
    "P7": [*LINK, "dot1x", *MOBILE_IP, "first_packet"],
    "P8": [*LINK, "dot1x", *MOBILE_IP, "first_packet"],
    "P9": [*LINK, "dot1x", *MOBILE_IP, "ike", "first_packet"],
    "P12": [*LINK, "dot1x", *MOBILE_IP, "ike", "first_packet"],
}
# What of each negotiation tshark shows, in its own display filter language.
FILTERS = {
    "authentication": ("auth-air", f"wlan.fc.type_subtype == 0x0b && wlan.addr == {MAC}"),
    "association": ("auth-air", f"wlan.fc.type_subtype in {{0,1,2,3}} && wlan.addr == {MAC}"),
    "dot1x": ("auth-mn", "eapol"),
    "agent_discovery": ("auth-mn", "icmp.type in {9, 10}"),
    "registration": ("auth-mn", "mip"),
    "ike": ("auth-mn", "isakmp"),
}
# Table 4 of the 2007 paper, by policy: what T_A is the sum of, at home and roaming. P1 and P2 have
# no column there.
HOME, VISIT, EAP, IKE = "mip_registration_home", "mip_registration_foreign", "eap_home", "ike_home"
TABLE_4 = {
    **{policy: ({HOME}, {HOME, VISIT}) for policy in ("P1", "P2")},
    **{policy: ({IKE, HOME}, {IKE, HOME, VISIT}) for policy in ("P3", "P4")},
    **{policy: ({EAP, HOME}, {EAP, HOME}) for policy in ("P5", "P6", "P7", "P8")},
    **{policy: ({IKE, EAP, HOME}, {IKE, EAP, HOME}) for policy in ("P9", "P10", "P11", "P12")},
}


def of_recording(policy: str) -> dict[str, Phase]:
    """The phases of a recording, by name, in order of time."""
    seen = observed(policy)
    found = phases.find_phases(seen.raw, seen.packets_of("auth-air"), seen.packets_of("auth-mn"),
                               seen.mac)
    assert len({phase.name for phase in found}) == len(found)
    return {phase.name: phase for phase in found}


def find(mobile_node: list[Packet], *, air: list[Packet] | None = None,
         events: list[dict[str, Any]] | None = None,
         handoff: float | None = None) -> dict[str, Phase]:
    """The phases of made packets; the repetition starts at 100 s."""
    values = {"stamps": {"start": 100.0}, "events": events or []}
    if handoff is not None:
        values["stamps"]["handoff"] = handoff
    return {phase.name: phase for phase in phases.find_phases(values, air or [], mobile_node, MAC)}


def eap(time_s: float, code: int) -> Packet:
    """An EAP frame."""
    return replace(BLANK, time_s=time_s, eapol_type=tshark.EAPOL_EAP, eap_code=code)


def start(time_s: float) -> Packet:
    """An EAPOL-Start frame."""
    return replace(BLANK, time_s=time_s, eapol_type=1)


def key(time_s: float) -> Packet:
    """An EAPOL-Key frame."""
    return replace(BLANK, time_s=time_s, eapol_type=tshark.EAPOL_KEY)


def request(time_s: float) -> Packet:
    """A registration request."""
    return replace(BLANK, time_s=time_s, mip_type=tshark.REGISTRATION_REQUEST)


def reply(time_s: float, code: int = 0) -> Packet:
    """A registration reply."""
    return replace(BLANK, time_s=time_s, mip_type=tshark.REGISTRATION_REPLY, mip_code=code)


def icmp(time_s: float, kind: int) -> Packet:
    """An echo request (8) or its answer (0)."""
    return replace(BLANK, time_s=time_s, icmp_type=kind)


# Recordings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", IDS)
def test_phases_and_their_order(policy: str) -> None:
    """Each policy goes through the phases of its layers, in order, and none overlaps the next."""
    found = of_recording(policy)
    assert list(found) == NAMES[policy]
    one_after_the_other(list(found.values()))


def one_after_the_other(ordered: list[Phase]) -> None:
    """No phase overlaps the next, none is without a time of its own."""
    for before, after in itertools.pairwise(ordered):
        assert before.end_s <= after.start_s + 1e-6
    assert all(phase.start_s >= 0 and phase.duration_s > 0 for phase in ordered)


@pytest.mark.parametrize(("policy", "packets"), [
    ("P5", 5), ("P6", 15), ("P7", 5), ("P8", 17), ("P9", 5), ("P12", 17)])
def test_packets_of_dot1x(policy: str, packets: int) -> None:
    """802.1X takes as many frames as the paper counts: 5 for MD5, 17 for TLS with its keys."""
    assert of_recording(policy)["dot1x"].packets == packets


@pytest.mark.parametrize("policy", ["P3", "P4", "P9", "P12"])
def test_packets_of_ike(policy: str) -> None:
    """IKE takes the paper's 9 packets."""
    assert of_recording(policy)["ike"].packets == 9


@pytest.mark.parametrize("recording", AWAY)
def test_phases_away_follow_those_at_home(recording: str) -> None:
    """In the visited network the same phases come again, in the same order, under their names."""
    found = of_recording(recording)
    names = NAMES[policy_of(recording).id]
    assert list(found) == [*names, *(f"foreign_{name}" for name in names)]
    one_after_the_other(list(found.values()))
    moved = raw(recording)["stamps"]["handoff"] - raw(recording)["stamps"]["start"]
    assert found["first_packet"].end_s <= moved <= found["foreign_scan"].start_s


@pytest.mark.parametrize("recording", [*IDS, *ELSEWHERE])
def test_mobile_ip_takes_four_packets(recording: str) -> None:
    """Solicitation and advertisement, request and reply: in each network once."""
    found = of_recording(recording)
    for prefix in ("", "foreign_") if recording in AWAY else ("",):
        assert [found[prefix + name].packets for name in MOBILE_IP] == [2, 2]


def test_as_many_packets_away_as_at_home() -> None:
    """P12: 17 frames of 802.1X and 9 packets of IKE in each network."""
    found = of_recording("P12-R1")
    for name, count in (("dot1x", 17), ("ike", 9)):
        assert found[name].packets == found[f"foreign_{name}"].packets == count


@pytest.mark.parametrize("policy", IDS)
def test_packets_of_the_link(policy: str) -> None:
    """A probe, an 802.11 authentication and an association are a request and its answer each."""
    found = of_recording(policy)
    assert [found[name].packets for name in LINK] == [2, 2, 2]


@pytest.mark.parametrize(("policy", "names", "there"), [
    ("P1", ("dot1x", "registration", "ike"), 1), ("P12", tuple(FILTERS), len(FILTERS))])
def test_durations_are_last_minus_first_as_tshark_prints_them(
        policy: str, names: Sequence[str], there: int) -> None:
    """Counts and durations agree with a count by hand: tshark, a display filter, a subtraction.

    So does what is not there: P1 has neither EAP nor IKE.
    """
    found = of_recording(policy)
    compared = 0
    for name in names:
        capture, expression = FILTERS[name]
        printed = subprocess.run(
            ["tshark", "-n", "-r", str(path(policy, capture)), "-Y", expression, "-T", "fields",
             "-e", "frame.time_relative"], capture_output=True, text=True, check=True).stdout
        times = [float(line) for line in printed.splitlines()]
        assert (name in found) == bool(times)
        if times:
            assert found[name].packets == len(times)
            assert found[name].duration_s == pytest.approx(times[-1] - times[0], abs=1e-6)
            compared += 1
    assert compared == there


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("roaming", [False, True])
def test_table_4(policy: str, roaming: bool) -> None:
    """What T_A is the sum of, for all twelve policies at home and roaming, is the paper's."""
    wanted = summing.summed_components(POLICIES[policy], roaming=roaming)
    assert len(set(wanted)) == len(wanted)
    assert set(wanted) == TABLE_4[policy][roaming]


@pytest.mark.parametrize("recording", [*IDS, *ELSEWHERE])
def test_every_component_of_table_4_is_measured(recording: str) -> None:
    """Each component that counts took place, and took the time of its own packets."""
    policy, found = policy_of(recording), of_recording(recording)
    parts = summing.find_components(list(found.values()))
    wanted = summing.summed_components(policy, roaming=recording in AWAY)
    assert set(wanted) <= parts.keys()
    assert all(seconds > 0 for seconds in parts.values())
    shown = {f"{name}_{place}" for place in ("home", "foreign")[:2 if recording in AWAY else 1]
             for name in ("eap", "ike", "mip_registration")
             if name == "mip_registration" or f"{name}_home" in wanted}
    assert set(parts) == shown
    assert summing.authentication_time_s(parts, wanted) == pytest.approx(
        sum(parts[name] for name in wanted))


@pytest.mark.parametrize("recording", [*IDS, *ELSEWHERE])
def test_components_are_those_of_the_packets(recording: str) -> None:
    """802.1X and IKE by their phase; Mobile IP from the solicitation to the accepted reply."""
    found = of_recording(recording)
    parts = summing.find_components(list(found.values()))
    for place, prefix in (("home", ""), ("foreign", "foreign_")):
        for part, phase in (("eap", "dot1x"), ("ike", "ike")):
            assert (f"{part}_{place}" in parts) == (prefix + phase in found)
            if prefix + phase in found:
                assert parts[f"{part}_{place}"] == found[prefix + phase].duration_s
        if f"mip_registration_{place}" in parts:
            stay = observed(recording).by_attachment("auth-mn")[place == "foreign"]
            first = next(p for p in stay if p.icmp_type == tshark.AGENT_SOLICITATION)
            last = next(p for p in stay if p.mip_type == tshark.REGISTRATION_REPLY)
            assert parts[f"mip_registration_{place}"] == pytest.approx(
                last.time_s - first.time_s, abs=1e-6)


# Handoffs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("recording", AWAY)
def test_handoff_has_no_gaps_and_adds_up(recording: str) -> None:
    """Its phases lie side by side and sum to the whole, from leaving to the first answer."""
    seen, found = observed(recording), of_recording(recording)
    tiles = phases.handoff_phases(seen.raw, list(found.values()))
    assert [tile.name for tile in tiles] == NAMES[policy_of(recording).id]
    assert tiles[0].start_s == 0
    for before, after in itertools.pairwise(tiles):
        assert after.start_s == pytest.approx(before.end_s, abs=1e-9)
    moved = seen.raw["stamps"]["handoff"]
    answer = next(p for p in seen.packets_of("auth-mn")
                  if p.icmp_type == tshark.ECHO_REPLY and p.time_s > moved)
    # 5 ms are allowed.
    assert sum(tile.duration_s for tile in tiles) == pytest.approx(
        answer.time_s - moved, abs=1e-5)
    assert all(tile.duration_s > 0 for tile in tiles)


@pytest.mark.parametrize("recording", AWAY)
def test_handoff_starts_at_disassociation(recording: str) -> None:
    """The mobile node's farewell to its home is in the first phase, before any other frame.

    wpa_supplicant leaves with a deauthentication (subtype 12), which ends the association too.
    """
    seen, found = observed(recording), of_recording(recording)
    tiles = phases.handoff_phases(seen.raw, list(found.values()))
    moved = seen.raw["stamps"]["handoff"]
    frames = [p for p in seen.packets_of("auth-air") if p.time_s >= moved
              and seen.mac in (p.transmitter, p.receiver)]
    assert frames[0].subtype in (0x0A, 0x0C)
    assert frames[0].time_s - moved < min(0.02, tiles[0].duration_s)


@pytest.mark.parametrize("recording", AWAY)
def test_handoff_counts_the_packets_of_its_phases(recording: str) -> None:
    """A phase of the handoff is made of the packets of the same phase away, and ends with it."""
    seen, found = observed(recording), of_recording(recording)
    begin = seen.raw["stamps"]["handoff"] - seen.raw["stamps"]["start"]
    for tile in phases.handoff_phases(seen.raw, list(found.values())):
        phase = found[f"foreign_{tile.name}"]
        assert tile.packets == phase.packets
        assert tile.end_s == pytest.approx(phase.end_s - begin, abs=1e-6)


@pytest.mark.parametrize("recording", ["P1", "P3-N3"])
def test_no_handoff_at_home(recording: str) -> None:
    """Who stays has none."""
    found = of_recording(recording)
    assert phases.handoff_phases(raw(recording), list(found.values())) == []
    assert not any(name.startswith("foreign_") for name in found)


@given(st.lists(st.tuples(st.sampled_from(["scan", "dot1x", "registration", "ike"]),
                          st.floats(5, 10), st.floats(0, 3)), max_size=4,
                unique_by=lambda entry: entry[0]))
def test_handoff_tiles_whatever_overlaps(entries: list[tuple[str, float, float]]) -> None:
    """Phases that overlap, or lie within others, still add up to the whole and to no more."""
    made = [Phase(f"foreign_{name}", begin, took, 1) for name, begin, took in entries]
    tiles = phases.handoff_phases({"stamps": {"start": 100.0, "handoff": 104.0}}, made)
    assert all(tile.duration_s >= 0 for tile in tiles)
    last = max((phase.end_s for phase in made), default=4.0)
    assert sum(tile.duration_s for tile in tiles) == pytest.approx(last - 4.0)


@pytest.mark.parametrize("policy", IDS)
def test_first_packet_ends_with_the_answer(policy: str) -> None:
    """The time to the first useful packet begins where the last phase ends."""
    seen = observed(policy)
    *earlier, first = of_recording(policy).values()
    assert first.start_s == pytest.approx(
        max(phase.start_s + phase.duration_s for phase in earlier), abs=1e-6)
    answer = next(p for p in seen.packets_of("auth-mn") if p.icmp_type == 0)
    assert first.start_s + first.duration_s == pytest.approx(
        answer.time_s - seen.raw["stamps"]["start"], abs=1e-6)


@pytest.mark.parametrize("policy", ["P1", "P5", "P8"])
def test_packets_until_the_first_answer(policy: str) -> None:
    """Without IPsec: ARP and its answer, echo and its answer."""
    assert of_recording(policy)["first_packet"].packets == 4


@pytest.mark.parametrize("policy", ["P3", "P12"])
def test_first_packet_leaves_ike_out(policy: str) -> None:
    """With IPsec only the answer shows in clear to the mobile node; IKE's packets are IKE's."""
    assert of_recording(policy)["first_packet"].packets == 1


# Edge cases ----------------------------------------------------------------------------------


def test_nothing_happened() -> None:
    """No packets and no events: no phases, and no authentication time."""
    assert find([]) == {}
    assert summing.find_components([]) == {}
    assert summing.authentication_time_s({}, ["eap_home"]) is None
    assert summing.missing_components({"ike_home": 0.1}, ["eap_home", "ike_home"]) == ["eap_home"]
    assert phases.handoff_phases({"stamps": {"start": 100.0, "handoff": 101.0}}, []) == []


@pytest.mark.parametrize("event", ["CTRL-EVENT-SCAN-STARTED", "CTRL-EVENT-SCAN-RESULTS"])
def test_no_scan_without_both_events(event: str) -> None:
    """A scan that did not begin or did not end is not a phase."""
    assert "scan" not in find([], events=[{"name": event, "at_s": 100.5, "text": ""}])


STARTED, RESULTS, JOIN = "CTRL-EVENT-SCAN-STARTED", "CTRL-EVENT-SCAN-RESULTS", "authentication"


@pytest.mark.parametrize(("happened", "expected"), [
    ([(100.1, STARTED), (100.3, RESULTS), (100.4, JOIN)], (0.1, 0.2)),
    ([(100.03, RESULTS), (101.0, STARTED), (101.2, RESULTS), (101.3, JOIN)], (1.0, 0.2)),
    ([(100.1, STARTED), (100.3, RESULTS), (104.0, STARTED), (104.5, RESULTS), (105.0, JOIN)],
     (0.1, 4.4)),
    ([(100.1, STARTED), (100.3, JOIN), (100.31, RESULTS)], (0.1, 0.2)),
    ([(100.1, STARTED), (100.2, RESULTS), (101.0, STARTED), (101.3, JOIN), (101.31, RESULTS)],
     (0.1, 1.2)),
    ([(100.1, STARTED), (100.3, RESULTS), (100.4, JOIN), (104.0, STARTED), (104.5, RESULTS)],
     (0.1, 0.2)),
    ([(100.03, RESULTS), (101.0, STARTED)], None),
    ([(100.4, JOIN), (104.0, STARTED), (104.5, RESULTS)], None),
    ([(100.1, STARTED), (100.3, RESULTS)], (0.1, 0.2)),
    ([(100.1, STARTED), (100.3, RESULTS), (101.0, STARTED)], (0.1, 0.2)),
], ids=["one", "results of an earlier scan", "two", "read late", "second read late",
        "another once it is on", "no results but old ones", "once it is on alone",
        "nothing found", "second without results"])
def test_scans_before_the_node_authenticates_are_the_phase(
        happened: list[tuple[float, str]], expected: tuple[float, float] | None) -> None:
    """Whatever order events are read in, the phase begins with a scan and takes no less than 0."""
    events = [{"name": name, "at_s": at_s, "text": ""} for at_s, name in happened if name != JOIN]
    probe = replace(BLANK, time_s=100.2, subtype=0x04, transmitter=MAC)
    beacon = replace(BLANK, time_s=100.2, subtype=0x08, transmitter="02:00:00:00:a0:00")
    strange = replace(probe, transmitter="02:00:00:00:ff:00")
    joins = [replace(BLANK, time_s=at_s, subtype=0x0B, transmitter=MAC)
             for at_s, name in happened if name == JOIN]
    found = find([], air=[probe, beacon, strange, *joins], events=events).get("scan")
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert (found.start_s, found.duration_s) == (pytest.approx(expected[0]),
                                                 pytest.approx(expected[1]))
    assert found.packets == 1


def test_other_stations_frames_are_not_ours() -> None:
    """A neighbour's association is no phase of this mobile node."""
    frame = replace(BLANK, time_s=101, subtype=0x00, transmitter="02:00:00:00:ff:00",
                    receiver="02:00:00:00:a0:00")
    assert find([], air=[frame]) == {}
    assert "association" in find([], air=[replace(frame, transmitter=MAC)])


def test_requests_over_the_ds_take_authentications_place() -> None:
    """Action frames of another category, such as block acknowledgement, do not count."""
    asked = [replace(BLANK, time_s=at_s, subtype=0x0D, transmitter=MAC, action_category=category)
             for at_s, category in ((101.0, 6), (101.5, 6), (102.0, 3), (103.0, None))]
    assert find([], air=asked)["authentication"] == Phase("authentication", 1.0, 0.5, 2)


def test_eapol_start_opens_dot1x() -> None:
    """DESIGN: from the first EAP or EAPOL frame to EAP-Success."""
    found = find([start(101), eap(102, EAP_REQUEST), eap(103, EAP_RESPONSE),
                  eap(104, tshark.EAP_SUCCESS)])
    assert found["dot1x"] == Phase("dot1x", 1.0, 3.0, 4)


def wireguard_message(time_s: float, size_bytes: int, *, is_ours: bool = True) -> Packet:
    """A message of WireGuard on Ethernet."""
    source, target = ("10.1.0.12", "10.1.0.1")[::1 if is_ours else -1]
    return replace(BLANK, time_s=time_s, length=42 + size_bytes, ip_src=source, ip_dst=target,
                   udp_src=51820, udp_dst=51820)


INITIATION, RESPONSE, DATA = 148, 92, 128
AT_ONCE = [wireguard_message(101, INITIATION), wireguard_message(101.2, RESPONSE, is_ours=False),
           wireguard_message(101.2, DATA), wireguard_message(101.4, DATA, is_ours=False)]
#: Over a wire of 0.6 s each way both ends begin, and neither response is valid.
CROSSED = [wireguard_message(101, INITIATION),
           wireguard_message(101.2, INITIATION, is_ours=False), wireguard_message(101.2, RESPONSE),
           wireguard_message(102.2, RESPONSE, is_ours=False), wireguard_message(107, INITIATION),
           wireguard_message(108.2, RESPONSE, is_ours=False), wireguard_message(108.2, DATA)]


@pytest.mark.parametrize(("messages", "seconds", "count", "again"), [
    (AT_ONCE, 0.2, 2, []), (CROSSED, 7.2, 6, ["WireGuard initiation sent again after 6.000 s"]),
    (AT_ONCE[:2], 0.2, 2, []), (AT_ONCE[:1], None, 0, []), (AT_ONCE[2:], None, 0, []),
    ([*AT_ONCE, wireguard_message(221, INITIATION), wireguard_message(221.2, RESPONSE)], 0.2, 2,
     [])], ids=["at once", "crossed", "no data", "unanswered", "data alone", "new keys"])
def test_wireguard_handshake_lasts_until_data_can_be_sent(
        messages: list[Packet], seconds: float | None, count: int, again: list[str]) -> None:
    """Responses that crossed initiations made invalid are not its end."""
    found = find(messages).get("wireguard")
    assert (found is None) == (seconds is None)
    if found is not None:
        assert (found.duration_s, found.packets) == (pytest.approx(seconds), count)
    seen = replace(observed("P1"), captures={"auth-mn": messages})
    assert phases.find_retransmissions(seen) == again


def test_keys_after_success_close_dot1x() -> None:
    """With keys to deliver, 802.1X lasts until the last of them."""
    found = find([eap(101, EAP_REQUEST), eap(102, tshark.EAP_SUCCESS), key(103), key(105)])
    assert found["dot1x"] == Phase("dot1x", 1.0, 4.0, 4)
    assert "four_way_handshake" not in found


def test_frames_after_success_are_left_out() -> None:
    """A late repetition of an EAP request, or of EAPOL-Start, does not make 802.1X longer."""
    once = [eap(101, EAP_REQUEST), eap(102, tshark.EAP_SUCCESS)]
    assert find([*once, eap(104, EAP_REQUEST), start(105)]) == find(once)


def test_retransmissions_before_success_count() -> None:
    """A frame sent twice during the negotiation took its time and is counted."""
    found = find([eap(101, EAP_REQUEST), eap(102, EAP_REQUEST), eap(103, tshark.EAP_SUCCESS)])
    assert found["dot1x"] == Phase("dot1x", 1.0, 2.0, 3)


def test_failure_ends_dot1x() -> None:
    """A refused mobile node negotiated too: until EAP-Failure."""
    found = find([eap(101, EAP_REQUEST), eap(103, tshark.EAP_FAILURE), start(109)])
    assert found["dot1x"] == Phase("dot1x", 1.0, 2.0, 2)


def test_dot1x_without_an_end_is_kept_as_far_as_it_came() -> None:
    """A negotiation that broke off shows what there was of it."""
    assert find([start(101), eap(102, EAP_REQUEST)])["dot1x"] == Phase("dot1x", 1.0, 1.0, 2)


def test_four_way_handshake_without_eap() -> None:
    """Keys alone are a four-way handshake, and its time is authentication time."""
    found = find([key(101), key(101.25), key(101.5), key(102)])
    assert found == {"four_way_handshake": Phase("four_way_handshake", 1.0, 1.0, 4)}
    assert summing.find_components(list(found.values())) == {"eap_home": 1.0}


def test_no_answer_no_first_packet() -> None:
    """Echo requests without an answer are no useful packet."""
    assert "first_packet" not in find([icmp(101, 8), icmp(102, 8)])


def test_answers_before_the_last_phase_do_not_count() -> None:
    """The first useful packet is one that came once everything was negotiated."""
    ike = [replace(BLANK, time_s=at_s, isakmp_exchange=2) for at_s in (102.0, 103.0)]
    assert "first_packet" not in find([icmp(101, 0), *ike])
    found = find([icmp(101, 0), *ike, icmp(104, 0)])
    assert found["first_packet"].start_s == 3.0
    assert found["first_packet"].duration_s == 1.0


def test_registration_ends_with_the_reply_that_accepts() -> None:
    """Denied, asked again, accepted: all of it is one registration; a renewal later is not in."""
    found = find([request(101), reply(102, 133), request(103), reply(104), request(108),
                  reply(109)])
    assert found["registration"] == Phase("registration", 1.0, 3.0, 4)


@pytest.mark.parametrize("exchange", [[], [request(101)], [request(101), reply(102, 131)]])
def test_no_registration_without_acceptance(exchange: list[Packet]) -> None:
    """What was not answered, or denied, is no registration, and counts nothing."""
    found = find(exchange)
    assert "registration" not in found
    assert "mip_registration_home" not in summing.find_components(list(found.values()))


def test_simultaneous_bindings_refused_is_accepted_too() -> None:
    """Code 1 accepts (RFC 5944, 3.4)."""
    assert "registration" in find([request(101), reply(102, 1)])


def test_discovery_runs_from_solicitation_to_the_request() -> None:
    """Solicited: from there. Advertisements before the solicitation or after the request do not."""
    advertisements = [icmp(at_s, tshark.AGENT_ADVERTISEMENT) for at_s in (101, 103, 106)]
    packets = sorted([*advertisements, icmp(102, tshark.AGENT_SOLICITATION), request(104),
                      reply(105)], key=lambda p: p.time_s)
    found = find(packets)
    assert found["agent_discovery"] == Phase("agent_discovery", 2.0, 1.0, 2)
    assert summing.find_components(list(found.values())) == {"mip_registration_home": 3.0}


def test_unsolicited_discovery_is_one_advertisement() -> None:
    """A node that waits hears several; the last before its request is the discovery."""
    found = find([icmp(101, tshark.AGENT_ADVERTISEMENT), icmp(103, tshark.AGENT_ADVERTISEMENT),
                  request(104), reply(105)])
    assert found["agent_discovery"] == Phase("agent_discovery", 3.0, 0.0, 1)
    assert summing.find_components(list(found.values())) == {"mip_registration_home": 2.0}


def test_discovery_is_no_first_packet() -> None:
    """Advertisements after the last phase are not what the mobile node wanted to send."""
    found = find([request(101), reply(102), icmp(103, tshark.AGENT_ADVERTISEMENT), icmp(104, 8),
                  icmp(105, 0)])
    assert found["first_packet"] == Phase("first_packet", 2.0, 3.0, 2)


def test_the_move_parts_two_stays() -> None:
    """What came before the handoff belongs to home, the rest to the visited network."""
    exchange = [request(101), reply(102), request(111), reply(113)]
    found = find(exchange, handoff=110)
    assert found == {"registration": Phase("registration", 1.0, 1.0, 2),
                     "foreign_registration": Phase("foreign_registration", 11.0, 2.0, 2)}
    assert summing.find_components(list(found.values())) == {
        "mip_registration_home": 1.0, "mip_registration_foreign": 2.0}


@given(st.dictionaries(st.sampled_from(["eap_home", "ike_home", "mip_registration_home",
                                        "mip_registration_foreign", "eap_foreign"]),
                       st.floats(0, 100)),
       st.lists(st.sampled_from(["eap_home", "ike_home", "mip_registration_home",
                                 "mip_registration_foreign"]), unique=True))
def test_only_what_is_wanted_adds_up(parts: dict[str, float], wanted: list[str]) -> None:
    """T_A is the sum of the wanted components, whichever others there are; none missing."""
    total = summing.authentication_time_s(parts, wanted)
    if set(wanted) <= parts.keys():
        assert total == pytest.approx(sum(parts[name] for name in wanted))
    else:
        assert total is None


@given(st.lists(st.floats(100, 200), min_size=1, max_size=30))
def test_span_covers_exactly_its_packets(times: list[float]) -> None:
    """A phase holds all its packets, from the first to the last, whatever their spacing."""
    ordered = sorted(times)
    found = find([replace(BLANK, time_s=at_s, isakmp_exchange=2) for at_s in ordered])["ike"]
    assert found.packets == len(ordered)
    assert found.start_s == ordered[0] - 100
    assert found.duration_s == ordered[-1] - ordered[0]
