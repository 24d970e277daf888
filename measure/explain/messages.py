"""Name the signalling message in a captured frame, its sender and its phase.

`qop explain` uses these names to describe how a station joins a network. Each function, such as
`management_message` or `radius_message`, takes a `Frame`. It returns a `Message`: sender (station,
access point or server), name such as "EAP-TLS request", and phase such as DHCP. Data frames have no
message.
"""

from __future__ import annotations

from dataclasses import dataclass

from measure.capture import tshark
from measure.explain.frames import GROUP_KEY_1, GROUP_KEY_2, Frame
from measure.packets import management_frames, wireguard
from policies.eap_methods import METHODS

#: Senders of messages. The network is the access point and the server behind it.
STATION, NETWORK, ACCESS_POINT, SERVER = "station", "network", "access point", "server"
#: Phases, by the names that the judges' phases have where both have one.
AUTHENTICATION, ASSOCIATION, EAP = "authentication", "association", "eap"
FOUR_WAY, GROUP_KEY = "four_way_handshake", "group_key"
#: Name of the phase in which fast transition over the DS replaces authentication over the air.
OVER_DS = "ft_over_ds"
RADIUS, DHCP, KERBEROS, IKE, WIREGUARD = "radius", "dhcp", "kerberos", "ike", "wireguard"
REGISTRATION, ARP = "registration", "arp"
#: Fields of a policy that a capture shows.
POLICY_FIELDS = ("akm", "cipher", "pmf", "eap", "tls", "session")
#: Phases that belong to joining itself; the others follow.
JOINING = (AUTHENTICATION, ASSOCIATION, EAP, RADIUS, FOUR_WAY)

#: EAP types (IANA's registry), with those that qop does not measure.
IDENTITY, NAK = 1, 3
EAP_METHODS = {method.eap_type: f"EAP-{name}" for name, method in METHODS.items()} | {
    6: "EAP-GTC", 17: "LEAP", 18: "EAP-SIM", 26: "EAP-MSCHAPV2", 43: "EAP-FAST", 47: "EAP-PSK",
    49: "EAP-IKEv2", 51: "EAP-GPSK", 53: "EAP-EKE", 55: "EAP-TEAP",
    25: "PEAP"}
_EAP_CODES = {1: "request", 2: "response", 3: "success", 4: "failure"}
EAP_RESPONSE = 2
EAPOL_START, EAPOL_LOGOFF = 1, 2
#: Descriptor type of keys of WEP, which only the access point sends (IEEE 802.1X-2004, 7.6).
_RC4_DESCRIPTOR = 1
#: Types of EAPOL frames that authenticate a station: EAP, start, logoff and keys, but not MKA.
EAPOL_TYPES = frozenset({tshark.EAPOL_EAP, EAPOL_START, EAPOL_LOGOFF, tshark.EAPOL_KEY})
TLS_MESSAGES = {0: "Hello Request", 1: "Client Hello", 2: "Server Hello", 4: "New Session Ticket",
                8: "Encrypted Extensions", 11: "Certificate", 12: "Server Key Exchange",
                13: "Certificate Request", 14: "Server Hello Done", 15: "Certificate Verify",
                16: "Client Key Exchange", 20: "Finished", 22: "Certificate Status"}
#: Message and version of a server's hello of TLS 1.3.
SERVER_HELLO, TLS_1_3 = 2, 0x0304
_AUTHENTICATIONS = {0: "open", 1: "shared key", 2: "fast transition", 3: "SAE", 4: "FILS",
                    5: "FILS"}
_ASSOCIATIONS = {0: "association request", 1: "association response",
                 2: "reassociation request", 3: "reassociation response"}
ACCESS_REQUEST, ACCESS_ACCEPT, ACCESS_REJECT = 1, 2, 3
_RADIUS_CODES = {1: "Access-Request", 2: "Access-Accept", 3: "Access-Reject",
                 11: "Access-Challenge"}
_DHCP_TYPES = {1: "Discover", 2: "Offer", 3: "Request", 4: "Decline", 5: "ACK", 6: "NAK",
               7: "Release", 8: "Inform"}
