"""Define the measured values of releases, as the JSON record of a measurement stores them.

The study releases measures security policies with the daemons of several Debian releases.
`ReleaseMeasurements` has the time that joining the network took, its EAP and IKE packets, a
round-trip time, and facts of messages, which `studies.releases.facts` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from analysis.metrics import Metric
from measure.records.record import RecordPart

AUTHENTICATION = Metric("authentication_s", "authentication time", unit="ms", scale=1e3,
                        better="lower", short="auth", stops=True)
#: What is compared between releases, by the name of its column.
TITLES: Mapping[str, str] = {
    "hello_bytes": "size of the station's first TLS message (bytes)",
    "offered_groups": "groups of the key agreement that the station offers",
    "shared_groups": "groups of which the station sends a key share",
    "offered_signatures": "signature algorithms that the station offers",
    "tls_version": "TLS version",
    "tls_suite": "cipher suite of TLS",
    "tls_group": "group of the key agreement",
    "request_bytes": "size of the server's CertificateRequest (bytes)",
    "longest_eap_bytes": "longest EAP packet of the server (bytes)",
    "certificate_message": "message with the station's certificates",
    "reply_attributes": "attributes of the server's first RADIUS reply",
    "request_attributes": "attributes of the access point's first RADIUS request",
    "ike_bytes": "sizes of the IKE messages (bytes)",
    "dhcp_bytes": "sizes of the DHCP messages (bytes)",
}


class Fact(RecordPart):
    """A fact of a repetition: its value, and the frames of a capture that show it."""

    value: str
    capture: str
    frames: Annotated[tuple[int, ...], Field(min_length=1)]

    def describe_frames(self) -> str:
        """Return the frames with their capture, such as "frames 7 and 9 of auth-mn.pcap"."""
        if len(self.frames) == 1:
            return f"frame {self.frames[0]} of {self.capture}"
        numbers = f"{', '.join(map(str, self.frames[:-1]))} and {self.frames[-1]}"
        return f"frames {numbers} of {self.capture}"


class ReleaseMeasurements(RecordPart):
    """Measured values of a repetition. Values without a packet in the capture are None."""

    #: From the first to the last packet of 802.1X, of the key handshake, and of a tunnel's start
    #: (IKE, WireGuard, QUIC, Multipath TCP), summed (s).
    authentication_s: float | None
    #: EAP packets at the mobile node, and their size (bytes).
    eap_packets: int
    eap_bytes: int
    #: IKE packets at the mobile node.
    ike_packets: int
    #: Median time until an echo request was answered (s).
    round_trip_s: float
    #: Sizes and choices of messages, by the names of `TITLES`.
    facts: Mapping[str, Fact] = {}
