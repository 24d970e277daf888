"""Detect retransmissions on the air from the delay of frames to the supplicant.

The delay of a frame is the time from the access point's radio, before the air, to the supplicant. A
frame that the air loses arrives hundreds of microseconds later than the quickest of its length:
IEEE 802.11 sends it again after a longer backoff. Without a loss, 9,337 frames took at most 65 us
longer.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from measure import pcap
from studies.eapload2004.exchanges import is_from_supplicant

#: Delay beyond the quickest frame of the same length that counts as a retransmission, in seconds.
_RETRANSMITTED_S = 0.00008
_RADIO, _SUPPLICANT = "auth-radio.pcap", "auth-mn.pcap"


@dataclass(frozen=True)
class AirLosses:
    """The number of frames that reached the supplicant, and how many of them were late."""

    frames: int
    late: int


def count_losses(out: Path) -> AirLosses:
    """Count the frames to the supplicant in a repetition's captures, and the late ones.

    A frame that arrives without a capture at the access point's radio counts as late.

    Raises:
        MeasureError: A capture is damaged, or holds no Ethernet frames.
    """
    if not (out / _RADIO).exists():  # Results of an earlier version have no capture at the radio.
        return AirLosses(0, 0)
    sent_s: dict[bytes, list[float]] = defaultdict(list)
    for frame in pcap.read_frames(out / _RADIO):
        if is_from_supplicant(frame) is False:
            sent_s[frame.payload].append(frame.at_s)
    took_s: dict[int, list[float]] = defaultdict(list)
    unsent = 0
    for frame in pcap.read_frames(out / _SUPPLICANT):
        if is_from_supplicant(frame) is not False:
            continue
        # Take the newest earlier copy: an equal frame before it may have been lost.
        before = [at_s for at_s in sent_s[frame.payload] if at_s <= frame.at_s]
        if before:
            sent_s[frame.payload] = sent_s[frame.payload][len(before):]
            took_s[len(frame.payload)].append(frame.at_s - before[-1])
        else:
            unsent += 1
    late = sum(each > min(those) + _RETRANSMITTED_S for those in took_s.values() for each in those)
    return AirLosses(unsent + sum(map(len, took_s.values())), unsent + late)
