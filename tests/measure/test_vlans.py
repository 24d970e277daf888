"""A VLAN is proven by what the server says, by tags on the wire, and by the kernel's bridge."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import made_up_captures
from conftest import PROJECT
from measure.attacks import injection, vlan_probes
from measure.checks import observation, vlans
from measure.packets import eap
from policies import load_policy
from studies import policy_factors
from studies.qop2007 import cells
from studies.study import StudyError
from topologies.loader import load_scenario
from topologies.model import vlan_port

SECRET = b"made up"
STATION, AGENT = "02:00:00:00:a2:00", "02:00:00:00:0a:01"
POLICY = load_policy(PROJECT / "examples" / "wpa2-eap-vlan.yml")
TUNNEL = b"\x40\x06\0\0\0\x0d\x41\x06\0\0\0\x06\x51\x04"
PROVEN = {"VLAN from the RADIUS server", "VLAN tag on the wire", "station is in its VLAN's bridge",
          "other VLANs do not reach the station"}


def radius_message(code: int, attributes: bytes = b"", key: bytes = SECRET) -> bytes:
    """An Ethernet frame with a request of an access point, or the server's answer."""
    size = (38 + len(attributes)).to_bytes(2, "big")
    blank = bytes((code, 7)) + size + bytes(range(16)) + attributes + b"\x50\x12" + bytes(16)
    message = blank[:-16] + hmac.digest(key, blank, "md5")
    ends = ("10.1.0.2", "10.1.0.1")
    ports = (50000, 1812) if code == eap.ACCESS_REQUEST else (1812, 50000)
    return (bytes(12) + b"\x08\0" + made_up_captures.datagram(28 + len(message), *ends)[:20]
            + b"".join(number.to_bytes(2, "big") for number in (*ports, 8 + len(message), 0))
            + message)


def tagged(vlan: int, to: str = AGENT) -> bytes:
    """A frame of the station's."""
    tag = b"\x81\0" + vlan.to_bytes(2, "big") if vlan else b""
    return injection.mac_bytes(to) + injection.mac_bytes(STATION) + tag + b"\x08\0" + bytes(46)


def probes(vlan: int = 20, other: int = 0) -> list[bytes]:
    """The requests as they are sent in a testbed, one each without tag, in its VLAN and beside."""
    sent: list[bytes] = []
    testbed = SimpleNamespace(run_command=lambda *_: f"{AGENT}\n")
    patch = pytest.MonkeyPatch()
    patch.setattr(injection, "send_on_interface", lambda *words: sent.append(words[-1]))
    patch.setattr(vlan_probes.time, "sleep", lambda _: None)
    with patch.context():
        vlan_probes.send_vlan_probes(cast("Any", testbed), "ha-a", "air0", "10.1.0.12", vlan,
                                     other)
    patch.undo()
    return sent


def bridge(vlan: int = 20, **further: Mapping[str, Any]) -> dict[str, Any]:
    """What an access point's kernel says of a station in a VLAN."""
    return {"interface": "wlan-a.20", "bridge": "br-a.20",
            "ports": {"eth-a.20": {"vlan": vlan, "below": "eth-a"}, **further}}


GOOD: dict[str, Any] = {
    "wire": [radius_message(1), radius_message(2, TUNNEL + b"20"), tagged(20), *probes()],
    "mn": [probes()[1]], "stream": [tagged(20)], "kernel": bridge()}


def failed(folder: Path, **instead: Any) -> set[str]:
    """The checks that fail where something is otherwise than it should be."""
    seen = {**GOOD, **instead}
    untagged = [frame[:12] + frame[16:] if frame[12:14] == b"\x81\0" else frame
                for frame in cast("Sequence[bytes]", seen["mn"])]
    for name, frames in (("auth-wire", seen["wire"]), ("auth-mn", untagged),
                         ("traffic-wire", seen["stream"])):
        made_up_captures.written(folder / f"{name}.pcap", enumerate(frames))
    kernel = {"vlans": {"ap-a": seen["kernel"]}} if seen["kernel"] else {}
    observed = replace(observation.build_observation(
        load_scenario("N2"), {"stamps": {}, "kernel": kernel}, {}), folder=folder,
        radius_secret=SECRET)
    assert POLICY.layers.link is not None
    made = {check.check: check.ok for check in vlans.check_vlan(POLICY.layers.link, observed)}
    assert made.keys() == PROVEN
    return {name for name, ok in made.items() if not ok}


def test_a_vlan_is_proven_where_all_show_it(tmp_path: Path) -> None:
    """The server names it, frames have its tag, and its bridge has nothing else."""
    assert failed(tmp_path) == set()


@pytest.mark.parametrize("accept", [
    [radius_message(1), radius_message(2, TUNNEL + b"30")],
    [radius_message(1), radius_message(2)],
    [radius_message(1), radius_message(2, TUNNEL + b"20", key=b"another")],
    [radius_message(1)]], ids=["another VLAN", "no VLAN", "a forger's answer", "no answer"])
def test_server_has_to_name_the_vlan(tmp_path: Path, accept: list[bytes]) -> None:
    """In an answer that the secret authenticates."""
    assert failed(tmp_path, wire=[*accept, *GOOD["wire"][2:]]) == {"VLAN from the RADIUS server"}


