"""Queueing disciplines for a wire's rate, delay and loss, equal at both of its ends.

With MACsec the macsec device takes the interface name; the physical device is renamed NAME-sec.
"""

from __future__ import annotations

from topologies.model import Link

# Limit of the queue for packets in flight: large enough that none is dropped.
_UNDER_WAY = 100_000


#: Kinds of protection by MACsec.
ENCRYPTS, AUTHENTICATES = "encrypts", "authenticates"
#: Bytes that MACsec adds to a frame: SecTAG with explicit SCI, and ICV.
MACSEC_BYTES = 32
#: Linux's IFNAMSIZ without the terminating zero.
_NAME = 15
_BELOW = "-sec"
#: Largest fragmentation threshold below 2346, which means no fragmentation in 802.11.
_LONGER_THAN_ANY = 2344


def physical_name(port: str) -> str:
    """Return the name of the wire's own interface below the macsec device."""
    return port[:_NAME - len(_BELOW)] + _BELOW


def macsec_commands(port: str, mtu_bytes: int, *, encrypts: bool) -> list[str]:
    """Return commands that create a macsec device on a wire's interface. Keys are added later.

    The MTU is the same as without MACsec: the wire has room for the added bytes.
    """
    settings = (f"cipher gcm-aes-128 protect on encrypt {'on' if encrypts else 'off'} "
                "validate strict send_sci on replay on window 0")
    return [f"ip link set dev {physical_name(port)} mtu {mtu_bytes + MACSEC_BYTES} up",
            f"ip link add link {physical_name(port)} name {port} type macsec port 1 {settings}",
            f"ip link set dev {port} gso_max_segs 1 mtu {mtu_bytes}",
            # Incoming packets must not be combined either.
            f"ethtool -K {port} gro off"]


def reserve_headroom_command(radio: str) -> str:
    """Return the command that makes an access point's radio reserve headroom for encryption.

    Frames from a macsec device have no headroom: a bridge requests it from its ports, and macsec
    does not pass the request on. The fast path of mac80211 does not check the headroom, and
    mac80211_hwsim drops such frames. A radio with a fragmentation threshold does not use the fast
    path; no frame is as long as this threshold.
    """
    return f"iw phy $(cat /sys/class/net/{radio}/phy80211/name) set frag {_LONGER_THAN_ANY}"


def wire_commands(link: Link, port: str) -> list[str]:
    """Return commands that give an interface at one end of a link the wire's behaviour.

    A plain wire needs none. Packets first wait for the wire's rate, up to `queue_packets`; then
    each is delayed, or lost.
    """
    steps = []
    parent = "root"
    if link.rate_bps is not None:
        steps.append(f"tc qdisc add dev {port} root handle 1: netem limit {link.queue_packets} "
                     f"rate {round(link.rate_bps)}bit {link.overhead_bytes}")
        parent = "parent 1:1"
    if link.delay_ms or link.loss_percent:
        steps.append(f"tc qdisc add dev {port} {parent} netem limit {_UNDER_WAY} "
                     f"delay {link.delay_ms}ms loss {link.loss_percent}%")
    return steps
