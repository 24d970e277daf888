"""Limits of applications on delay, loss, rate and protection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from studies.qop2007.report.calls import G711, CallPackets
from studies.study import StudyError

#: Thresholds of the 2007 paper (6.1, after Zhai, Chen and Fang 2005), in seconds. Up to the first
#: no delay is audible. Up to the second there is quality of service. Beyond the third no
#: communication is possible.
INAUDIBLE_S, SERVICE_S, POSSIBLE_S = 0.15, 0.40, 0.60
#: Loss that real-time services tolerate (6.3, 6.5): streams 1 percent, voice up to 3 percent.
STREAM_LOSS, VOICE_LOSS = 0.01, 0.03
#: Rate of a voice call in bit/s (6.2).
CALL_BPS = 64e3
#: Rate of a video conference in bit/s. The paper names none. This is six channels of 64 kbit/s
#: (H.320).
VIDEO_BPS = 384e3
#: Time between two network changes of a user (s). The paper has no number. A person who walks past
#: access points changes about once a minute.
BETWEEN_MOVES_S = 60.0


@dataclass(frozen=True)
class Limits:
    """Limits of an application, with None where it has none.

    - `delay_s`: interruption in seconds
    - `loss`: share of packets
    - `rate_bps`: rate of one stream in bit/s
    - `sigma`: normalised sigma in percent
    - `between_moves_s`: seconds from one handoff to the next
    - `stream`: transport protocol of the data
    - `packets`: packets of a call, if the application has calls
    """

    name: str
    title: str
    delay_s: float | None = None
    loss: float | None = None
    rate_bps: float | None = None
    sigma: float | None = None
    between_moves_s: float = BETWEEN_MOVES_S
    stream: Literal["tcp", "udp"] = "udp"
    packets: CallPackets | None = None

    @property
    def words(self) -> str:
        """Return the limits in words."""
        said = [f"an interruption of {self.delay_s:g} s at most" if self.delay_s else "",
                f"packets lost in handoffs {100 * self.loss:g} % at most, with a handoff every "
                f"{self.between_moves_s:g} s" if self.loss else "",
                f"{self.rate_bps / 1e3:g} kbit/s" if self.rate_bps else "",
                f"sigma of {self.sigma:g} % at least" if self.sigma else ""]
        return ", ".join(part for part in said if part) or "no limits"


APPLICATIONS: Mapping[str, Limits] = {
    limits.name: limits for limits in (
        Limits("voice", "Voice calls", SERVICE_S, VOICE_LOSS, CALL_BPS, packets=G711),
        Limits("video", "Video conferences", SERVICE_S, STREAM_LOSS, VIDEO_BPS),
        Limits("file-transfer", "E-mail, web and file transfer", stream="tcp"))}
_KEYS = {"delay": "delay_s", "loss": "loss", "rate": "rate_bps", "sigma": "sigma",
         "moves": "between_moves_s"}


def limits_of(text: str) -> Limits:
    """Return the limits of an application by name, or parse limits.

    An example is `delay=0.2,loss=0.01,sigma=50`. Keys are delay and moves (seconds), loss (a
    share), rate (bit/s) and sigma (percent). Raises StudyError with a one-line message for other
    keys and values.
    """
    known = APPLICATIONS.get(text.strip().lower().replace(" ", "-"))
    if known is not None:
        return known
    names = ", ".join(APPLICATIONS)
    given: dict[str, float] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in _KEYS:
            raise StudyError(f"no application {text!r}; give one of {names}, or limits such as "
                             f"delay=0.2,loss=0.01 (keys: {', '.join(_KEYS)})")
        given[_KEYS[key]] = _parse_positive(key, value)
    return Limits("own", "Limits of one's own", **given)  # type: ignore[arg-type]


def _parse_positive(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise StudyError(f"{key}={value} is not a limit; give a number above 0")
    return number


def grade_interruption(delay_s: float) -> str:
    """Describe an interruption of a conversation, by the paper's thresholds."""
    steps = ((INAUDIBLE_S, "not audible"), (SERVICE_S, "with quality of service"),
             (POSSIBLE_S, "poor"))
    return next((word for limit, word in steps if delay_s <= limit), "not possible")
