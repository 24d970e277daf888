"""Software USIM: answer wpa_supplicant's requests to an external card.

Not standard library only, so it is loaded only where a policy needs a card.
"""

from __future__ import annotations

from collections.abc import Mapping

from measure.errors import MeasureError
from protocols.aka.milenage import MilenageKey
from protocols.aka.usim import Usim, answer_to_supplicant


class SoftwareCard:
    """A subscriber's card with the secrets of a run, for one testbed."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._card = Usim(MilenageKey.from_secrets(secrets), int(secrets["sqn"]))

    def answer_challenge(self, event: str) -> str:
        """Return the answer to `UMTS-AUTH:RAND:AUTN needed for SSID ...`.

        Raises:
            MeasureError: The request is no valid UMTS authentication.
        """
        try:
            return answer_to_supplicant(self._card, event.partition(" ")[0])
        except ValueError as error:
            raise MeasureError("dot1x", f"the card: {error}") from None
