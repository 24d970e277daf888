"""Check that a RADIUS server refuses a revoked client certificate, by CRL or OCSP.

Once in a testbed, a station's revoked certificate is tried from the access point
(`measure.services.revocation`). `check_revocation` takes the method ("crl" or "ocsp") and the
captures of a repetition (one measurement of a policy), and yields checks. The server must refuse
the certificate because it is revoked. With OCSP, each full authentication must have an OCSP request
about the station's certificate and the answer "good" (`OcspExchange`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure.capture import tshark
from measure.capture.tcpdump import AUTH, MOVE, OCSP_POINTS, OCSP_PORT
from measure.checks.observation import Check, Observation, join_values
from measure.packets import eap
from measure.packets.eap import InnerEapFrame

#: Captures of the attempt with a revoked certificate: behind the access point, and of OCSP.
_REVOKED, _REVOKED_OCSP = "port-revoked", "port-ocsp"
_ACCESS_REQUEST, _ACCESS_REJECT = 1, 3
_ANSWERS = {0: "no answer", 2: "Access-Accept", 3: "Access-Reject", 11: "Access-Challenge"}
#: Status of a certificate in OCSP (RFC 6960, 4.2.1), and of a response that has one.
_GOOD, _CERTIFICATE_REVOKED, _SUCCESSFUL = 0, 1, 0
_STATES = {_GOOD: "good", _CERTIFICATE_REVOKED: "revoked", 2: "unknown"}
#: Cause that FreeRADIUS logs for a certificate on the CRL.
_BY_LIST = "certificate revoked"
_NAMES = ("frame.time_epoch", "tcp.srcport", "tcp.dstport", "ocsp.serialNumber", "ocsp.certStatus",
          "ocsp.responseStatus", "ocsp.ReOcspNonce")


@dataclass(frozen=True)
class OcspExchange:
    """An OCSP request and its answer: times (s), serial number, and status of the certificate."""

    asked_s: float
    answered_s: float
    serial: int
    status: int


def check_revocation(method: str, observed: Observation) -> Iterator[Check]:
    """Yield the checks of revoked certificates.

    Args:
        method: How the server finds them: "crl" or "ocsp".
        observed: The results of the repetition.
    """
    yield _check_refusal(method, observed)
    if method == "ocsp":
        yield _check_responses(observed)


def _check_refusal(method: str, observed: Observation) -> Check:
    """Check that the server refuses a certificate because it is revoked."""
    file, raw = observed.capture_path(_REVOKED), observed.raw.get("revocation", {})
    frames = eap.read_inner_eap_frames(file, raw.get("tls_keys", ())) if file.exists() else []
    shown = _shown_serials([frame for frame in frames if frame.radius_code == _ACCESS_REQUEST])
    answer = frames[-1].radius_code if frames else 0
    own = _shown_serials([frame for frame in observed.inside if frame.source == observed.mac])
    if method == "ocsp":
        found = [exchange.status for exchange in _read_exchanges(
            [observed.capture_path(_REVOKED_OCSP)]) if exchange.serial in shown]
        is_reason = bool(found) and set(found) == {_CERTIFICATE_REVOKED}
        reason = f"OCSP: {', '.join(_STATES.get(status, str(status)) for status in found) or '-'}"
    else:
        is_reason = _BY_LIST in raw.get("cause", "")
        reason = f"the server's log: {raw.get('cause') or '-'}"
    return Check("revoked certificate is refused", bool(shown) and not set(shown) & set(own)
                 and answer == _ACCESS_REJECT and is_reason,
                 f"once in this testbed, certificate {_join_serials(shown)} in place of "
                 f"{_join_serials(own)}: {_ANSWERS.get(answer, answer)}; {reason}")


def _check_responses(observed: Observation) -> Check:
    """Check that each full authentication has an answer about the station's certificate."""
    parts = (AUTH,) if observed.part else (AUTH, MOVE)
    exchanges = _read_exchanges([observed.capture_path(f"{part}-{point}")
                                 for part in parts for point in OCSP_POINTS])
    holds, texts = [], []
    for stay in observed.select_full(observed.split_by_attachment(observed.inside)):
        shown = [frame for frame in stay if frame.source == observed.mac and frame.serials]
        serials = _shown_serials(shown)
        ends_s = max((frame.time_s for frame in stay), default=0.0)
        fitting = [exchange for exchange in exchanges if exchange.serial in serials
                   and shown[0].time_s <= exchange.asked_s and exchange.answered_s <= ends_s]
        holds.append(bool(fitting) and all(each.status == _GOOD for each in fitting))
        texts.append(", ".join(
            f"certificate {exchange.serial:#x} is {_STATES.get(exchange.status, exchange.status)} "
            f"{(exchange.answered_s - exchange.asked_s) * 1e3:.2f} ms later at the responder"
            for exchange in fitting) or f"no answer about certificate {_join_serials(serials)}")
    return Check("OCSP response is good", bool(holds) and all(holds), join_values(texts))


def _shown_serials(frames: Sequence[InnerEapFrame]) -> list[int]:
    """Return the serial numbers of the leaf certificates that frames carry, once each."""
    return list(dict.fromkeys(frame.serials[0] for frame in frames if frame.serials))


def _join_serials(serials: Sequence[int]) -> str:
    return ", ".join(map(hex, serials)) or "none"


def _read_exchanges(files: Sequence[Path]) -> list[OcspExchange]:
    """Return the OCSP requests of captures that have a successful answer with their nonce."""
    found = []
    for file in files:
        asked: dict[str, tuple[float, int, str]] = {}
        rows = tshark.read_fields(file, _NAMES, "ocsp", options=[
            "-d", f"tcp.port=={OCSP_PORT},http"]) if file.exists() else []
        for row in rows:
            fields = dict(zip(_NAMES, row, strict=True))
            serial = tshark.first_value(fields["ocsp.serialNumber"])
            if not serial:
                continue
            time_s, nonce = float(fields["frame.time_epoch"]), fields["ocsp.ReOcspNonce"]
            if fields["tcp.dstport"] == str(OCSP_PORT):
                asked[fields["tcp.srcport"]] = (time_s, int(serial, 16), nonce)
                continue
            request = asked.pop(fields["tcp.dstport"], None)
            status = tshark.parse_number(fields["ocsp.certStatus"])
            if request is not None and status is not None \
                    and tshark.parse_number(fields["ocsp.responseStatus"]) == _SUCCESSFUL \
                    and request[1:] == (int(serial, 16), nonce):
                found.append(OcspExchange(request[0], time_s, request[1], status))
    return found
