"""Check that captured EAP-TLS packets have the number and sizes that were computed beforehand.

`describe_login` takes a policy's layers, and returns what decides the packets: certificates, keys,
TLS version and fragment size. `measure.packets.eap_tls_sizes` computes the packets from these
values. `check_computed_packets` compares them with the packets of a repetition (one measurement of
a policy), and returns one check. The command `./qop cost` uses `describe_login`, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from measure.capture import tshark
from measure.checks.observation import Check, Observation, join_values
from measure.packets.eap_tls_sizes import (
    RELEASES,
    EapTlsLogin,
    authority_names,
    chain_bytes,
    compute_packets,
    describe_difference,
)
from policies import DaemonOptions, Layers

#: EAP type of an identity.
_IDENTITY = 1


def describe_login(layers: Layers, *, server: str, user: str, node: str = "",
                   release: str = "bookworm") -> EapTlsLogin | None:
    """Return the inputs of a policy's EAP-TLS authentication.

    Returns None for another EAP method, and for what is not computed: options of the daemons, other
    authentication servers, other first offers than EAP-MD5, daemons of other releases.

    Args:
        layers: The policy's layers.
        server: Name of the node with the RADIUS server.
        user: Identity of the station's user.
        node: Name of the station. Its certificate has this name if the policy has no `tls`.
        release: Debian release of the daemons.
    """
    layer, link = layers.dot1x, layers.link
    if (layer is None or layer.eap != "TLS" or layers.aaa is not None
            or layer.first_offer not in ("TLS", "MD5") or layer.options != DaemonOptions()
            or release not in RELEASES):
        return None
    tls = layer.tls
    key, chain = (tls.key, tls.chain) if tls else ("rsa-2048", 2)
    name = f"{user}{layer.realm_suffix}"
    return EapTlsLogin(
        chain_bytes(key, chain, (tls.certified_name if tls else "") or server, is_server=True),
        chain_bytes(key, chain, name if tls else node or name, is_server=False),
        server_key=key, client_key=key, version=tls.version if tls else "1.2",
        group=(tls.group if tls else None) or ("p-384" if key == "p-384" else "p-256"),
        is_resumed=bool(tls and tls.sessions == "resumed"),
        fragment_bytes=(tls.fragment_bytes if tls else None) or 1024,
        identity=f"anonymous{layer.realm_suffix}" if layer.identity == "anonymous" else name,
        admits_weak=tls is not None and key != "p-384",
        is_suite_b=link is not None and link.akm == "suite-b-192",
        offers_md5=layer.first_offer == "MD5", release=release,
        # To find an issuer's list or responder, the server has to know the issuer.
        authority_names=authority_names(key, chain if tls and tls.revocation else 1))


def check_computed_packets(observed: Observation) -> Check:
    """Check that EAP packets have the number and sizes that certificates and fragments make.

    A request for the identity may be repeated before the authentication begins.
    """
    expected = observed.select_full(observed.computed_logins)
    logins = [[packets for ended_s, packets in observed.logins
               if (ended_s >= observed.moved_s) == away] for away in range(len(expected))]
    faults = [describe_difference(login, last_conversation(each[-1])) if each else "none completed"
              for login, each in zip(expected, logins, strict=True)]
    counts = [len(compute_packets(login).eap) for login in expected]
    return Check("EAP packets as computed", not any(faults),
                 "; ".join(filter(None, faults)) or f"{join_values(counts)} packets of EAP-TLS, "
                 "each as long as certificates, keys and fragments make it")


def last_conversation(packets: Sequence[bytes]) -> Sequence[bytes]:
    """Return the EAP packets from the last request for the identity on."""
    begins = [place for place, packet in enumerate(packets)
              if packet[0] == tshark.EAP_REQUEST and packet[4:5] == bytes((_IDENTITY,))]
    return packets[begins[-1] if begins else 0:]
