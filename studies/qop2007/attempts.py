"""Attacks that are carried out in the machine are judged by what the mobile node did."""

from __future__ import annotations

from collections.abc import Iterator

from measure import dissect, management
from measure.observed import Check, Observed

#: A frame in an access point's name that ends the association.
FORGED = "forged-deauthentication"


def verify(seen: Observed) -> Iterator[Check]:
    """The check of the attack that was tried; none where there was none."""
    if seen.raw.get("attack") != FORGED:
        return
    air = seen.packets("traffic-air")
    forged = [p for p in air if p.subtype == management.DEAUTHENTICATION and not p.protected
              and p.receiver == seen.mac]
    since = min((p.time_s for p in forged), default=float("inf"))
    again = [p for p in air if p.time_s > since and p.transmitter == seen.mac
             and p.subtype == dissect.AUTHENTICATION_SUBTYPE]
    data = [p for p in air if p.time_s > since and p.transmitter == seen.mac and p.is_data]
    yield Check("association outlives a forged deauthentication",
                bool(forged) and bool(data) and not again,
                f"{len(forged)} deauthentication frames in clear in its access point's name, "
                f"then {len(data)} data frames of the mobile node's, and {len(again)} by which it "
                "began anew")
