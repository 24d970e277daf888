"""Check the TLS handshakes inside captured EAP: certificates, keys and inner method.

`check_eap_tunnel` takes a policy's 802.1X layer, and the packets of a repetition (one measurement
of the policy). It yields the checks: certificates, kinds of keys, chain length, fragment sizes,
session resumption, cipher suite and inner EAP method. It yields none for an EAP method without TLS.
TLS 1.3 encrypts certificates, so they are decrypted with keys that the RADIUS server logged.
`measure.checks.layer_checks` uses this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from measure.capture.tshark import Packet
from measure.checks.observation import Check, Observation, join_values
from measure.checks.release import find_daemon_release
from measure.packets.certificate_sizes import KEY_KINDS
from measure.packets.eap import InnerEapFrame
from measure.packets.eap_radius_sizes import NESTED_MARGIN
from measure.packets.eap_tls_sizes import RELEASES
from measure.packets.messages import TLS_GROUPS
from measure.records.judgement import INNER_USER_CHECK
from policies import Dot1xLayer, TlsSettings
from policies.eap_methods import METHODS, TUNNELS

_CLIENT_HELLO, _SERVER_HELLO, _CERTIFICATE, _CERTIFICATE_VERIFY = 1, 2, 11, 15
_COMPRESSED_CERTIFICATE = 25  # RFC 8879
_VERSIONS = {"1.2": 0x0303, "1.3": 0x0304}
#: Signature schemes of TLS by kind of key (draft-ietf-tls-mldsa).
_SIGNATURES = {"ml-dsa-44": 0x0904, "ml-dsa-65": 0x0905, "ml-dsa-87": 0x0906}
_IDENTITY = 1
#: Numbers of inner methods: EAP types inside PEAP, attribute codes inside TTLS.
_INNER_TYPES = {"MSCHAPV2": 26, "GTC": 6, "TLS": METHODS["TLS"].eap_type}
#: MS-CHAP version 1 is MS-CHAP-Challenge without version 2's MS-CHAP2-Response (RFC 2548).
_INNER_ATTRIBUTES = {"PAP": 2, "CHAP": 3, "MSCHAP": 11, "MSCHAPV2": 25}
#: Certificates of a station that has one, with the root.
_CHAIN_WITH_ROOT = 2
#: Field with the length of all fragments.
_LENGTH_BYTES = 4
#: How much shorter a signature of ECDSA may be: two numbers of varying length in DER.
_ECDSA_SHORTER_BYTES = 8
#: Cipher suites of the 192-bit security level with AES256-GCM-SHA384: ECDHE-ECDSA, what TLS 1.3 has
#: in its place, and ECDHE-RSA.
_SUITES_OF_P384 = {"1.2": 0xC02C, "1.3": 0x1302}
_SUITE_OF_RSA = 0xC030
_CURVE_OF_P384 = 0x18
_ANONYMOUS = "anonymous"


def check_eap_tunnel(layer: Dot1xLayer, stays: Sequence[Sequence[Packet]],
                     observed: Observation, *, is_suite_b: bool = False) -> Iterator[Check]:
    """Yield the checks of TLS inside EAP, or none for an EAP method without TLS.

    Args:
        layer: The policy's 802.1X layer.
        stays: EAPOL packets of each full authentication.
        observed: The results of the repetition.
        is_suite_b: Whether the link has the 192-bit suite, which has one cipher suite of TLS.
    """
    if not layer.has_certificate_of_server:
        return
    inside = observed.split_by_attachment(observed.inside)[:len(stays)]
    resumes = layer.tls is not None and layer.tls.sessions == "resumed"
    # A resumed session of TLS 1.2 has no key exchange.
    agrees = layer.tls is not None and not (resumes and layer.tls.version == "1.2")
    yield (_check_resumption(stays, inside, observed) if resumes
           else _check_certificates(layer, stays, inside, observed))
    if layer.tls is not None:
        yield _check_version(layer.tls.version, inside, observed)
        if not resumes:
            yield _check_keys(layer.tls, inside, observed)
            yield _check_chain(layer.tls.chain, inside, observed)
        if layer.tls.fragment_bytes:
            yield _check_fragments(layer, inside, observed)
        if layer.tls.key == "p-384" or is_suite_b:
            suite = _SUITES_OF_P384[layer.tls.version] if layer.tls.key == "p-384" \
                else _SUITE_OF_RSA
            yield _check_suite(suite, inside, observed, agrees=agrees)
        if layer.tls.group and agrees:
            yield _check_group(layer.tls.group, inside, observed)
        if not resumes and not {layer.tls.key, layer.tls.client_key}.isdisjoint(_SIGNATURES):
            yield _check_signatures(layer.tls, inside, observed, is_mutual=layer.eap == "TLS")
    if layer.eap in TUNNELS:
        yield from _check_inside(layer, inside, observed, resumes=resumes)
    if layer.identity == _ANONYMOUS:
        identities = {name for stay in inside for frame in stay for name in frame.identities
                      if frame.types[:1] == (_IDENTITY,)}
        expected = f"{_ANONYMOUS}{layer.realm_suffix}"
        yield Check("identity is hidden", identities == {expected},
                    f"identities in clear: {', '.join(sorted(identities)) or 'none seen'}, "
                    f"{expected} expected")


def _check_certificates(layer: Dot1xLayer, stays: Sequence[Sequence[Packet]],
                        inside: Sequence[Sequence[InnerEapFrame]], observed: Observation) -> Check:
    """Check the TLS certificates that server and station sent inside EAP.

    TLS 1.3 encrypts certificates. They are visible if the server's keys decrypt the capture.
    """
    node_types, server_types = _handshake_types(stays, inside, observed)
    is_mutual = layer.eap == "TLS"
    return Check("mutual authentication" if is_mutual else "server shows its certificate",
                 all(_CERTIFICATE in types for types in server_types)
                 and (not is_mutual or _has_proofs(node_types)),
                 f"TLS handshake messages: {_describe_types(node_types, server_types)}")


def _has_proofs(node_types: Sequence[set[int]]) -> bool:
    """Return whether the mobile node shows its certificate, with proof of its key, each time."""
    return all({_CERTIFICATE, _CERTIFICATE_VERIFY} <= types for types in node_types)


def _describe_types(node_types: Sequence[set[int]], server_types: Sequence[set[int]],
                    expected: str = "") -> str:
    """Describe types of TLS handshake messages, and what is expected of them."""
    return (f"server {join_values([sorted(types) for types in server_types])}, "
            f"mobile node {join_values([sorted(types) for types in node_types])} "
            f"({_CERTIFICATE} certificate, {_CERTIFICATE_VERIFY} proof of its key{expected})")


def _check_inside(layer: Dot1xLayer, inside: Sequence[Sequence[InnerEapFrame]],
                  observed: Observation, *, resumes: bool) -> Iterator[Check]:
    """Yield the checks of the method inside a tunnel."""
    yield _check_inner_method(layer, inside, resumes=resumes)
    if layer.realm_suffix and not resumes:
        yield _check_inner_user(layer.realm_suffix, inside, observed)
    if layer.inner == "TLS" and not resumes:
        yield _check_nested_certificates(observed.nested[:len(inside)], observed)


def _check_inner_user(suffix: str, inside: Sequence[Sequence[InnerEapFrame]],
                      observed: Observation) -> Check:
    """Check that the user's own name inside the tunnel has the realm."""
    names = [{name for frame in stay if frame.source == observed.mac
              for name in frame.inner_names} for stay in inside]
    return Check(INNER_USER_CHECK, bool(names) and all(
        stay and all(name.endswith(suffix) and not name.startswith(_ANONYMOUS) for name in stay)
        for stay in names),
        f"names inside the tunnel: {join_values([sorted(stay) for stay in names])}, each with "
        f"{suffix} expected")


