"""Checks of attacks that are carried out, on the node or on a recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from measure import dissect, guessing, management, pcap
from measure.observed import Check, Observed
from topologies.model import ACCESS_POINT, Scenario

#: Attack: a forged deauthentication frame in the access point's name.
FORGED = "forged-deauthentication"
#: Attack: words tried on a recorded handshake, among them the right one.
GUESSING = "guessing"
#: Attack: a frame of the mobile node that is sent once more.
REPLAY = "replay"
#: Attack: an access point with the network's name and without its secrets, in place of the real
#: one.
TWIN = "evil-twin"
#: Prefix of the captures of attacks that are carried out after all other measurements.
PART = "attack"
#: Wrong words that are tried. A real list has millions.
_WORDS = tuple(f"password{number}" for number in range(9))


def check_attack(captures: Observed, scenario: Scenario, passphrase: str) -> Iterator[Check]:
    """Yield the check of the attack that was tried, if there was one."""
    attack = captures.raw.get("attack")
    if attack == FORGED:
        yield _check_deauthentication(captures)
    elif attack == GUESSING:
        yield _check_guessing(captures, scenario, passphrase)
    elif attack == REPLAY:
        yield _check_replay(captures)
    elif attack == TWIN:
        yield _check_evil_twin(captures)


def _check_deauthentication(captures: Observed) -> Check:
    air = captures.packets_of("traffic-air")
    forged = [p for p in air if p.subtype == management.DEAUTHENTICATION and not p.protected
              and p.receiver == captures.mac]
    since = min((p.time_s for p in forged), default=float("inf"))
    again = [p for p in air if p.time_s > since and p.transmitter == captures.mac
             and p.subtype == dissect.AUTHENTICATION_SUBTYPE]
    data = [p for p in air if p.time_s > since and p.transmitter == captures.mac and p.is_data]
    return Check("association outlives a forged deauthentication",
                 bool(forged) and bool(data) and not again,
                 f"{len(forged)} deauthentication frames in clear in its access point's name, "
                 f"then {len(data)} data frames of the mobile node's, and {len(again)} by which "
                 "it began anew")


def _check_guessing(captures: Observed, scenario: Scenario, passphrase: str) -> Check:
    nodes = scenario.network.nodes
    ssid = nodes[scenario.network.of_duty(ACCESS_POINT)[0]].ssid or ""
    recorded = list(guessing.find_handshakes(pcap.read_frames(captures.folder / "auth-mn.pcap")))
    word = guessing.guess_passphrase(recorded, (*_WORDS, passphrase), ssid)
    return Check("passphrase is not guessed from the recording", bool(recorded) and not word,
                 f"{len(_WORDS) + 1} words tried on {len(recorded)} recorded handshakes: "
                 + ("the right one is known by its check" if word else "none fits"))


def _check_replay(captures: Observed) -> Check:
    """Check that a frame seen twice on the air reached the peer once.

    A frame is recognised by its length and its packet number, if it has one.
    """
    times = Counter((p.length, p.wep_iv, p.tkip_iv, p.ccmp_iv)
                    for p in captures.packets_of(f"{PART}-air")
                    if p.is_data and p.transmitter == captures.mac)
    sent = times[max(times)] if times else 0
    arrived = sum(p.icmp_type == dissect.ECHO_REQUEST for p in captures.packets_of(f"{PART}-peer"))
    return Check("a frame that is sent again is not taken again", sent > 1 and arrived == 1,
                 f"a frame of the mobile node's was {sent} times on the air as it is, and what it "
                 f"asks came {arrived} times to its peer")


def _check_evil_twin(captures: Observed) -> Check:
    """Check that the station met the evil twin, which could not read its echo request."""
    air = captures.packets_of(f"{PART}-air")
    beacons = [p for p in air if p.subtype == management.BEACON and p.transmitter in captures.cells]
    met = [p for p in air if p.transmitter == captures.mac
           and p.subtype == dissect.AUTHENTICATION_SUBTYPE]
    came = [p for p in captures.packets_of(f"{PART}-twin") if p.ethernet_src == captures.mac]
    legible = [p for p in came if p.icmp_type == dissect.ECHO_REQUEST]
    return Check("evil twin reads nothing", bool(beacons) and bool(met) and not legible,
                 f"{len(beacons)} beacons of a twin without the network's secrets, {len(met)} "
                 f"authentication frames of the mobile node's to it; of {len(came)} packets that "
                 f"came to it, {len(legible)} ask the peer something in clear")
