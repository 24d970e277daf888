"""Frames are copied on the access point's own side of the air, for a capture. Inside the machine.

What is captured at its radio has passed the air, either way: a frame that it sends is there when it
has arrived (`topologies.medium`). So they are copied before they take that detour, and where its
bridge has received them.
"""

from __future__ import annotations

from measure.workload import Site
from studies.eapload2004 import network

#: The device that has the copies, in the access points' namespace.
DEVICE = "radioside"
_EAPOL = "0x888e"
#: Of EAPOL those that have EAP (type 0), of these the requests (code 1), as a filter has it.
_REQUESTS = "match u8 0 0xff at 1 match u8 1 0xff at 4 flowid 77:1"
#: What follows it is done to the frame as though it were not there.
_COPY = f"action mirred egress mirror dev {DEVICE} continue"


def delay(site: Site) -> None:
    """Have every second of EAP's requests wait, as though the air had lost it once: a control.

    Nothing follows one before its answer, so that none is overtaken. Raises CalledProcessError.
    """
    of = f"dev {network.AP_RADIO}"
    for line in (f"qdisc replace {of} root handle 77: prio priomap{16 * ' 1'}",
                 # Those are sent at once that are put before others, of which there are none here.
                 f"qdisc add {of} parent 77:1 handle 78: netem delay 1ms reorder 50%",
                 f"filter add {of} parent 77: protocol {_EAPOL} prio 1 u32 {_REQUESTS}"):
        site.testbed.run(network.AP, ["tc", *line.split()])


def show(site: Site) -> None:
    """Have what supplicant and access point say of EAPOL copied to the device, from now on.

    Raises CalledProcessError.
    """
    radio = network.AP_RADIO
    bridge = site.network.nodes[network.AP].interfaces[radio].bridge
    copied = f"protocol {_EAPOL} prio 1 matchall {_COPY}"
    for line in (f"ip link add {DEVICE} type dummy", f"ip link set {DEVICE} up",
                 f"tc filter add dev {radio} egress {copied}",
                 f"tc qdisc add dev {bridge} clsact",
                 f"tc filter add dev {bridge} ingress {copied}"):
        site.testbed.run(network.AP, line.split())