_DHCP_OF_SERVER = (2, 5, 6)
DHCP_OF_SERVER_TEXTS = frozenset(map(str, _DHCP_OF_SERVER))
_KERBEROS_TYPES = {10: "AS-REQ", 11: "AS-REP", 12: "TGS-REQ", 13: "TGS-REP", 14: "AP-REQ",
                   15: "AP-REP", 30: "KRB-ERROR"}
_ARP_OPCODES = {1: "request", 2: "reply"}
_KERBEROS_REQUESTS = (10, 12, 14)
_IKE_EXCHANGES = {2: "IKEv1 main mode", 4: "IKEv1 aggressive mode", 5: "IKEv1 informational",
                  32: "IKEv1 quick mode", 34: "IKE_SA_INIT", 35: "IKE_AUTH",
                  36: "CREATE_CHILD_SA", 37: "IKEv2 INFORMATIONAL", 43: "IKE_INTERMEDIATE"}
_WIREGUARD_TYPES = {wireguard.INITIATION: "initiation", wireguard.RESPONSE: "response",
                    wireguard.COOKIE: "cookie reply"}


@dataclass(frozen=True, slots=True)
class Message:
    """A signalling message with its frame, sender, name and phase."""

    frame: Frame
    sender: str
    name: str
    phase: str

    @property
    def time_s(self) -> float:
        """Return the capture time in s."""
        return self.frame.time_s

    @property
    def over_ds_target(self) -> str:
        """Return the next access point of an FT request or response over the DS, "" for others."""
        managed = self.frame.parse_management()
        return managed.target if managed.is_over_ds else ""

    @property
    def is_rejection(self) -> bool:
        """Return whether this is an EAP failure or an Access-Reject."""
        packet = self.frame.packet
        return packet.eap_code == tshark.EAP_FAILURE or packet.radius_code == ACCESS_REJECT

    @property
    def has_hello_1_3(self) -> bool:
        """Return whether this message has a server's hello of TLS 1.3."""
        return SERVER_HELLO in self.frame.packet.tls_handshakes and (
            TLS_1_3 in self.frame.get_numbers("tls.handshake.extensions.supported_version"))


def name_eap(frame: Frame) -> str:
    """Return the name of an EAP message, with the TLS messages that it completes."""
    packet = frame.packet
    code = _EAP_CODES.get(packet.eap_code or 0, f"code {packet.eap_code}")
    if packet.eap_type is None:
        return f"EAP {code}"
    names = [TLS_MESSAGES[kind] for kind in packet.tls_handshakes if kind in TLS_MESSAGES]
    if "tls.alert_message.desc" in frame.columns:
        names.append("alert")
    if packet.eap_type in (IDENTITY, 2, NAK):
        kind = {1: "identity", 2: "notification", 3: "Nak"}[packet.eap_type]
        return f"EAP {code}, {kind}"
    method = EAP_METHODS.get(packet.eap_type, f"EAP type {packet.eap_type}")
    return f"{method} {code}" + (f": {', '.join(dict.fromkeys(names))}" if names else "")


def eapol_message(frame: Frame, sender: str) -> Message:
    """Return the message of an EAPOL frame.

    Args:
        frame: The frame.
        sender: Its sender where that is known from addresses, "" to find it by the content.
    """
    packet = frame.packet
    if packet.eapol_type == tshark.EAPOL_KEY:
        number = frame.key_message
        is_request = number in (1, 3, GROUP_KEY_1) or packet.key_descriptor == _RC4_DESCRIPTOR
        by = sender or (ACCESS_POINT if is_request else STATION)
        by = ACCESS_POINT if by == NETWORK else by
        if number in (GROUP_KEY_1, GROUP_KEY_2):
            return Message(frame, by, f"group key message {number - 4}", GROUP_KEY)
        name = f"key message {number} of 4" if number else "EAPOL-Key"
        return Message(frame, by, name, FOUR_WAY)
    if packet.eap_code is not None:
        by = sender or (STATION if packet.eap_code == EAP_RESPONSE else NETWORK)
        return Message(frame, by, name_eap(frame), EAP)
    name = {EAPOL_START: "EAPOL-Start", EAPOL_LOGOFF: "EAPOL-Logoff"}.get(
        packet.eapol_type or 0, f"EAPOL type {packet.eapol_type}")
    return Message(frame, sender or STATION, name, EAP)


