"""Send ARP requests for a station in its own VLAN, in another VLAN, and without a tag.

`send_vlan_probes` sends the requests on the wire behind an access point. Only the request in the
station's own VLAN may reach the station (`measure.checks.vlans`). Each request has another sender
address (RFC 5737), which identifies it in captures. Standard library only: this runs in the guest.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from measure.attacks import injection

if TYPE_CHECKING:
    from topologies.builder import Testbed

UNTAGGED, OWN, OTHER = "the untagged request", "the own VLAN's request", "the other VLAN's request"
#: Kinds of requests by the packed address of their sender.
SENDERS = {socket.inet_aton(f"192.0.2.{number}"): kind
           for number, kind in enumerate((UNTAGGED, OWN, OTHER), 1)}
_TAG, _LAST_VLAN = bytes.fromhex("8100"), 4094
#: Time for a request that must not arrive (s).
_SETTLE_S = 0.1


def send_vlan_probes(testbed: Testbed, node: str, port: str, target: str, vlan: int,
                     other: int = 0) -> None:
    """Send three broadcast ARP requests for a station's address on an access point's wire.

    The first request has no VLAN tag. The second has the tag of the station's VLAN, and the third
    the tag of another VLAN: that of another station, if there is one.

    Args:
        testbed: The running testbed.
        node: Node at the other end of the access point's wire.
        port: The node's interface on this wire.
        target: The station's IPv4 address.
        vlan: The station's VLAN.
        other: VLAN of another station, 0 for none.

    Raises:
        OSError: A frame cannot be sent.
    """
    mac = testbed.run_command(node, ["cat", f"/sys/class/net/{port}/address"]).strip()
    tags = (b"", _make_tag(vlan), _make_tag(other or vlan % _LAST_VLAN + 1))
    for sender, tag in zip(SENDERS, tags, strict=True):
        # Behind the LLC header of 802.11, which Ethernet does not have.
        request = injection.arp_request(mac, socket.inet_ntoa(sender), target)[6:]
        injection.send_on_interface(testbed, node, port, injection.mac_bytes(injection.BROADCAST)
                                    + injection.mac_bytes(mac) + tag + request)
    time.sleep(_SETTLE_S)


def _make_tag(vlan: int) -> bytes:
    return _TAG + vlan.to_bytes(2, "big")