@pytest.mark.parametrize("stream", [[tagged(20), tagged(0)], [tagged(21)]])
def test_every_frame_of_the_station_has_the_tag(tmp_path: Path, stream: list[bytes]) -> None:
    """One without it, or with another one, is found among the others."""
    assert failed(tmp_path, stream=stream) == {"VLAN tag on the wire"}


@pytest.mark.parametrize("kernel", [
    bridge(21), bridge(**{"eth-a": {"vlan": 0, "below": ""}}),
    {**bridge(), "ports": {}}, {**bridge(), "interface": ""}, {}])
def test_bridge_has_the_vlan_alone(tmp_path: Path, kernel: dict[str, Any]) -> None:
    """A port of another VLAN or of the wire itself would lead out of it."""
    assert failed(tmp_path, kernel=kernel) == {"station is in its VLAN's bridge"}


@pytest.mark.parametrize("arrived", [[0, 1], [1, 2], [0], []])
def test_requests_of_other_vlans_must_not_arrive(tmp_path: Path, arrived: list[int]) -> None:
    """Nor may the own VLAN's be missing, with which nothing would be shown."""
    sent = probes()
    assert failed(tmp_path, mn=[sent[at] for at in arrived]) == {
        "other VLANs do not reach the station"}
    assert failed(tmp_path, wire=GOOD["wire"][:3]) == {"other VLANs do not reach the station"}


SEVERAL = load_policy(PROJECT / "examples" / "wpa2-psk-vlans.yml")


@pytest.mark.parametrize(("vlan", "tag", "holds"), [
    (30, 30, True), (30, None, True), (20, 30, False), (30, 20, False), (0, None, False)])
def test_other_stations_are_in_their_own_vlans(vlan: int, tag: int | None, tmp_path: Path, *,
                                               holds: bool) -> None:
    """N1's second station is in VLAN 30: by its bridge, and by its frames if there are any."""
    scenario = load_scenario("N1")
    mac = injection.mac_bytes(scenario.network.nodes["a2"].radio_mac)
    frame = injection.mac_bytes(AGENT) + mac + b"\x81\0" + (tag or 0).to_bytes(2, "big") + bytes(46)
    made_up_captures.written(tmp_path / "traffic-wire.pcap", enumerate([frame] * (tag is not None)))
    made_up_captures.written(tmp_path / "auth-mn.pcap", enumerate([]))
    kernel = {"companion_vlans": {"a2": bridge(vlan)} if vlan else {}}
    observed = replace(observation.build_observation(
        scenario, {"stamps": {}, "kernel": kernel}, {}), folder=tmp_path)
    assert SEVERAL.layers.link is not None
    made = {check.check: check for check in vlans.check_vlan(SEVERAL.layers.link, observed)}
    assert made["other stations are in their VLANs"].ok is holds


def test_request_in_another_vlan_is_in_that_of_another_station() -> None:
    """An access point sends it there, so that its absence at the mobile node says something."""
    assert [frame[12:16].hex() for frame in probes(20, 30)][1:] == ["81000014", "8100001e"]
    assert probes(4094)[2][12:16].hex() == "81000001"


def test_vlan_of_an_accept_is_read_with_and_without_tunnel_tags() -> None:
    """RFC 2868, 3.1; another kind of tunnel is no VLAN."""
    head = bytes(20)
    assert eap.read_tunnel_vlan(head + TUNNEL + b"20") == 20
    assert eap.read_tunnel_vlan(head + TUNNEL[:-1] + b"\x05\x0120") == 20
    assert eap.read_tunnel_vlan(head + TUNNEL.replace(b"\0\x0d", b"\0\x03") + b"20") is None
    assert eap.read_tunnel_vlan(head + TUNNEL + b"xy") is None
    assert eap.read_tunnel_vlan(head) is None


def test_scenarios_that_carry_no_vlan_are_refused() -> None:
    """In one line; the others take it."""
    for name in ("N1", "N2", "N3", "R1"):
        cells.check_vlan(POLICY, load_scenario(name))
    with pytest.raises(StudyError, match=r"WPA2-EAP-VLAN in scenario campus-0ms: link.vlan: .* by"
                       r" DHCP, whose server has no VLANs here; leave out vlan, or choose another"):
        cells.check_vlan(POLICY, load_scenario("campus-0ms"))
    for name in ("E1", "R3"):
        with pytest.raises(StudyError, match="a2 moves on without leaving first; leave"):
            cells.check_vlan(POLICY, load_scenario(name))
    roams = load_policy(PROJECT / "examples" / "wpa2-eap-vlan.yml")
    ipsec = load_policy(PROJECT / "policies" / "M11.yml").layers.ipsec
    roams = roams.model_copy(update={"layers": roams.layers.model_copy(update={"ipsec": ipsec})})
    with pytest.raises(StudyError, match="the tunnel goes by an address in a subnet without VLANs"):
        cells.check_vlan(roams, load_scenario("R1"))


def test_studies_without_its_proof_refuse_a_vlan() -> None:
    """In one line: they send no requests from other VLANs."""
    with pytest.raises(StudyError, match=r"link\.vlan is proven by .* choose the study qop2007"):
        policy_factors.PolicyReader(["P1"])([], [PROJECT / "examples" / "wpa2-eap-vlan.yml"])


def test_interface_of_a_vlan_has_a_name_that_linux_takes() -> None:
    """15 characters at most."""
    assert vlan_port("eth-a", 20) == "eth-a.20"
    assert len(vlan_port("a-long-interface", 4094)) == 15
