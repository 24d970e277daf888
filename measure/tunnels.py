"""Check TLS inside EAP: certificates, version, cipher suite and hidden identity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from measure.dissect import Packet
from measure.inside import Inside
from measure.observed import Check, Observed, join_values
from policies.dot1x import TUNNELS, Dot1xLayer

_CLIENT_HELLO, _SERVER_HELLO, _CERTIFICATE, _CERTIFICATE_VERIFY = 1, 2, 11, 15
_VERSIONS = {"1.2": 0x0303, "1.3": 0x0304}
_GROUPS = {"p-256": 23, "x25519": 29}
_IDENTITY = 1
#: Numbers of inner methods: EAP types inside PEAP, attribute codes inside TTLS.
_INNER_TYPES = {"MSCHAPV2": 26}
_INNER_ATTRIBUTES = {"PAP": 2, "MSCHAPV2": 25}
#: ECDHE-ECDSA-AES256-GCM-SHA384 over P-384, the suite of the 192-bit security level.
_SUITE_OF_P384, _CURVE_OF_P384 = 0xC02C, 0x18
_ANONYMOUS = "anonymous"


def verify(layer: Dot1xLayer, stays: Sequence[Sequence[Packet]],
           observed: Observed) -> Iterator[Check]:
    """Yield the checks of TLS inside EAP, or none for a method without TLS.

    Args:
        layer: The policy's 802.1X layer.
        stays: EAPOL packets of each full authentication.
        observed: The results of the repetition.
    """
    if not layer.has_certificate_of_server:
        return
    inside = [[frame for frame in observed.inside if (frame.time_s >= observed.moved_s) == away]
              for away in range(len(stays))]
    resumes = layer.tls is not None and layer.tls.sessions == "resumed"
    yield (_check_resumption(stays, inside, observed) if resumes
           else _check_certificates(layer, stays, inside, observed))
    if layer.tls is not None:
        yield _check_version(layer.tls.version, inside, observed)
        if layer.tls.key == "p-384":
            yield _check_suite(inside, observed)
        if layer.tls.group:
            yield _check_group(layer.tls.group, inside, observed)
    if layer.eap in TUNNELS:
        yield _check_inner_method(layer, inside)
    if layer.identity == _ANONYMOUS:
        identities = {name for stay in inside for frame in stay for name in frame.identities
                      if frame.types[:1] == (_IDENTITY,)}
        yield Check("identity is hidden", identities == {_ANONYMOUS},
                    f"identities in clear: {', '.join(sorted(identities)) or 'none seen'}")


def _check_certificates(layer: Dot1xLayer, stays: Sequence[Sequence[Packet]],
                        inside: Sequence[Sequence[Inside]], observed: Observed) -> Check:
    """Check the certificates, which TLS 1.3 encrypts.

    They are visible if the server's keys decrypt the capture.
    """
    mine, theirs = _handshake_types(stays, inside, observed)
    is_mutual = layer.eap == "TLS"
    has_both = not is_mutual or all({_CERTIFICATE, _CERTIFICATE_VERIFY} <= said for said in mine)
    return Check("mutual authentication" if is_mutual else "server shows its certificate",
                 all(_CERTIFICATE in said for said in theirs) and has_both,
                 "TLS handshake messages: server "
                 f"{join_values([sorted(said) for said in theirs])}, "
                 f"mobile node {join_values([sorted(said) for said in mine])} "
                 f"({_CERTIFICATE} certificate, {_CERTIFICATE_VERIFY} proof of its key)")


def _check_resumption(stays: Sequence[Sequence[Packet]], inside: Sequence[Sequence[Inside]],
                      observed: Observed) -> Check:
    """Check that a TLS session was resumed, without any certificate."""
    mine, theirs = _handshake_types(stays, inside, observed)
    shown = [len({_CERTIFICATE, _CERTIFICATE_VERIFY} & (said | answered))
             for said, answered in zip(mine, theirs, strict=True)]
    hellos = [_SERVER_HELLO in said for said in theirs]
    return Check("session resumed", bool(hellos) and all(hellos) and not any(shown),
                 "TLS handshake messages: server "
                 f"{join_values([sorted(said) for said in theirs])}, "
                 f"mobile node {join_values([sorted(said) for said in mine])} "
                 f"({_CERTIFICATE} certificate, {_CERTIFICATE_VERIFY} proof of its key: "
                 "none where a session is resumed)")


def _handshake_types(stays: Sequence[Sequence[Packet]], inside: Sequence[Sequence[Inside]],
                     observed: Observed) -> tuple[list[set[int]], list[set[int]]]:
    """Return the TLS handshake types of the mobile node and the server, by attachment."""
    mine, theirs = [], []
    for frames, opened in zip(stays, inside, strict=True):
        sent = [*((p.ethernet_src, h) for p in frames for h in p.tls_handshakes),
                *((frame.source, h) for frame in opened for h in frame.handshakes)]
        mine.append({handshake for source, handshake in sent if source == observed.mac})
        theirs.append({handshake for source, handshake in sent if source != observed.mac})
    return mine, theirs


def _check_version(version: str, inside: Sequence[Sequence[Inside]], observed: Observed) -> Check:
    chosen = [{number for frame in stay if frame.source != observed.mac
               and _SERVER_HELLO in frame.handshakes for number in frame.versions}
              for stay in inside]
    expected = _VERSIONS[version]
    return Check(f"TLS {version}", all(numbers == {expected} for numbers in chosen),
                 f"the server chose {join_values([sorted(map(hex, said)) for said in chosen])}, "
                 f"{hex(expected)} expected")


def _check_group(name: str, inside: Sequence[Sequence[Inside]], observed: Observed) -> Check:
    hellos = [[frame for frame in stay if frame.source != observed.mac
               and _SERVER_HELLO in frame.handshakes] for stay in inside]
    groups = {group for stay in hellos for frame in stay for group in frame.groups}
    # A HelloRetryRequest states the group, too (RFC 8446, 4.1.4).
    return Check("TLS group", groups == {_GROUPS[name]} and all(hellos),
                 f"the server chose {sorted(groups)} in {join_values([len(s) for s in hellos])} "
                 "hellos, "
                 f"{_GROUPS[name]} expected")


def _check_suite(inside: Sequence[Sequence[Inside]], observed: Observed) -> Check:
    hellos = [frame for stay in inside for frame in stay if frame.source != observed.mac
              and _SERVER_HELLO in frame.handshakes]
    suites = {suite for frame in hellos for suite in frame.suites}
    curves = {curve for frame in hellos for curve in frame.curves}
    return Check("TLS suite", suites == {_SUITE_OF_P384} and curves == {_CURVE_OF_P384},
                 f"suite {sorted(map(hex, suites))} with curve {sorted(map(hex, curves))}, "
                 f"{hex(_SUITE_OF_P384)} with {hex(_CURVE_OF_P384)} expected")


def _check_inner_method(layer: Dot1xLayer, inside: Sequence[Sequence[Inside]]) -> Check:
    """Check the inner method, decrypted with the server's keys."""
    name = layer.inner or ""
    if layer.eap == "PEAP":
        expected = _INNER_TYPES[name]
        # Without the EAP header: PEAP version 0 omits it inside.
        said = [{data[0] for frame in stay for data in frame.data} for stay in inside]
    else:
        expected = _INNER_ATTRIBUTES[name]
        said = [{code for frame in stay for code in frame.attributes} for stay in inside]
    return Check(f"inner method {name}", all(expected in kinds for kinds in said),
                 f"inside the tunnel: {join_values([sorted(kinds) for kinds in said])}, {expected} "
                 "expected")
