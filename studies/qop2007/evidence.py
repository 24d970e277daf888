"""Evidence of the study: checks of earlier authentications, and reasons of failed repetitions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from measure import fields, in_force
from measure.observed import Check, Observed
from policies import Policy
from studies.qop2007.asked import Asked

#: Captures at the mobile node of any authentication, and of the last one.
_AT_THE_NODE, _LAST = re.compile(r"auth\d*-mn\.pcap"), "auth-mn.pcap"
#: TLS alerts by number (RFC 8446, section 6).
_ALERTS = {"20": "bad record MAC", "40": "handshake failure", "42": "bad certificate",
           "43": "unsupported certificate", "44": "certificate revoked",
           "45": "certificate expired", "46": "certificate unknown", "47": "illegal parameter",
           "48": "unknown CA", "49": "access denied", "50": "decode error", "51": "decrypt error",
           "70": "protocol version", "71": "insufficient security", "80": "internal error",
           "109": "missing extension", "113": "bad certificate status response",
           "116": "certificate required"}


def check_authentications(policy: Policy, earlier: Sequence[Observed], last: Observed,
                          settings: Asked) -> Iterator[Check]:
    """Yield the checks of each authentication before the last one, if there are several.

    The checks of the last one are the repetition's own.
    """
    count = settings.authentications
    if count == 1 and not earlier:
        return
    begun = [*earlier, *([last] if "start" in last.raw["stamps"] else [])]
    moved, moves = sum(each.moves for each in begun), settings.moves if last.moves else 0
    after = f", after {moved} of them a move, {moves} asked for"
    yield Check("authentications", len(begun) == count and moved == moves,
                f"{len(begun)} of {count} took place{after if max(moved, moves) > 1 else ''}")
    yield _check_clean_start(begun)
    of_each = [{check.check: check for check in in_force.verify(policy, each)} for each in earlier]
    # Authentications that stay at home have fewer checks than those that move.
    names = {moves: {name for each, checks in zip(earlier, of_each, strict=True)
                     if each.moves == moves for name in checks} for moves in (False, True)}
    for name in dict.fromkeys(name for checks in of_each for name in checks):
        yield _combine_checks(name, {
            number: checks.get(name) for number, (each, checks) in enumerate(
                zip(earlier, of_each, strict=True), start=1) if name in names[each.moves]})


def _combine_checks(name: str, checks: Mapping[int, Check | None]) -> Check:
    """Combine one check of several authentications.

    The detail lists the failed authentications, or all of them where none failed.
    """
    said = [(check is not None and check.ok,
             f"authentication {number}: {check.detail if check else 'not checked'}")
            for number, check in checks.items()]
    failed = [text for ok, text in said if not ok]
    return Check(f"{name} (earlier authentications)", not failed,
                 "; ".join(failed or [text for _, text in said]))


def _check_clean_start(begun: Sequence[Observed]) -> Check:
    """Check that no authentication began with state of the one before.

    This state is an association, cached keys, IPsec SAs or a tunnel of the agent. Until version 3
    of the study, the first authentication of a repetition could end a binding that an earlier
    repetition had left. Now there is none.
    """
    left = [_describe_left_state(seen.raw.get("left"), with_binding=number > 0)
            for number, seen in enumerate(begun)]
    amiss = [f"authentication {number}: {text}" for number, text in enumerate(left, start=1)
             if text]
    return Check("each authentication from nothing", bool(begun) and not amiss,
                 "; ".join(amiss) or f"before each of {len(begun)}: no association, no cached key, "
                 "no IPsec SA, no tunnel of the agent's")


def _describe_left_state(left: Mapping[str, Any] | None, *, with_binding: bool) -> str:
    """Describe the state that was left before an authentication, with "" for none."""
    if left is None:
        return "nobody looked"
    sas = sum(left["sas"].values())
    return ", ".join(filter(None, (
        f"{sas} IPsec SAs" if sas else "", f"{left['keys']} cached keys" if left["keys"] else "",
        f"associated with {', '.join(left['associated'])}" if left["associated"] else "",
        "its agent tunnels to it" if with_binding and left["tunnelled"] else "")))


def explain_failure(failure: Mapping[str, str], captures: Observed) -> str:
    """Return a failed repetition's reason with packets' evidence, and its cause."""
    cause = f"; {failure['cause']}" if failure.get("cause") else ""
    return _add_packet_evidence(failure, failure["reason"].removesuffix(cause), captures) + cause


def _add_packet_evidence(failure: Mapping[str, str], reason: str, captures: Observed) -> str:
    """Return a reason with the evidence that packets add to it."""
    # RADIUS shows behind the access point in use: the visited one, once the mobile node is there.
    radius = captures.packets_of("auth-foreign") if "foreign_start" in captures.raw["stamps"] \
        else captures.packets_of("auth-wire")
    requests = sum(p.radius_code == 1 for p in radius)
    replies = sum(p.radius_code in (2, 3, 11) for p in radius)
    if failure["stage"] == "dot1x" and requests and not replies:
        return f"{reason}: the RADIUS server answered none of {requests} Access-Requests"
    if any(p.radius_code == 3 for p in radius):
        return f"{reason}: {_describe_refusal(captures)}"
    sent = [p for p in captures.packets_of("auth-air")
            if p.is_data and p.transmitter == captures.mac and p.protected]
    unreadable = [p for p in sent if p.is_decryptable and not p.has_llc]
    if failure["stage"] in ("registration", "data") and unreadable and "wep_key" in captures.raw:
        return (f"{reason}: {len(unreadable)} of its {len(sent)} frames do not decrypt with the "
                "access point's WEP key")
    return reason


def _describe_refusal(captures: Observed) -> str:
    """Return who refused whom, where the RADIUS server sent an Access-Reject.

    If the mobile node ended the TLS handshake by an alert, it refused the server.
    """
    sender, alert = _find_alert(captures)
    if sender == captures.mac:
        return (f"the mobile node refused the RADIUS server, by TLS's alert {alert} (Access-Reject "
                "followed)")
    by_alert = f"; the server sent TLS's alert {alert}" if alert else ""
    return f"the RADIUS server rejected the mobile node (Access-Reject){by_alert}"


def _find_alert(captures: Observed) -> tuple[str, str]:
    """Return who ended a TLS handshake and the alert's name, or "" without an alert."""
    # Before the last authentication, captures of one have a name with its number.
    files = [captures.folder / entry["file"] for entry in captures.raw["captures"]
             if _AT_THE_NODE.fullmatch(entry["file"])]
    file = captures.folder / _LAST if captures.folder / _LAST in files else next(iter(files), None)
    if file is None or not file.exists():
        return "", ""
    sent = [(source, description.partition(",")[0]) for source, description in fields.read_fields(
        file, ("eth.src", "tls.alert_message.desc"), "tls.alert_message.desc")]
    if not sent:
        return "", ""
    source, number = sent[-1]
    return source, _ALERTS.get(number, f"number {number}")
