"""Known reasons why a claim that held in 2007 may fail here."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.clock import clock_caveat

_HARDWARE = ("Hardware and daemons of 2007: mobile nodes of 206 and 400 MHz, where public key "
             "operations took seconds that take milliseconds here.")
_UNLIMITED = ("The medium is emulated and the processor not limited to that of a 2007 device: "
              "encryption costs header bytes and their airtime, hardly any time of its own.")
_DETECTION = ("Movement is detected by an event, not by waiting for advertisements, so that "
              "registration with a foreign agent takes milliseconds where the paper has 1.4 s "
              "(--detection advertisement waits, too).")
_SHARE = ("Overhead is a share of the rate here, so its variance over scenarios grows with its "
          "mean; the paper's in N2 is only half of the difference of its throughputs.")

#: Reasons by the claim's number, used where a claim is refuted.
REASONS: Mapping[str, str] = {
    "Q1": f"{_HARDWARE} Without them IKE, with its own public key operations and exchanges, takes "
          "as long as EAP-TLS.",
    "Q2": f"{_HARDWARE} Both negotiations are short here.",
    "Q3": f"{_DETECTION} With 802.1X the sum of Table 4 has the same components in both.",
    "Q4": f"{_HARDWARE} Which of IKE and EAP-TLS is faster depends on key sizes and daemons.",
    "Q5": f"{_HARDWARE} With 802.1X the sum of Table 4 has no registration abroad.",
    "Q6": _HARDWARE,
    "Q7": "The paper does not say which packets it counts. Here EAP-TLS takes 17 with the two "
          "EAPOL-Key frames that deliver WEP keys and 15 without (P6), EAP-MD5 5 from the first "
          "EAP frame to EAP-Success, IKE 9 in main and quick mode.",
    "Q8": "These policies add no byte to a data frame, so a difference to the policy without "
          "security comes from the emulator or from drift within blocks.",
    "Q9": f"{_UNLIMITED} The ratios then follow from header bytes alone.",
    "Q10": _UNLIMITED,
    "Q11": f"{_UNLIMITED} The difference then follows from packet sizes, and from "
           "acknowledgements, which share the air with the data.",
    "Q12": f"{_UNLIMITED} What is left is the share of header bytes, which depends on packet "
           "sizes; the paper does not give its own.",
    "Q13": "The medium: a path that crosses the shared air twice has half of the rate of one that "
           "crosses it once, so the factor is that of the paths measured.",
    "Q14": f"{_UNLIMITED} {_SHARE}",
    "Q15": f"{_UNLIMITED} {_SHARE}",
    "Q16": _HARDWARE,
}
#: Claims on times, for which the share of processor time matters.
_ON_TIME = frozenset(name for name, text in REASONS.items()
                     if _HARDWARE in text or _UNLIMITED in text)


def refutation_reason(claim: str, clock: str, on_devices: str = "") -> str:
    """Return why a claim may fail under this clock, or "" if unknown.

    `on_devices` replaces the reason about hardware where nodes compute on devices.
    """
    first = clock_caveat(clock) if claim in _ON_TIME else ""
    known = REASONS.get(claim, "")
    if on_devices:
        known = known.replace(_HARDWARE, on_devices)
    return " ".join(part for part in (first, known) if part)
