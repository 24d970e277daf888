"""Check that captured EAP and RADIUS packets have the number and sizes that were computed.

`describe_login` takes a policy's layers, and returns what decides the packets: certificates, keys,
TLS version, fragment size and the access point's name. `measure.packets.eap_radius_sizes` computes
the packets from these values. `check_computed_packets` compares them with the EAP packets of a
repetition (one measurement of a policy), and `check_computed_radius` with its RADIUS packets. The
command `./qop cost` uses `describe_login`, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from measure.capture import tshark
from measure.checks.observation import Check, Observation, join_values
from measure.packets.certificate_sizes import authority_names, chain_bytes
from measure.packets.eap_radius_sizes import (
    describe_difference,
    describe_radius_difference,
    measure_request,
    measure_vlan,
)
from measure.packets.eap_tls_sizes import RELEASES, EapLogin
from policies import Layers

#: EAP type of an identity.
_IDENTITY = 1
#: Methods whose packets are computed.
_METHODS = frozenset(("TLS", "PEAP", "TTLS", "MD5"))
#: Methods after whose refused offer FreeRADIUS makes shorter fragments.
_TLS_METHODS = frozenset(("TLS", "PEAP", "TTLS"))
#: Option of wpa_supplicant that divides the station's TLS data.
_FRAGMENT_OPTION = "fragment_size"
#: Options of hostapd that change attributes of its requests.
_REQUEST_OPTIONS = ("radius_", "disable_pmksa_caching")


def describe_login(layers: Layers, *, server: str, user: str, node: str = "",
                   release: str = "bookworm", access_point: str = "ap-1",
                   ssid: str = "campus",
                   openssl: tuple[str, str] = ("", "")) -> EapLogin | None:
    """Return the inputs of a policy's EAP authentication.

    Returns None for what is not computed: methods without TLS, but for EAP-MD5, a method after a
    refused offer of another one with TLS, options of the daemons, but for the station's
    fragment_size, other authentication servers, and daemons of unknown releases.

    Args:
        layers: The policy's layers.
        server: Name of the node with the RADIUS server.
        user: Identity of the station's user.
        node: Name of the station. Its certificate has this name if the policy has no `tls`.
        release: Debian release of the RADIUS server, and of the other daemons by default.
        access_point: Name of the access point.
        ssid: Name of its network.
        openssl: Debian releases of the OpenSSL that the RADIUS server and the station use, "" for
            `release`.
    """
    layer, link = layers.dot1x, layers.link
    of_server, of_station = (library or release for library in openssl)
    if (layer is None or layers.aaa is not None or layer.options.hostapd
            or not {*layer.options.wpa_supplicant} <= {_FRAGMENT_OPTION}
            or not {layer.eap, layer.first_offer} <= _METHODS
            or not {release, of_server, of_station} <= RELEASES.keys()
            or layer.first_offer in _TLS_METHODS - {layer.eap}
            or (link is not None and any(name.startswith(_REQUEST_OPTIONS)
                                         for name in link.options.hostapd))):
        return None
    tls = layer.tls
    key, chain = (tls.key, tls.chain) if tls else ("rsa-2048", 2)
    client_key = tls.client_key if tls else key
    name = f"{user}{layer.realm_suffix}"
    has_wpa = link is not None and not link.is_wep
    if (layer.inner == "TLS" and tls is not None and tls.version == "1.3"
            and RELEASES[of_server].compression and RELEASES[of_station].compression):
        return None  # inside the tunnel, nobody sees how short compressed certificates are
    return EapLogin(
        chain_bytes(key, chain, (tls.certified_name if tls else "") or server, is_server=True),
        chain_bytes(client_key, chain, name if tls else node or name, is_server=False),
        server_key=key, client_key=client_key, version=tls.version if tls else "1.2",
        group=(tls.group if tls else None) or ("p-384" if key == "p-384" or layers.is_suite_b
                                               else "p-256"),
        is_resumed=bool(tls and tls.sessions == "resumed"),
        fragment_bytes=(tls.fragment_bytes if tls else None) or 1024,
        client_fragment_bytes=int(layer.options.wpa_supplicant.get(_FRAGMENT_OPTION, 1398)),
        identity=f"anonymous{layer.realm_suffix}" if layer.identity == "anonymous" else name,
        admits_weak=tls is not None,
        is_suite_b=layers.is_suite_b,
        # To find an issuer's list or responder, the server has to know the issuer.
        authority_names=authority_names(key, chain if tls and tls.revocation else 1),
        release=release, method=layer.eap, inner=layer.inner or "", first_offer=layer.first_offer,
        user=name, accept_bytes=measure_vlan((link.vlan or 0) if link is not None else 0),
        request_bytes=measure_request(
            access_point, ssid, has_wpa=has_wpa,
            is_rsn=has_wpa and link is not None and link.cipher != "TKIP",
            is_protected=has_wpa and link is not None and bool(link.pmf),
            is_fast=link is not None and link.roaming in ("ft", "ft-pull")),
        server_openssl=openssl[0], station_openssl=openssl[1])


def check_computed_packets(observed: Observation) -> Check:
    """Check that EAP packets have the number and sizes that certificates and fragments make.

    A request for the identity may be repeated before the authentication begins.
    """
    expected = observed.select_full(observed.computed_logins)
    captured = _last_logins(observed)
    faults = [describe_difference(login, packets) if packets else "none completed"
              for login, packets in zip(expected, captured, strict=True)]
    return Check("EAP packets as computed", not any(faults),
                 "; ".join(filter(None, faults)) or
                 f"{join_values([len(packets) for packets in captured])} packets of "
                 f"EAP-{expected[0].method}, each as long as certificates, keys and fragments "
                 "make it")


def check_computed_radius(observed: Observation) -> Check:
    """Check that RADIUS packets have the number and sizes that EAP and the access point make."""
    expected = observed.select_full(observed.computed_logins)
    exchanges = [[messages for ended_s, messages in observed.radius_logins
                  if (ended_s >= observed.moved_s) == away] for away in range(len(expected))]
    faults = [describe_radius_difference(login, packets, each[-1]) if each else "none accepted"
              for login, packets, each in zip(expected, _last_logins(observed), exchanges,
                                              strict=True)]
    return Check("RADIUS packets as computed", not any(faults),
                 "; ".join(filter(None, faults)) or
                 f"{join_values([len(each[-1]) for each in exchanges])} packets behind the "
                 "access point, each as long as EAP and the access point's attributes make it")


def _last_logins(observed: Observation) -> list[Sequence[bytes]]:
    """Return the EAP packets of the last authentication at each access point.

    The packets of an access point are empty if no authentication took place there.
    """
    count = len(observed.select_full(observed.computed_logins))
    logins = [[packets for ended_s, packets in observed.logins
               if (ended_s >= observed.moved_s) == away] for away in range(count)]
    return [last_conversation(each[-1]) if each else () for each in logins]


def last_conversation(packets: Sequence[bytes]) -> Sequence[bytes]:
    """Return the EAP packets, beginning with the last request for the identity."""
    begins = [place for place, packet in enumerate(packets)
              if packet[0] == tshark.EAP_REQUEST and packet[4:5] == bytes((_IDENTITY,))]
    return packets[begins[-1] if begins else 0:]