def _check_nested_certificates(nested: Sequence[Sequence[InnerEapFrame]],
                               observed: Observation) -> Check:
    """Check that both ends show certificates in EAP-TLS inside the tunnel."""
    node, server = _handshake_types([[]] * len(nested), nested, observed)
    return Check("mutual authentication inside the tunnel", bool(nested) and _has_proofs(node)
                 and all(_CERTIFICATE in types for types in server),
                 f"TLS handshake messages inside: {_describe_types(node, server)}")


def _check_resumption(stays: Sequence[Sequence[Packet]], inside: Sequence[Sequence[InnerEapFrame]],
                      observed: Observation) -> Check:
    """Check that a TLS session was resumed: the handshake has no certificate."""
    node_types, server_types = _handshake_types(stays, inside, observed)
    shown = [len({_CERTIFICATE, _CERTIFICATE_VERIFY} & (types | answered))
             for types, answered in zip(node_types, server_types, strict=True)]
    hellos = [_SERVER_HELLO in types for types in server_types]
    return Check("session resumed", bool(hellos) and all(hellos) and not any(shown),
                 "TLS handshake messages: " + _describe_types(
                     node_types, server_types, ": none where a session is resumed"))


def _handshake_types(stays: Sequence[Sequence[Packet]], inside: Sequence[Sequence[InnerEapFrame]],
                     observed: Observation) -> tuple[list[set[int]], list[set[int]]]:
    """Return the TLS handshake types that mobile node and server sent, for each attachment.

    An attachment is the time at one access point.
    """
    node_types, server_types = [], []
    for frames, opened in zip(stays, inside, strict=True):
        sent = [*((p.ethernet_src, h) for p in frames for h in p.tls_handshakes),
                *((frame.source, h) for frame in opened for h in frame.handshakes)]
        node_types.append({_to_plain(handshake) for source, handshake in sent
                           if source == observed.mac})
        server_types.append({_to_plain(handshake) for source, handshake in sent
                             if source != observed.mac})
    return node_types, server_types


