"""Check the earlier authentications of a measurement, and explain why a measurement failed.

A measurement (repetition) of the study qop2007 may authenticate the mobile node several times.
`check_authentications` verifies each authentication before the last one against the security
policy. `judge.py` checks the last one. `explain_failure` returns the error message of a failed
repetition, with evidence from its captures, such as an unanswered RADIUS request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from measure.capture import tshark
from measure.checks import proof
from measure.checks.observation import Check, Observation
from policies import Policy
from studies.qop2007.settings import Settings

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


def check_authentications(policy: Policy, earlier: Sequence[Observation], last: Observation,
                          settings: Settings) -> Iterator[Check]:
    """Check all authentications of a repetition except the last one.

    The caller checks the last authentication itself.

    Args:
        policy: the security policy that each authentication must apply.
        earlier: captures of the authentications before the last one.
        last: captures of the last authentication.
        settings: the requested numbers of authentications and moves.

    Yields:
        Whether all requested authentications took place, whether each began without earlier state,
        and each check of the policy, combined over the authentications.
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
    of_each = [{check.check: check for check in proof.verify_policy(policy, each)} for each
               in earlier]
    # Authentications that stay at home have fewer checks than those that move.
    names = {moves: {name for each, checks in zip(earlier, of_each, strict=True)
                     if each.moves == moves for name in checks} for moves in (False, True)}
    for name in dict.fromkeys(name for checks in of_each for name in checks):
        yield _combine_checks(name, {
            number: checks.get(name) for number, (each, checks) in enumerate(
                zip(earlier, of_each, strict=True), start=1) if name in names[each.moves]})


def _combine_checks(name: str, checks: Mapping[int, Check | None]) -> Check:
    """Combine the results of one check from several authentications into one check.

    Its detail lists the authentications that failed, or all of them if none failed.
    """
    results = [(check is not None and check.ok,
                f"authentication {number}: {check.detail if check else 'not checked'}")
            for number, check in checks.items()]
    failed = [text for ok, text in results if not ok]
    return Check(f"{name} (earlier authentications)", not failed,
                 "; ".join(failed or [text for _, text in results]))


def _check_clean_start(begun: Sequence[Observation]) -> Check:
    """Check that no authentication could use state that an earlier one had left.

    Such state is an association, cached keys, IPsec SAs or a Mobile IP tunnel of the home agent.
    The tunnel is not checked before the first authentication.
    """
    left = [_describe_left_state(captures.raw.get("left"), with_binding=number > 0)
            for number, captures in enumerate(begun)]
    amiss = [f"authentication {number}: {text}" for number, text in enumerate(left, start=1)
             if text]
    return Check("each authentication starts without earlier state", bool(begun) and not amiss,
                 "; ".join(amiss) or f"before each of {len(begun)}: no association, no cached key, "
                 "no IPsec SA, no tunnel of the agent's")


def _describe_left_state(left: Mapping[str, Any] | None, *, with_binding: bool) -> str:
    """Describe what was left before an authentication, such as SAs and cached keys ("": none)."""
    if left is None:
        return "nobody looked"
    sas = sum(left["sas"].values())
    return ", ".join(filter(None, (
        f"{sas} IPsec SAs" if sas else "", f"{left['keys']} cached keys" if left["keys"] else "",
        f"associated with {', '.join(left['associated'])}" if left["associated"] else "",
        "a leased address" if left.get("addressed") else "",
        "its agent tunnels to it" if with_binding and left["tunnelled"] else "")))


def explain_failure(failure: Mapping[str, str], captures: Observation) -> str:
    """Return the error message of a failed repetition, with evidence from packets and its cause."""
    cause = f"; {failure['cause']}" if failure.get("cause") else ""
    return _add_packet_evidence(failure, failure["reason"].removesuffix(cause), captures) + cause


def _add_packet_evidence(failure: Mapping[str, str], reason: str, captures: Observation) -> str:
    """Add to an error message what the captures show, such as an unanswered RADIUS request."""
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


def _describe_refusal(captures: Observation) -> str:
    """Describe which side ended an EAP authentication that was answered by Access-Reject.

    A TLS alert from the mobile node means that the node refused the server's certificate or TLS
    settings. Otherwise the RADIUS server refused the node.
    """
    sender, alert = _find_alert(captures)
    if sender == captures.mac:
        return (f"the mobile node refused the RADIUS server, by TLS's alert {alert} (Access-Reject "
                "followed)")
    by_alert = f"; the server sent TLS's alert {alert}" if alert else ""
    return f"the RADIUS server rejected the mobile node (Access-Reject){by_alert}"


def _find_alert(captures: Observation) -> tuple[str, str]:
    """Return who sent the last TLS alert (MAC address) and the alert's name, or "" twice."""
    # Before the last authentication, captures of one have a name with its number.
    files = [captures.folder / entry["file"] for entry in captures.raw["captures"]
             if _AT_THE_NODE.fullmatch(entry["file"])]
    file = captures.folder / _LAST if captures.folder / _LAST in files else next(iter(files), None)
    if file is None or not file.exists():
        return "", ""
    sent = [(source, description.partition(",")[0]) for source, description in tshark.read_fields(
        file, ("eth.src", "tls.alert_message.desc"), "tls.alert_message.desc")]
    if not sent:
        return "", ""
    source, number = sent[-1]
    return source, _ALERTS.get(number, f"number {number}")
