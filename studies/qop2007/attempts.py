"""Attacks that are carried out are judged by what came of them: on the node, or on a recording."""

from __future__ import annotations

from collections.abc import Iterator

from measure import dissect, guessing, management, pcap
from measure.observed import Check, Observed
from topologies.model import ACCESS_POINT, Scenario

#: A frame in an access point's name that ends the association.
FORGED = "forged-deauthentication"
#: Words that are tried on a recorded handshake, the right one among them.
GUESSING = "guessing"
#: The others; a real list has millions.
_WORDS = tuple(f"password{number}" for number in range(9))


def verify(seen: Observed, scenario: Scenario, passphrase: str) -> Iterator[Check]:
    """The check of the attack that was tried; none where there was none."""
    attack = seen.raw.get("attack")
    if attack == FORGED:
        yield _outlived(seen)
    elif attack == GUESSING:
        yield _guessed(seen, scenario, passphrase)


def _outlived(seen: Observed) -> Check:
    air = seen.packets("traffic-air")
    forged = [p for p in air if p.subtype == management.DEAUTHENTICATION and not p.protected
              and p.receiver == seen.mac]
    since = min((p.time_s for p in forged), default=float("inf"))
    again = [p for p in air if p.time_s > since and p.transmitter == seen.mac
             and p.subtype == dissect.AUTHENTICATION_SUBTYPE]
    data = [p for p in air if p.time_s > since and p.transmitter == seen.mac and p.is_data]
    return Check("association outlives a forged deauthentication",
                 bool(forged) and bool(data) and not again,
                 f"{len(forged)} deauthentication frames in clear in its access point's name, "
                 f"then {len(data)} data frames of the mobile node's, and {len(again)} by which "
                 "it began anew")


def _guessed(seen: Observed, scenario: Scenario, passphrase: str) -> Check:
    nodes = scenario.network.nodes
    ssid = nodes[scenario.network.of_duty(ACCESS_POINT)[0]].ssid or ""
    recorded = list(guessing.handshakes(pcap.frames(seen.folder / "auth-mn.pcap")))
    word = guessing.guessed(recorded, (*_WORDS, passphrase), ssid)
    return Check("passphrase is not guessed from the recording", bool(recorded) and not word,
                 f"{len(_WORDS) + 1} words tried on {len(recorded)} recorded handshakes: "
                 + ("the right one is known by its check" if word else "none fits"))
