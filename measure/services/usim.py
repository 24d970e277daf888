"""Emulate a SIM card (USIM) for EAP-AKA, and answer wpa_supplicant's requests to it.

`SoftwareUsim` takes the secrets of a subscriber. Its `answer_challenge` takes the request
`UMTS-AUTH:RAND:AUTN`, which wpa_supplicant has for an external card, and returns the card's answer.
The computation is in `protocols.aka`. This module needs more than the standard library, so it is
loaded only where a policy needs a card.
"""

from __future__ import annotations

from collections.abc import Mapping

from measure.agent.errors import MeasureError
from protocols.aka.milenage import MilenageKey
from protocols.aka.usim import Usim, answer_to_supplicant


class SoftwareUsim:
    """An emulated SIM card of one subscriber, with the secrets of a run."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._card = Usim(MilenageKey.from_secrets(secrets), int(secrets["sqn"]))

    def answer_challenge(self, event: str) -> str:
        """Return the card's answer to wpa_supplicant's `UMTS-AUTH:RAND:AUTN needed for SSID ...`.

        Raises:
            MeasureError: The request is no valid UMTS authentication.
        """
        try:
            return answer_to_supplicant(self._card, event.partition(" ")[0])
        except ValueError as error:
            raise MeasureError("dot1x", f"the card: {error}") from None
