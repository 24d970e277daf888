"""Revoked certificates and OCSP, judged from packets of FreeRADIUS and `openssl ocsp`."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from measure.checks import observation, revocation
from measure.checks.computed_packets import describe_login
from measure.packets import eap
from measure.packets.certificate_sizes import authority_names
from measure.services.revocation import ask_server
from policies import Layers
from topologies.loader import load_scenario

RECORDED = Path(__file__).parents[1] / "recorded" / "revocation"
RAW: Mapping[str, Mapping[str, Any]] = json.loads((RECORDED / "raw.json").read_text())
REFUSED, GOOD = "revoked certificate is refused", "OCSP response is good"


def judge(folder: Path, method: str, without: str = "", instead: str = "", moved_s: float = 0.0,
          **raw: Any) -> dict[str, revocation.Check]:
    """Return the checks of a recorded repetition, changed in one point.

    `without` names a capture that is left out, and `instead` one that takes its place.
    """
    for file in RECORDED.glob(f"{method}-*.pcap"):
        name = file.name.removeprefix(f"{method}-")
        source = RECORDED / instead if name == f"{without}.pcap" else file
        if instead or name != f"{without}.pcap":
            shutil.copy(source, folder / name)
    values = {**RAW[method], **raw}
    built = observation.build_observation(load_scenario("N2"), values, {})
    inside = eap.read_inner_eap_frames(folder / "auth-mn.pcap", values["tls_keys"])
    inside = [replace(frame, time_s=frame.time_s + moved_s) for frame in inside]
    seen = replace(built, folder=folder, inside=inside)
    return {check.check: check for check in revocation.check_revocation(method, seen)}


def test_refusal_by_list_and_by_responder_are_proven(tmp_path: Path) -> None:
    """The certificate that is tried is another one than the station's own."""
    for method, names in (("crl", [REFUSED]), ("ocsp", [REFUSED, GOOD])):
        (folder := tmp_path / method).mkdir()
        found = judge(folder, method)
        assert [*found] == names
        assert all(check.ok for check in found.values()), found
    assert "Access-Reject; OCSP: revoked" in found[REFUSED].detail
    assert "is good 0.0" in found[GOOD].detail


@pytest.mark.parametrize(("method", "changes", "fails"), [
    ("crl", {"without": "port-revoked"}, {REFUSED}),
    ("crl", {"without": "port-revoked", "instead": "ocsp-port-revoked.pcap"}, {REFUSED}),
    ("crl", {"revocation": {**RAW["crl"]["revocation"], "cause": "certificate has expired"}},
     {REFUSED}),
    ("crl", {"revocation": {**RAW["crl"]["revocation"], "tls_keys": []}}, {REFUSED}),
    ("ocsp", {"without": "port-ocsp"}, {REFUSED}),
    ("ocsp", {"without": "port-ocsp", "instead": "ocsp-auth-ocsp.pcap"}, {REFUSED}),
    ("ocsp", {"without": "auth-ocsp"}, {GOOD}),
    ("ocsp", {"without": "auth-ocsp", "instead": "ocsp-port-ocsp.pcap"}, {GOOD}),
    ("ocsp", {"moved_s": -60.0}, {GOOD})],
    ids=["not tried", "another authentication", "another reason", "certificate not readable",
         "responder not asked", "asked about another one", "no exchange", "of the revoked one",
         "after the authentication"])
def test_what_does_not_show_the_refusal_is_no_proof(
        tmp_path: Path, method: str, changes: dict[str, Any], fails: set[str]) -> None:
    """Each check needs the certificate, the answer and the reason."""
    found = judge(tmp_path, method, **changes)
    assert {name for name, check in found.items() if not check.ok} == fails


def test_accepted_certificate_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            ) -> None:
    """As with the control `unread-crl`."""
    read = eap.read_inner_eap_frames
    monkeypatch.setattr(eap, "read_inner_eap_frames", lambda file, keys: [
        replace(frame, radius_code=eap.ACCESS_ACCEPT) if frame.radius_code == 3 else frame
        for frame in read(file, keys)])
    check = judge(tmp_path, "crl")[REFUSED]
    assert not check.ok
    assert "Access-Accept" in check.detail


def test_server_that_checks_revocation_names_all_authorities() -> None:
    """It has to know the issuer of a list; the names are in its CertificateRequest."""
    assert authority_names("rsa-2048", 2) == ["root", "qop"]
    for revoked, names in (({}, ["root"]), ({"revocation": "crl"}, ["root", "qop1", "qop2"])):
        layers = Layers.model_validate({"dot1x": {"eap": "TLS", "tls": {"chain": 3, **revoked}}})
        login = describe_login(layers, server="ha-a", user="mobile-node")
        assert login is not None
        assert login.authority_names == names


def test_late_answer_to_an_earlier_request_is_passed_over() -> None:
    """A server that answers request 1 twice has not answered request 2 by that."""
    client, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with client, server:
        client.settimeout(0.2)
        server.send(b"\x0b\x01late")
        server.send(b"\x0b\x02right")
        assert ask_server(client, b"\x01\x02") == b"\x0b\x02right"
        server.send(b"\x0b\x01late")
        assert ask_server(client, b"\x01\x02") == b""
