"""Copies of frames on the access point's side of the air, for a capture.

This module runs in the guest. A capture at the access point's radio shows a frame after the air, in
either direction: a sent frame appears when it has arrived (`topologies.medium`). So sent frames are
copied before the air, and received frames where the bridge gets them.
"""

from __future__ import annotations

from measure.workload import Site
from studies.eapload2004 import network

#: Device that gets the copies, in the access point's namespace.
DEVICE = "radioside"
_EAPOL = "0x888e"
#: tc filter for EAPOL frames with an EAP request: type 0 (EAP-Packet), code 1.
_REQUESTS = "match u8 0 0xff at 1 match u8 1 0xff at 4 flowid 77:1"
#: The action `continue` lets later filters act on the frame.
_COPY = f"action mirred egress mirror dev {DEVICE} continue"


def delay_requests(site: Site) -> None:
    """Delay every second EAP request, as if the air had lost it once (negative control).

    No packet follows a request before its answer, so that none is overtaken.

    Raises:
        CalledProcessError: A command has failed.
    """
    of = f"dev {network.AP_RADIO}"
    for line in (f"qdisc replace {of} root handle 77: prio priomap{16 * ' 1'}",
                 # netem sends reordered packets at once. Here no other packets are queued.
                 f"qdisc add {of} parent 77:1 handle 78: netem delay 1ms reorder 50%",
                 f"filter add {of} parent 77: protocol {_EAPOL} prio 1 u32 {_REQUESTS}"):
        site.testbed.run_command(network.AP, ["tc", *line.split()])


def copy_frames(site: Site) -> None:
    """Copy the EAPOL frames of supplicant and access point to the device from now on.

    Raises:
        CalledProcessError: A command has failed.
    """
    radio = network.AP_RADIO
    bridge = site.network.nodes[network.AP].interfaces[radio].bridge
    copied = f"protocol {_EAPOL} prio 1 matchall {_COPY}"
    for line in (f"ip link add {DEVICE} type dummy", f"ip link set {DEVICE} up",
                 f"tc filter add dev {radio} egress {copied}",
                 f"tc qdisc add dev {bridge} clsact",
                 f"tc filter add dev {bridge} ingress {copied}"):
        site.testbed.run_command(network.AP, line.split())
