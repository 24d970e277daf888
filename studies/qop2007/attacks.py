"""Carry out attacks on the wireless link, and check whether a policy withstands them.

The five attacks are a forged deauthentication, guessing a passphrase, the replay of a frame, an
evil twin (a false access point with the network's name), and a downgrade (a twin with WPA2 alone).
`carry_out_attack` carries out the last three inside the guest, the virtual machine of the test
network. `fault_injection.py` forges the deauthentication.

`check_attack` examines the packet captures afterwards, outside of the guest. It also guesses the
passphrase on recorded handshakes. It yields one check, which holds if the attack failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.agent.errors import MeasureError
from measure.attacks import injection, passphrase_guessing
from measure.capture import pcap, tcpdump, tshark
from measure.capture.tcpdump import AIR_INTERFACE, CapturePoint
from measure.checks.observation import Check, Observation
from measure.packets import management_frames
from topologies.model import ACCESS_POINT, Scenario

if TYPE_CHECKING:
    from measure.mobile_node.attachment import AttachmentSteps
    from policies import LinkLayer


#: Attack: a forged deauthentication frame in the access point's name.
FORGED = "forged-deauthentication"
#: Attack: words tried on a recorded handshake, among them the right one.
GUESSING = "guessing"
#: Attack: a frame of the mobile node that is sent once more.
REPLAY = "replay"
#: Attack: an access point with the network's name and without its secrets, in place of the real
#: one.
TWIN = "evil-twin"
#: Attack: such an access point that offers WPA2's passphrase handshake alone.
DOWNGRADE = "downgrade"
#: Prefix of the captures of attacks that are carried out after all other measurements.
PART = "attack"
#: RSN key management suites of WPA2's passphrase handshake.
_WPA2_SUITES = (2,)
#: Wrong words that are tried. A real list has millions.
_WORDS = tuple(f"password{number}" for number in range(9))


def check_attack(captures: Observation, scenario: Scenario,
                 link: LinkLayer | None) -> Iterator[Check]:
    """Check from packet captures whether the attack of this repetition succeeded.

    Args:
        captures: packets and raw values of the repetition. They name the attack, if there was one,
            and have the right WPA passphrase, which is among the guessed ones.
        scenario: the scenario, whose network has the SSID.
        link: the policy's link layer.

    Yields:
        One check, which holds if the attack failed. Nothing without an attack.
    """
    attack = captures.raw.get("attack")
    passphrase = captures.passphrase
    if link is not None and link.passphrases:
        # Imported here: the guest, which runs attacks, lacks what policies need.
        from measure.packets.decryption_keys import device_passphrase

        passphrase = device_passphrase(passphrase, captures.mac)
    if attack == FORGED:
        yield _check_deauthentication(captures)
    elif attack == GUESSING:
        yield _check_guessing(captures, scenario, passphrase,
                              is_tried=link is None or link.key_management != "FT-PSK")
    elif attack == REPLAY:
        yield _check_replay(captures)
    elif attack == TWIN:
        yield _check_evil_twin(captures)
    elif attack == DOWNGRADE:
        yield _check_downgrade(captures, scenario, passphrase)


def _check_deauthentication(captures: Observation) -> Check:
    """Check that the mobile node stays associated after a forged deauthentication frame."""
    air = captures.packets_of("traffic-air")
    forged = [p for p in air if p.subtype == management_frames.DEAUTHENTICATION and not p.protected
              and p.receiver == captures.mac]
    since = min((p.time_s for p in forged), default=float("inf"))
    reauthentications = [p for p in air if p.time_s > since and p.transmitter == captures.mac
                         and p.subtype == tshark.AUTHENTICATION_SUBTYPE]
    data = [p for p in air if p.time_s > since and p.transmitter == captures.mac and p.is_data]
    return Check("association survives a forged deauthentication",
                 bool(forged) and bool(data) and not reauthentications,
                 f"{len(forged)} unprotected deauthentication frames in the access point's name, "
                 f"then {len(data)} data frames of the mobile node and {len(reauthentications)} "
                 "frames of a new authentication")


def _check_guessing(captures: Observation, scenario: Scenario, passphrase: str, *,
                    is_tried: bool) -> Check:
    """Check that no word yields the MIC of a recorded handshake.

    With `is_tried` false, the check fails: words are not tried on handshakes of fast transition.
    """
    ok, detail = False, "no word is tried on handshakes of fast transition here"
    if is_tried:
        recorded, word, detail = _guess_passphrase(captures.folder / "auth-mn.pcap", scenario,
                                                   passphrase)
        ok = bool(recorded) and not word
    return Check("passphrase is not guessed from the handshake", ok, detail)


def _guess_passphrase(capture: Path, scenario: Scenario, passphrase: str) -> tuple[int, str, str]:
    """Try to guess a passphrase from the handshakes in a capture.

    Returns:
        The number of handshakes, the guessed passphrase ("" if none matches), and a description.
    """
    nodes = scenario.network.nodes
    ssid = nodes[scenario.network.of_duty(ACCESS_POINT)[0]].ssid or ""
    recorded = list(passphrase_guessing.find_handshakes(
        pcap.read_frames(capture) if capture.exists() else ()))
    word = passphrase_guessing.guess_passphrase(recorded, (*_WORDS, passphrase), ssid)
    return len(recorded), word, (
        f"{len(_WORDS) + 1} words tried on {len(recorded)} recorded handshakes: "
        + ("the check value reveals the right one" if word else "none matches"))


def _check_downgrade(captures: Observation, scenario: Scenario, passphrase: str) -> Check:
    """Check that the mobile node answers no passphrase handshake of a twin that offers WPA2 alone.

    The answer would show whether a guessed passphrase is right. The twin's beacons must be there.
    """
    air, twin = (captures.folder / f"{PART}-{point}.pcap" for point in ("air", "twin"))
    offers = {frame.akms for frame in management_frames.read_management_frames(
        air, subtype=management_frames.BEACON)} if air.exists() else set()
    _, word, text = _guess_passphrase(twin, scenario, passphrase)
    return Check("passphrase is not guessed after a downgrade", offers == {_WPA2_SUITES}
                 and not word, f"a twin without the passphrase offers key management suites "
                 f"{sorted(offers)}, {_WPA2_SUITES} expected; {text}")


def _check_replay(captures: Observation) -> Check:
    """Check that a frame sent twice on the air reached the peer only once.

    A frame is identified by its length and by its WEP, TKIP or CCMP packet number, if it has one.
    The replayed frame is longer than all others, and has the largest packet number of its length.
    """
    times = Counter((p.length, p.wep_iv, p.tkip_iv, p.ccmp_iv)
                    for p in captures.packets_of(f"{PART}-air")
                    if p.is_data and p.transmitter == captures.mac)
    sent = times[max(times)] if times else 0
    arrived = sum(p.icmp_type == tshark.ECHO_REQUEST for p in captures.packets_of(f"{PART}-peer"))
    return Check("replayed frame is dropped", sent > 1 and arrived == 1,
                 f"one frame of the mobile node was {sent} times on the air, and its ping reached "
                 f"the peer {arrived} times")


def _check_evil_twin(captures: Observation) -> Check:
    """Check that the mobile node met the evil twin, but sent it no readable ping.

    An evil twin is a false access point with the network's name and without its secrets.
    """
    air = captures.packets_of(f"{PART}-air")
    beacons = [p for p in air if p.subtype == management_frames.BEACON and p.transmitter
               in captures.cells]
    met = [p for p in air if p.transmitter == captures.mac
           and p.subtype == tshark.AUTHENTICATION_SUBTYPE]
    packets = [p for p in captures.packets_of(f"{PART}-twin") if p.ethernet_src == captures.mac]
    legible = [p for p in packets if p.icmp_type == tshark.ECHO_REQUEST]
    return Check("evil twin cannot read traffic", bool(beacons) and bool(met) and not legible,
                 f"{len(beacons)} beacons of a twin without the network's secrets, {len(met)} "
                 f"authentication frames from the mobile node to the twin; of {len(packets)} "
                 f"packets at the twin, {len(legible)} are readable pings to the peer")


# --- Attacks in the guest, after all other measurements ---
# Each has captures of its own. The code uses the standard library only.

def carry_out_attack(attack: str, arrival: AttachmentSteps, captures: Callable[..., Any]) -> None:
    """Carry out the replay or evil-twin attack inside the guest, or do nothing for other names.

    Raises:
        MeasureError: the attack could not be carried out.
    """
    if attack in ATTACKS:
        ATTACKS[attack](arrival, captures)


def _replay_frame(arrival: AttachmentSteps, captures: Callable[..., Any]) -> None:
    """Send a copy of a ping frame of the mobile node, and capture which pings reach its peer."""
    nodes, scenario = arrival.scenario.network.nodes, arrival.scenario
    peer = nodes[scenario.peer]
    device = arrival.access.tunnel_device(scenario.peer) or peer.interface_of(peer.address)
    with captures([CapturePoint("air", None, AIR_INTERFACE, "type data"),
                   CapturePoint("peer", scenario.peer, device, "icmp[icmptype] == icmp-echo")],
                  tcpdump.WHOLE, part=PART):
        injection.replay_echo_request(arrival.station, arrival.peer,
                                      arrival.access.limits.data_s(scenario))


def _run_downgrade(arrival: AttachmentSteps, captures: Callable[..., Any]) -> None:
    """Replace the access point by an evil twin that offers WPA2's passphrase handshake alone."""
    _run_evil_twin(arrival, captures, has_wpa2_only=True)


def _run_evil_twin(arrival: AttachmentSteps, captures: Callable[..., Any], *,
                   has_wpa2_only: bool = False) -> None:
    """Replace the access point by an evil twin, and ping the peer through it.

    The twin has the network's SSID, but not its secrets.
    """
    access, scenario, station = arrival.access, arrival.scenario, arrival.station
    place = scenario.access_point
    cell = scenario.network.nodes[place]
    station.disconnect()
    with (access.evil_twin_of(place, station.name, has_wpa2_only=has_wpa2_only),
          captures([CapturePoint("air", None, AIR_INTERFACE),
                    CapturePoint("twin", place, cell.radio_interface)],
                   tcpdump.WHOLE, part=PART)):
        with suppress(MeasureError):  # A refusal to join shows in the captures.
            station.join_access_point(cell)
        station.is_reachable(arrival.peer, access.limits.data_s(scenario))
        station.disconnect()


ATTACKS: Mapping[str, Callable[[AttachmentSteps, Callable[..., Any]], None]] = {
    REPLAY: _replay_frame, TWIN: _run_evil_twin, DOWNGRADE: _run_downgrade}
