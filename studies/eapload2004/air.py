"""How many frames the air loses: those that the supplicant gets later than others of their length.

What the access point sends on finds an idle air, and is there after its own time, to some
microseconds; what has to be sent again, hundreds later. In virtual time nothing else is late.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from measure import pcap
from measure.eap_keys import PORT
from studies.eapload2004.exchanges import is_from_supplicant

#: To be sent again takes longer than that; what else there is to do is done sooner.
_LATER_S = 0.00008


@dataclass(frozen=True)
class AirLosses:
    """So many of the frames to the supplicant came later than the quickest of their length."""

    frames: int
    late: int


def losses(out: Path) -> AirLosses:
    """Of a repetition, from the server's answer behind the access point to the supplicant."""
    passed = [(datagram.at_s, 0) for datagram in pcap.datagrams(out / "auth-ap.pcap")
              if datagram.target_port != PORT]
    passed += [(frame.at_s, len(frame.payload)) for frame in pcap.frames(out / "auth-mn.pcap")
               if is_from_supplicant(frame) is False]
    took_s: dict[int, list[float]] = defaultdict(list)
    for (answered_s, behind), (received_s, size) in pairwise(sorted(passed)):
        if size and not behind:
            took_s[size].append(received_s - answered_s)
    return AirLosses(sum(map(len, took_s.values())), sum(
        each > min(those) + _LATER_S for those in took_s.values() for each in those))
