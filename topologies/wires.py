"""A wire's rate, delay and loss become queueing disciplines, the same at both of its ends.

Where MACsec protects it, what has the interface's name is MACsec's, and the wire's own is below.
"""

from __future__ import annotations

from topologies.model import Link

# Packets on their way are not in anybody's queue: none of them is lost for want of room.
_UNDER_WAY = 100_000


#: What MACsec does to frames.
ENCRYPTS, AUTHENTICATES = "encrypts", "authenticates"
#: What MACsec adds to a frame: the tag, the explicit channel and the check value.
MACSEC_BYTES = 32
#: Linux's IFNAMSIZ, without the end.
_NAME = 15
_BELOW = "-sec"
#: Below 2346, which means none to 802.11.
_LONGER_THAN_ANY = 2344


def below(port: str) -> str:
    """The name of the wire's own interface below MACsec's."""
    return port[:_NAME - len(_BELOW)] + _BELOW


def macsec(port: str, mtu_bytes: int, *, encrypts: bool) -> list[str]:
    """What puts MACsec's interface above the wire's own; there are no keys yet.

    Frames are as long as without: what MACsec adds, the wire has room for.
    """
    settings = (f"cipher gcm-aes-128 protect on encrypt {'on' if encrypts else 'off'} "
                "validate strict send_sci on replay on window 0")
    return [f"ip link set dev {below(port)} mtu {mtu_bytes + MACSEC_BYTES} up",
            f"ip link add link {below(port)} name {port} type macsec port 1 {settings}",
            f"ip link set dev {port} gso_max_segs 1 mtu {mtu_bytes}",
            # Nor may packets be put together on their way in.
            f"ethtool -K {port} gro off"]


def with_room(radio: str) -> str:
    """What has an access point's radio make room for ciphers in every frame that it sends.

    Frames that come out of MACsec have none in front: a switch asks for it of wires that are its
    ports, and MACsec in between does not pass that on. On its quick path mac80211 does not look,
    and mac80211_hwsim drops such frames. A radio that may have to fragment does not take that
    path; no frame is as long as this.
    """
    return f"iw phy $(cat /sys/class/net/{radio}/phy80211/name) set frag {_LONGER_THAN_ANY}"


def commands(link: Link, port: str) -> list[str]:
    """What gives the interface at one end of a link the wire's behaviour; nothing for a plain one.

    First packets wait for their turn at the wire's rate, up to `queue_packets`; then each takes the
    delay, or is lost.
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
