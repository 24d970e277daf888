"""Define input and output of the rules by which `qop explain` finds causes.

A rule is a function that looks in a capture for one cause of a slow or failed negotiation
(`causes.py`). A negotiation is all messages of one station that joins or roams, or of one tunnel
that is set up. The rule gets the negotiation as `Evidence`, with its waits and repeated messages.
It returns a `Finding` for each occurrence of the cause: name, text, frames, and the time that it
cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from measure.explain.frames import FrameReference
from measure.explain.messages import Message
from measure.explain.negotiations import Negotiation
from measure.explain.timing import Gap, Repeated

#: Length of an EAP message from which its RADIUS or 802.11 packet may be too large, in bytes.
LARGE_EAP_BYTES = 1000


@dataclass(frozen=True)
class Finding:
    """A cause of a slow or failed negotiation, as a rule found it in a capture.

    - `cause`: name of the cause, as in docs/explain-causes.md
    - `text`: what the capture shows of it
    - `frames`: the frames that show it
    - `cost_s`: how much time it cost, in s
    """

    cause: str
    text: str
    frames: tuple[FrameReference, ...]
    cost_s: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """A negotiation in which rules look for causes, with its gaps and repeated messages.

    A gap is a long time between two messages. Gaps before repeated messages are left out, because
    rules of their own explain them.
    """

    negotiation: Negotiation
    gaps: Sequence[Gap]
    repeated: Sequence[Repeated]

    def again_of(self, *phases: str) -> list[Repeated]:
        """Return the messages of these phases that a node sent again, without retries of 802.11."""
        return [each for each in self.repeated if each.again.phase in phases and not each.is_link]


def list_frames(*of: Message) -> tuple[FrameReference, ...]:
    """Return references to the frames of messages, once each."""
    return tuple(dict.fromkeys(each.frame.reference for each in of))


def finding_from_gap(cause: str, text: str, gap: Gap) -> Finding:
    """Return a finding about a gap between two messages. Its text begins with the gap's length."""
    frames = gap.begin.reference, gap.end.reference
    return Finding(cause, f"{gap.duration_s:.3f} s {text}", frames, gap.duration_s)