def management_message(frame: Frame, sender: str) -> Message | None:
    """Return the message of an 802.11 management frame of joining, None for other frames."""
    by = ACCESS_POINT if sender == NETWORK else sender
    kind = frame.packet.subtype
    if kind == tshark.AUTHENTICATION_SUBTYPE:
        managed = frame.parse_management()
        method = _AUTHENTICATIONS.get(managed.algorithm or 0, f"algorithm {managed.algorithm}")
        name = f"authentication {managed.sequence or '?'} ({method})"
        return Message(frame, by, name, AUTHENTICATION)
    if kind in _ASSOCIATIONS:
        return Message(frame, by, _ASSOCIATIONS[kind], ASSOCIATION)
    if kind == management_frames.ACTION and (managed := frame.parse_management()).is_over_ds:
        name = "request" if managed.action == management_frames.FT_REQUEST else "response"
        return Message(frame, by, f"FT {name} over the DS", AUTHENTICATION)
    if kind in (management_frames.DISASSOCIATION, management_frames.DEAUTHENTICATION):
        name = ("disassociation" if kind == management_frames.DISASSOCIATION
                else "deauthentication")
        return Message(frame, by, name, "end")
    return None


def upper_message(  # noqa: PLR0911 # a return for each protocol
        frame: Frame) -> Message | None:
    """Return the message of a protocol above the link, such as DHCP or IKE, or None."""
    packet = frame.packet
    if (kind := frame.get_number("dhcp.option.dhcp")) in _DHCP_TYPES:  # no lease queries of relays
        return Message(frame, SERVER if kind in _DHCP_OF_SERVER else STATION,
                       f"DHCP {_DHCP_TYPES[kind]}", DHCP)
    if packet.isakmp_exchange is not None:
        name = _IKE_EXCHANGES.get(packet.isakmp_exchange, f"IKE exchange {packet.isakmp_exchange}")
        return Message(frame, "", name, IKE)
    if (kind := frame.get_number("wg.type")) in _WIREGUARD_TYPES:
        return Message(frame, STATION if kind == wireguard.INITIATION else SERVER,
                       f"WireGuard {_WIREGUARD_TYPES[kind]}", WIREGUARD)
    if packet.arp_opcode in _ARP_OPCODES:
        asks, asked = (frame.get_text(f"arp.{end}.proto_ipv4") for end in ("src", "dst"))
        if asks in ("0.0.0.0", asked):  # noqa: S104 - a probe or announcement, without an answer
            return None
        name = f"ARP {_ARP_OPCODES[packet.arp_opcode]} for {asked}"
        return Message(frame, STATION if packet.arp_opcode == 1 else SERVER, name, ARP)
    if (kind := frame.get_number("kerberos.msg_type")) in _KERBEROS_TYPES:
        return Message(frame, STATION if kind in _KERBEROS_REQUESTS else SERVER,
                       f"Kerberos {_KERBEROS_TYPES[kind]}", KERBEROS)
    if packet.mip_type in (tshark.REGISTRATION_REQUEST, tshark.REGISTRATION_REPLY):
        is_request = packet.mip_type == tshark.REGISTRATION_REQUEST
        return Message(frame, STATION if is_request else SERVER,
                       f"Mobile IP registration {'request' if is_request else 'reply'}",
                       REGISTRATION)
    return None


def wired_message(frame: Frame) -> Message | None:
    """Return the message of a frame that is not of 802.11, None without one.

    RADIUS accounting and changes of authorization are no such messages, because they belong to no
    authentication.
    """
    if frame.packet.eapol_type in EAPOL_TYPES:
        return eapol_message(frame, "")
    if frame.packet.radius_code is not None:
        return radius_message(frame) if frame.packet.radius_code in _RADIUS_CODES else None
    return upper_message(frame)


def radius_message(frame: Frame) -> Message:
    """Return the message of a RADIUS frame, with the EAP message that it carries."""
    code = frame.packet.radius_code or 0
    name = f"RADIUS {_RADIUS_CODES[code]}"
    if frame.packet.eap_code is not None:
        name += f" ({name_eap(frame)})"
    return Message(frame, ACCESS_POINT if code == ACCESS_REQUEST else SERVER, name, RADIUS)
