"""Sampling is done by capture filters: 1 in so many of the expected packets, and all others.

A long stream is the same packet ten thousand times. Of what the policy calls for, 1 in 16 is kept;
whatever differs from it (a frame in clear, a packet outside the tunnel, ESP where
there should be none) is kept, to the last packet. So no finding can be missed, and what is counted
is less. Sampled by counters in the packets' headers, which all are one byte's low or high half.
"""

from __future__ import annotations

from measure import iperf

#: The one rate there is besides 1: four bits of a counter that must be zero.
ONE_IN = 16
#: Acknowledgements of the MAC layer follow every frame; they say nothing of the policy.
NO_CONTROL = "not type ctl"
_STREAM = f"port {iperf.PORT}"
_SEQUENCE_CONTROL = "wlan[22] & 0xf0 = 0"
_ESP_SEQUENCE = "ip[27] & 0x0f = 0"
_MACSEC, _MACSEC_NUMBER = "ether proto 0x88e5", "ether[19] & 0x0f = 0"
_IP_IDENTIFICATION = "ip[5] & 0x0f = 0"


def air(one_in: int, *, has_link: bool, has_ipsec: bool) -> str:
    """The filter for the radios' monitor interface."""
    if one_in == 1:
        return NO_CONTROL
    # What looks into the IP packet comes first: libpcap finds it nowhere after a wlan[...].
    expected = "type data and wlan[1] & 0x40 != 0" if has_link else \
        f"{'esp' if has_ipsec else _STREAM} and type data and wlan[1] & 0x40 = 0"
    return f"{NO_CONTROL} and (not ({expected}) or {_SEQUENCE_CONTROL})"


def wire(one_in: int, *, has_ipsec: bool) -> str:
    """The filter for wires that the mobile node's traffic passes, in tunnels or not."""
    if one_in == 1:
        return ""
    if has_ipsec:
        return f"not esp or {_ESP_SEQUENCE}"
    return f"not (ip proto 4 or {_STREAM}) or {_IP_IDENTIFICATION}"


def macsec(one_in: int) -> str:
    """The filter for wires below MACsec."""
    return "" if one_in == 1 else f"not {_MACSEC} or {_MACSEC_NUMBER}"
