"""List the supported EAP methods with their properties.

`METHODS` has the `EapProperties` of each method by its name (MD5, TLS, PEAP, TTLS, PWD, AKA, AKA').
They state the number in EAP packets, whether the method derives keys, whether it needs a SIM card,
and its inner methods. Models of policies, converters and checks use this table.
docs/add-eap-method.md tells how to add a method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

EapMethod = Literal["MD5", "TLS", "PEAP", "TTLS", "PWD", "AKA", "AKA'"]


class EapProperties(NamedTuple):
    """The properties of an EAP method, such as whether it derives keys."""

    #: Number of the method in EAP packets (IANA's registry of EAP method types).
    eap_type: int
    derives_keys: bool = True
    #: Whether it authenticates by a subscriber's card (USIM).
    is_usim: bool = False
    #: Inner methods that its TLS tunnel supports; none without a tunnel.
    inner: tuple[str, ...] = ()


METHODS: Mapping[EapMethod, EapProperties] = {
    "MD5": EapProperties(4, derives_keys=False),  # RFC 3748, section 5.4
    "TLS": EapProperties(13),
    "PEAP": EapProperties(25, inner=("MSCHAPV2", "GTC", "TLS")),
    "TTLS": EapProperties(21, inner=("PAP", "MSCHAPV2", "CHAP", "MSCHAP")),
    "PWD": EapProperties(52),
    "AKA": EapProperties(23, is_usim=True),
    "AKA'": EapProperties(50, is_usim=True),
}
KEY_DERIVING = frozenset(name for name, method in METHODS.items() if method.derives_keys)
USIM_METHODS = frozenset(name for name, method in METHODS.items() if method.is_usim)
#: Methods with a TLS tunnel, by the inner methods that they support.
TUNNELS: Mapping[str, tuple[str, ...]] = {
    name: method.inner for name, method in METHODS.items() if method.inner}
