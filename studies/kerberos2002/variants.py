"""The paper's protocols, by the names of this study's levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from policies import KerberosLayer


@dataclass(frozen=True)
class ProtocolVariant:
    """A protocol: its family, its initial authentication and the proxy's use."""

    title: str
    way: Literal["pkcross", "pktapp", "mobile"]
    initial: Literal["password", "pkinit", "client-key"] = "password"
    proxy: Literal["none", "forward", "trusted", "assist"] = "none"


VARIANTS: Mapping[str, ProtocolVariant] = {
    "pkcross": ProtocolVariant("PKCROSS", "pkcross"),
    "pktapp": ProtocolVariant("PKTAPP", "pktapp", "pkinit"),
    "m-standard": ProtocolVariant("M-PKINIT standard", "mobile", "pkinit"),
    "m-client-key": ProtocolVariant("M-PKINIT client session key", "mobile", "client-key"),
    "mp-standard": ProtocolVariant("MP-PKINIT standard", "mobile", "pkinit", "forward"),
    "mp-client-key": ProtocolVariant("MP-PKINIT client session key", "mobile", "client-key",
                                     "forward"),
    "mp-trusted": ProtocolVariant("MP-PKINIT trusted proxy", "mobile", "client-key", "trusted"),
    "mp-assist": ProtocolVariant("MP-PKINIT proxy assist", "mobile", "client-key", "assist"),
}
#: Protocols of Table III, row by row.
MOBILE = tuple(name for name, variant in VARIANTS.items() if variant.way == "mobile")

#: Operations whose cost a device must state, by suite.
CIPHERS = {"era": ("rsa-1024-private", "rsa-1024-public", "des-operation"),
           "today": ("rsa-2048-private", "rsa-2048-public", "aes-operation")}
MAX_SERVERS = 16


def protocol_from_layer(layer: KerberosLayer) -> str:
    """Return the protocol that a policy's layer requires."""
    if layer.realms != "one":
        return layer.realms
    initial = "client-key" if layer.reply_key == "client" else "pkinit"
    return next(name for name in MOBILE if (VARIANTS[name].initial, VARIANTS[name].proxy) == (
        initial, layer.proxy))
