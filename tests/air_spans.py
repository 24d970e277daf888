"""Times of authentications in a capture of all radios, by tshark alone."""

from __future__ import annotations

from pathlib import Path

from measure.capture import tshark


def authentications_on_air(capture: Path, address: str) -> list[tuple[float, float]]:
    """First authentication frame and last key message of each login, by tshark alone."""
    rows = tshark.read_fields(capture, ("frame.time_epoch", "wlan.fc.type_subtype", "wlan.ta",
                                        "wlan.ra", "eapol.type"))
    spans: list[list[float]] = []
    for time, kind, sender, receiver, eapol in rows:
        if address not in (sender, receiver):
            continue
        if int(kind, 0) == 0x0B and sender == address:
            spans.append([float(time), float(time)])
        elif spans and (eapol == "3" or int(kind, 0) in (0x00, 0x01, 0x02, 0x03)):
            spans[-1][1] = float(time)
    return [(first, last) for first, last in spans]