def _to_plain(handshake: int) -> int:
    """Return the type of a handshake message as though it were not compressed."""
    return _CERTIFICATE if handshake == _COMPRESSED_CERTIFICATE else handshake


def _check_version(version: str, inside: Sequence[Sequence[InnerEapFrame]],
                   observed: Observation) -> Check:
    chosen = [{number for frame in stay if frame.source != observed.mac
               and _SERVER_HELLO in frame.handshakes for number in frame.versions}
              for stay in inside]
    expected = _VERSIONS[version]
    return Check(f"TLS {version}", all(numbers == {expected} for numbers in chosen),
                 f"the server chose {join_values([sorted(map(hex, each)) for each in chosen])}, "
                 f"{hex(expected)} expected")


def _check_group(name: str, inside: Sequence[Sequence[InnerEapFrame]],
                 observed: Observation) -> Check:
    hellos = [[frame for frame in stay if frame.source != observed.mac
               and _SERVER_HELLO in frame.handshakes] for stay in inside]
    groups = {group for stay in hellos for frame in stay for group in _agreed_groups(frame)}
    # A HelloRetryRequest states the group, too (RFC 8446, 4.1.4).
    return Check("TLS group", groups == {TLS_GROUPS[name]} and all(hellos),
                 f"the server chose {sorted(groups)} in {join_values([len(s) for s in hellos])} "
                 f"hellos, {TLS_GROUPS[name]} expected")


def _agreed_groups(hello: InnerEapFrame) -> tuple[int, ...]:
    """Return the groups in a server's hello, or in the key exchange of TLS 1.2 behind it."""
    return (*hello.groups, *hello.curves)


def _check_signatures(tls: TlsSettings, inside: Sequence[Sequence[InnerEapFrame]],
                      observed: Observation, *, is_mutual: bool) -> Check:
    """Check with which kind of key each side signed the handshake (CertificateVerify).

    A station of PEAP or TTLS has no certificate, so the server alone signs. A side with another
    kind of key than ML-DSA must not have signed with ML-DSA.
    """
    by_server = _SIGNATURES.get(tls.key, 0)
    by_node = _SIGNATURES.get(tls.client_key, 0) if is_mutual else None
    used = [[{frame.signatures[-1] for frame in stay if frame.signatures
              and _CERTIFICATE_VERIFY in frame.handshakes
              and (frame.source == observed.mac) == is_node} for is_node in (False, True)]
            for stay in inside]
    return Check("post-quantum certificates", bool(used) and all(
        _is_signed(server, by_server) and _is_signed(node, by_node) for server, node in used),
        "signed with " + "; ".join(f"{sorted(map(hex, server))} by the server, "
                                   f"{sorted(map(hex, node))} by the mobile node"
                                   for server, node in used)
        + f", {_describe_scheme(by_server)} and {_describe_scheme(by_node)} expected")


def _is_signed(schemes: set[int], expected: int | None) -> bool:
    """Return whether a side signed with a scheme: None for no signature, 0 for one of another kind.

    Another kind is any but ML-DSA.
    """
    if expected is None:
        return not schemes
    return schemes == {expected} if expected else len(schemes) == 1 and schemes.isdisjoint(
        _SIGNATURES.values())


def _describe_scheme(expected: int | None) -> str:
    return "none" if expected is None else f"{expected:#06x}" if expected else "another kind"


def _check_keys(tls: TlsSettings, inside: Sequence[Sequence[InnerEapFrame]],
                observed: Observation) -> Check:
    """Check the kind of key of each certificate by the length of the signatures in TLS."""
    sizes = [[(size, tls.client_key if frame.source == observed.mac else tls.key)
              for frame in stay for size in frame.signatures_bytes] for stay in inside]
    expected = [f"{_describe_signature(key)} expected of {key}" for key
                in dict.fromkeys((tls.key, tls.client_key))]
    return Check("TLS certificate keys", all(stay and all(
        _least_signature(key) <= size <= KEY_KINDS[key].signature for size, key in stay)
        for stay in sizes),
        f"signatures in TLS have {join_values([[size for size, _ in stay] for stay in sizes])} "
        f"bytes, {' of the server, '.join(expected)}")


