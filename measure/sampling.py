"""Capture filters for sampling: 1 in n of the expected packets, and all others.

A long stream repeats one packet ten thousand times. Of the packets that the policy requires, 1 in
16 is kept. All other packets are kept (a frame in clear, a packet outside the tunnel, unexpected
ESP). So no violation is missed, and only counts shrink. The filters sample by half a byte of a
counter in the packets' headers.
"""

from __future__ import annotations

from measure import iperf

#: The only sampling ratio besides 1: four bits of a counter must be zero.
ONE_IN = 16
#: MAC-layer acknowledgements follow every frame and show nothing of the policy.
NO_CONTROL = "not type ctl"
_STREAM = f"port {iperf.PORT}"
_SEQUENCE_CONTROL = "wlan[22] & 0xf0 = 0"
_ESP_SEQUENCE = "ip[27] & 0x0f = 0"
_MACSEC, _MACSEC_NUMBER = "ether proto 0x88e5", "ether[19] & 0x0f = 0"
_IP_IDENTIFICATION = "ip[5] & 0x0f = 0"


def air_filter(one_in: int, *, has_link: bool, has_ipsec: bool) -> str:
    """Return the filter for the radios' monitor interface."""
    if one_in == 1:
        return NO_CONTROL
    # The IP part comes first: after a wlan[...] term, libpcap does not find the IP header.
    expected = "type data and wlan[1] & 0x40 != 0" if has_link else \
        f"{'esp' if has_ipsec else _STREAM} and type data and wlan[1] & 0x40 = 0"
    return f"{NO_CONTROL} and (not ({expected}) or {_SEQUENCE_CONTROL})"


def wire_filter(one_in: int, *, has_ipsec: bool) -> str:
    """Return the filter for wires on the mobile node's path, with or without tunnels."""
    if one_in == 1:
        return ""
    if has_ipsec:
        return f"not esp or {_ESP_SEQUENCE}"
    return f"not (ip proto 4 or {_STREAM}) or {_IP_IDENTIFICATION}"


def macsec_filter(one_in: int) -> str:
    """Return the filter for wires below MACsec."""
    return "" if one_in == 1 else f"not {_MACSEC} or {_MACSEC_NUMBER}"
