"""The supplicant's card is a program: it answers what wpa_supplicant asks of a card elsewhere.

Not the standard library alone: loaded where a policy takes a card.
"""

from __future__ import annotations

from collections.abc import Mapping

from measure.errors import MeasureError
from protocols.aka.milenage import MilenageKey
from protocols.aka.usim import Usim, answer_to_supplicant


class SoftwareCard:
    """A card with the secrets of a run; it lasts as long as the testbed."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._card = Usim(MilenageKey.of(secrets), int(secrets["sqn"]))

    def answer(self, event: str) -> str:
        """The answer to `UMTS-AUTH:RAND:AUTN needed for SSID ...`. Raises MeasureError."""
        try:
            return answer_to_supplicant(self._card, event.partition(" ")[0])
        except ValueError as error:
            raise MeasureError("dot1x", f"the card: {error}") from None