def _least_signature(key: str) -> int:
    return KEY_KINDS[key].signature - _ECDSA_SHORTER_BYTES * key.startswith("p-")


def _describe_signature(key: str) -> str:
    low, high = _least_signature(key), KEY_KINDS[key].signature
    return f"{low} to {high}" if high > low else f"{low}"


def _check_chain(expected: int, inside: Sequence[Sequence[InnerEapFrame]],
                 observed: Observation) -> Check:
    """Check how many certificates each side sends.

    The station's OpenSSL adds the root to a certificate that the root itself has signed.
    """
    chains = [[(len(frame.certificates), frame.source == observed.mac) for frame in stay
               if _CERTIFICATE in frame.handshakes] for stay in inside]
    return Check("TLS certificate chain", all(stay and all(
        count == (max(expected, _CHAIN_WITH_ROOT) if is_node else expected)
        for count, is_node in stay) for stay in chains),
        f"{join_values([[count for count, _ in stay] for stay in chains])} certificates in the "
        f"messages with them, {expected} expected, and the root of a station with one")


def _check_fragments(layer: Dot1xLayer, inside: Sequence[Sequence[InnerEapFrame]],
                     observed: Observation) -> Check:
    """Check the length of the EAP packets into which the server divides TLS.

    FreeRADIUS of later Debian releases leaves a margin, but not in PEAP. That of each release does
    in PEAP with EAP-TLS inside.
    """
    release = RELEASES.get(find_daemon_release(observed.raw, "freeradius"))
    expected_bytes = (layer.tls.fragment_bytes or 0) if layer.tls else 0
    expected_bytes -= (release.fragment_margin if release and layer.eap != "PEAP" else 0) + (
        NESTED_MARGIN * (layer.inner == "TLS"))
    full = [sorted({frame.size_bytes for frame in stay if frame.has_more
                    and frame.source != observed.mac}) for stay in inside]
    longest = max((frame.size_bytes for stay in inside for frame in stay
                   if frame.source != observed.mac), default=0)
    # The first one of PEAP and TTLS alone has the length of all.
    return Check("TLS fragments", 0 < longest <= expected_bytes and all(
        not sizes or (sizes[-1] == expected_bytes and sizes[0] >= expected_bytes - _LENGTH_BYTES)
        for sizes in full),
        f"the server's EAP packets with more to come have {join_values(full)} bytes, the longest "
        f"has {longest}; {expected_bytes} expected")


def _check_suite(suite: int, inside: Sequence[Sequence[InnerEapFrame]],
                 observed: Observation, *, agrees: bool) -> Check:
    """Check the cipher suite of the 192-bit level, and P-384 if the handshake agrees on a key."""
    hellos = [frame for stay in inside for frame in stay if frame.source != observed.mac
              and _SERVER_HELLO in frame.handshakes]
    suites = {suite for frame in hellos for suite in frame.suites}
    curves = {curve for frame in hellos for curve in _agreed_groups(frame)}
    due = {_CURVE_OF_P384} if agrees else set()
    return Check("TLS suite", suites == {suite} and curves == due,
                 f"suite {sorted(map(hex, suites))} with curve {sorted(map(hex, curves))}, "
                 f"{hex(suite)} with {sorted(map(hex, due))} expected")


def _check_inner_method(layer: Dot1xLayer, inside: Sequence[Sequence[InnerEapFrame]], *,
                        resumes: bool) -> Check:
    """Check the inner EAP method, decrypted with the server's TLS keys.

    A resumed session has none.
    """
    name = layer.inner or ""
    if layer.eap == "PEAP":
        expected = _INNER_TYPES[name]
        # Without the EAP header: PEAP version 0 omits it inside.
        values = [{data[0] for frame in stay for data in frame.data} for stay in inside]
    else:
        expected = _INNER_ATTRIBUTES[name]
        values = [{code for frame in stay for code in frame.attributes
                   if code in _INNER_ATTRIBUTES.values()} for stay in inside]
        if name == "MSCHAP":
            values = [codes - ({expected} if _INNER_ATTRIBUTES["MSCHAPV2"] in codes else set())
                      for codes in values]
    found = f"inside the tunnel: {join_values([sorted(kinds) for kinds in values])}, {expected}"
    if resumes:
        return Check("no inner method in a resumed session",
                     not any(expected in kinds for kinds in values), f"{found} not expected")
    return Check(f"inner method {name}", all(expected in kinds for kinds in values),
                 f"{found} expected")
