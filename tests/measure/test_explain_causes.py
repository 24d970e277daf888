"""Tests of measure.explain.causes: each cause in a made-up capture, and the same without it."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import made_up_captures
import recorded
from conftest import PROJECT
from measure.explain.answer import explain_captures

STATION, BSS, OTHER_BSS = (bytes.fromhex(f"0200000000{end}") for end in ("a2", "a0", "b0"))
BROADCAST = b"\xff" * 6
Timed = tuple[float, bytes]
REQUEST, RESPONSE, SUCCESS, FAILURE = 1, 2, 3, 4
IDENTITY, NAK, MD5, TLS = 1, 3, 4, 13


def management(subtype: int, source: bytes, target: bytes, bss: bytes, body: bytes) -> bytes:
    """A management frame without a radio's header."""
    return struct.pack("<HH", subtype << 4, 0) + target + source + bss + b"\0\0" + body


def authentication(number: int, *, bss: bytes = BSS, algorithm: int = 0, status: int = 0,
                   sender: bytes | None = None) -> bytes:
    """An authentication frame: from the station if its number is odd, or as told."""
    source = sender or (STATION if number % 2 else bss)
    target = bss if source == STATION else STATION
    return management(0x0B, source, target, bss, struct.pack("<HHH", algorithm, number, status))


def rsn(akm: int, *, keys: int = 0, capabilities: int = 0) -> bytes:
    """An RSN element of WPA2 with an AKM, and so many PMKIDs."""
    suite = b"\x00\x0f\xac"
    body = (struct.pack("<H", 1) + suite + b"\4" + struct.pack("<H", 1) + suite + b"\4"
            + struct.pack("<H", 1) + suite + bytes((akm,))
            + struct.pack("<H", capabilities))
    body += (struct.pack("<H", keys) + b"k" * 16 * keys) if keys else b""
    return bytes((48, len(body))) + body


def domain(number: int) -> bytes:
    """A mobility domain element."""
    return b"\x36\3" + struct.pack("<HB", number, 0)


def beacon(bss: bytes, elements: bytes) -> bytes:
    """A beacon of the network `net`."""
    return management(8, bss, BROADCAST, bss,
                      struct.pack("<QHH", 0, 100, 1) + b"\0\3net" + elements)


def association(*, response: bool = False, status: int = 0, elements: bytes = b"",
                bss: bytes = BSS, again: bool = False) -> bytes:
    """An association or reassociation frame of the network `net`."""
    if response:
        return management(3 if again else 1, bss, STATION, bss,
                          struct.pack("<HHH", 0, status, 1) + b"\1\1\x82" + elements)
    return management(2 if again else 0, STATION, bss, bss, struct.pack("<HH", 0, 1)
                      + (BSS if again else b"") + b"\0\3net\1\1\x82" + elements)


def data(body: bytes, *, from_station: bool, bss: bytes = BSS, retry: bool = False,
         protected: bool = False) -> bytes:
    """A data frame between the station and an access point."""
    flags = (1 if from_station else 2) | 8 * retry | 0x40 * protected
    ends = (bss, STATION, bss) if from_station else (STATION, bss, bss)
    counter = b"\1\0\0\x20\0\0\0\0" if protected else b""
    return bytes((8, flags)) + b"\0\0" + b"".join(ends) + b"\0\0" + counter + body


def eapol(kind: int, body: bytes, *, from_station: bool, bss: bytes = BSS) -> bytes:
    """A data frame with an EAPOL frame."""
    return data(b"\xaa\xaa\3\0\0\0\x88\x8e" + struct.pack("!BBH", 2, kind, len(body)) + body,
                from_station=from_station, bss=bss)


def eap(code: int, number: int, method: int | None = None, content: bytes = b"", *,
        bss: bytes = BSS) -> bytes:
    """A frame with an EAP packet; responses come from the station."""
    body = (b"" if method is None else bytes((method,))) + content
    return eapol(0, struct.pack("!BBH", code, number, 4 + len(body)) + body,
                 from_station=code == RESPONSE, bss=bss)


def key(number: int, *, group: bool = False, count: int | None = None) -> bytes:
    """An EAPOL-Key frame of the four-way or the group key handshake, with a replay counter."""
    info = {1: 0x008A, 2: 0x010A, 3: 0x13CA, 4: 0x030A}[number]
    if group:
        info = {1: 0x1382, 2: 0x0302}[number]
    content = b"x" * 22 if number in (2, 3) and not group else b""
    counter = count or (number + 1) // 2  # that of a request is its response's, too
    body = (struct.pack("!BHHQ", 2, info, 16, counter) + b"n" * 32 + bytes(32) + b"m" * 16
            + struct.pack("!H", len(content)) + content)
    return eapol(3, body, from_station=number % 2 == 0)


def tls(*records: bytes) -> bytes:
    """The content of an EAP-TLS packet with these TLS records."""
    return b"\0" + b"".join(records)


def record(kind: int, content: bytes) -> bytes:
    """A TLS record."""
    return struct.pack("!BHH", kind, 0x0303, len(content)) + content


def handshake(kind: int, content: bytes) -> bytes:
    """A TLS record with a handshake message."""
    return record(22, bytes((kind,)) + len(content).to_bytes(3, "big") + content)


CLIENT_HELLO = tls(handshake(1, b"\3\3" + bytes(32) + b"\0" + b"\0\2\0\x2f" + b"\1\0"))
SERVER_HELLO = tls(handshake(2, b"\3\3" + bytes(32) + b"\0" + b"\0\x2f" + b"\0"))
SERVER_HELLO_1_3 = tls(handshake(2, b"\3\3" + bytes(32) + b"\0" + b"\x13\1" + b"\0"
                                 + b"\0\6\0\x2b\0\2\3\4"), record(23, bytes(900)))
ENCRYPTED_ALERT = tls(record(23, bytes(19)))
CERTIFICATE = tls(handshake(11, b"\0\0\0"), handshake(16, bytes(2)))


def alert(kind: int) -> bytes:
    """The content of an EAP-TLS packet with a fatal alert."""
    return tls(record(21, bytes((2, kind))))


def spaced(*frames: bytes, start_s: float = 1.0, waits_s: Sequence[tuple[int, float]] = ()
           ) -> list[Timed]:
    """Frames a millisecond apart, and with so many seconds before some of them."""
    at_s, timed, longer = start_s, [], dict(waits_s)
    for place, frame in enumerate(frames):
        at_s += longer.get(place, 0.001) if place else 0.0
        timed.append((at_s, frame))
    return timed


def joined(akm: int = 2, *, keys: int = 0) -> tuple[bytes, ...]:
    """Authentication and association with an AKM."""
    return (authentication(1), authentication(2), association(elements=rsn(akm, keys=keys)),
            association(response=True))


FOUR = tuple(key(number) for number in (1, 2, 3, 4))
#: EAP-TLS up to the success, and the four-way handshake: 4 + 9 + 4 frames.
ENTERPRISE = (*joined(1), eap(REQUEST, 1, IDENTITY), eap(RESPONSE, 1, IDENTITY, b"user"),
              eap(REQUEST, 2, TLS, b"\x20"), eap(RESPONSE, 2, TLS, CLIENT_HELLO),
              eap(REQUEST, 3, TLS, SERVER_HELLO), eap(RESPONSE, 3, TLS, CERTIFICATE),
              eap(REQUEST, 4, TLS, tls(record(20, b"\1"))), eap(RESPONSE, 4, TLS, b"\0"),
              eap(SUCCESS, 4), *FOUR)
PERSONAL = (*joined(2), *FOUR)


def explain(tmp_path: Path, frames: Sequence[Timed],
            link: int = made_up_captures.IEEE802_11) -> list[dict[str, Any]]:
    """The negotiations of a made-up capture."""
    file = made_up_captures.written(tmp_path / "a.pcap", frames, link)
    return explain_captures([file]).to_document()["negotiations"]


def causes(negotiations: Sequence[dict[str, Any]]) -> list[str]:
    """All causes that were found, once each."""
    return list(dict.fromkeys(finding["cause"] for each in negotiations
                              for finding in each["findings"]))


@pytest.mark.parametrize("frames", [PERSONAL, ENTERPRISE])
def test_quick_joining_has_no_finding(frames: tuple[bytes, ...], tmp_path: Path) -> None:
    """The captures that the other tests change are without any cause."""
    (each,) = explain(tmp_path, spaced(*frames))
    assert (each["outcome"], each["findings"]) == ("success", [])


@pytest.mark.parametrize("file", [
    recorded.path("P3", "auth-air"), recorded.path("P12", "auth-wire"),
    recorded.path("P12-R1", "auth-foreign"), recorded.TOOLS / "aka-prime" / "auth-mn.pcap",
    recorded.TOOLS / "macsec" / "macsec-ap-a.pcap"], ids=lambda file: file.name)
def test_recording_without_a_fault_has_no_finding(file: Path) -> None:
    """Real authentications: IKE on the air, RADIUS and IKE on wires, EAP-AKA', MKA."""
    assert causes(explain_captures([file]).to_document()["negotiations"]) == []


def test_radius_capture_without_a_fault_has_no_finding_of_the_server() -> None:
    """Each authentication of a load is by itself: what passes between two of them is no wait."""
    document = explain_captures([recorded.TOOLS / "eapload2004" / "full-ap.pcap"]).to_document()
    assert len(document["negotiations"]) >= 3
    assert causes(document["negotiations"]) == []


LATE = [
    # what is waited for: the place of the frame, seconds before it, and the cause
    (ENTERPRISE, 8, 0.9, "late-radius"), (ENTERPRISE, 10, 0.9, "server-stall-after-certificate"),
    (ENTERPRISE, 6, 0.9, "late-radius"), (ENTERPRISE, 13, 0.5, "late-access-point"),
    (PERSONAL, 3, 0.5, "late-access-point"), (PERSONAL, 6, 0.5, "late-access-point"),
    (PERSONAL, 2, 0.8, "late-station"), (ENTERPRISE, 9, 0.8, "late-station"),
    (ENTERPRISE, 5, 4.0, "identity-unanswered")]


@pytest.mark.parametrize(("frames", "place", "wait_s", "cause"), LATE)
def test_wait_is_attributed_with_its_frames(frames: tuple[bytes, ...], place: int, wait_s: float,
                                            cause: str, tmp_path: Path) -> None:
    """One wait, one finding: its two frames and its time. A tenth of it is no finding."""
    (each,) = explain(tmp_path, spaced(*frames, waits_s=[(place, wait_s)]))
    (finding,) = each["findings"]
    assert (finding["cause"], finding["cost_s"]) == (cause, wait_s)
    assert [frame["frame"] for frame in finding["frames"]] == [place, place + 1]
    assert finding["filters"][0]["filter"] == f"frame.number in {{{place}, {place + 1}}}"
    (each,) = explain(tmp_path, spaced(*frames, waits_s=[(place, wait_s / 10)]))
    assert each["findings"] == [] or wait_s / 10 >= 0.2


#: Frames, seconds before some of them, and the causes that are found in order of importance.
CHANGED: dict[str, tuple[Sequence[bytes], Sequence[tuple[int, float]], list[str]]] = {
    "M1 lost": ((*joined(2), key(1), *FOUR), [(5, 1.0)], ["key-message-lost"]),
    "M2 lost": ((*joined(2), key(1), key(2), key(1), key(2), key(3), key(4)), [(6, 1.0)],
                ["key-message-lost"]),
    "M3 lost": ((*joined(2), *FOUR[:3], key(3), key(4)), [(7, 1.0)], ["key-message-lost"]),
    "M3 not captured": ((*joined(2), *FOUR[:2], key(3, count=5), key(4)), [(6, 0.1)],
                        ["key-message-lost"]),
    "passphrase": ((*joined(2), key(1), key(2), key(1), key(2), key(1), key(2),
                    management(0x0C, BSS, STATION, BSS, b"\x0f\0")), [(6, 1.0), (8, 1.0)],
                   ["wrong-passphrase", "deauthenticated"]),
    "SAE passphrase": ([authentication(1, algorithm=3), authentication(1, algorithm=3, sender=BSS),
                        *[authentication(2, algorithm=3, sender=STATION)] * 3],
                       [(3, 1.0), (4, 1.0)], ["wrong-passphrase"]),
    "distrust": ((*ENTERPRISE[:9], eap(RESPONSE, 3, TLS, alert(48)), eap(FAILURE, 3)), [],
                 ["server-not-trusted"]),
    "name of the server": (
        (*ENTERPRISE[:8], eap(REQUEST, 3, TLS, tls(handshake(2, b"\3\3" + bytes(35)),
                                                   handshake(11, b"\0\0\0"))),
         eap(RESPONSE, 3, TLS, alert(80)), eap(FAILURE, 3)), [], ["server-not-trusted"]),
    "client certificate": ((*ENTERPRISE[:10], eap(REQUEST, 4, TLS, alert(45)),
                            eap(RESPONSE, 4, TLS, b"\0"), eap(FAILURE, 4)), [],
                           ["client-certificate-refused"]),
    "TLS version": ((*ENTERPRISE[:8], eap(REQUEST, 3, TLS, alert(70)),
                     eap(RESPONSE, 3, TLS, b"\0"), eap(FAILURE, 3)), [], ["tls-version-refused"]),
    "distrust in TLS 1.3": ((*ENTERPRISE[:8], eap(REQUEST, 3, TLS, SERVER_HELLO_1_3),
                             eap(RESPONSE, 3, TLS, ENCRYPTED_ALERT), eap(FAILURE, 3)), [],
                            ["server-not-trusted"]),
    "client certificate in TLS 1.3": (
        (*ENTERPRISE[:8], eap(REQUEST, 3, TLS, SERVER_HELLO_1_3),
         eap(RESPONSE, 3, TLS, tls(record(23, bytes(700)))), eap(REQUEST, 4, TLS, ENCRYPTED_ALERT),
         eap(RESPONSE, 4, TLS, b"\0"), eap(FAILURE, 4)), [], ["client-certificate-refused"]),
    "certificate without an alert in TLS 1.3": (
        (*ENTERPRISE[:8], eap(REQUEST, 3, TLS, SERVER_HELLO_1_3),
         eap(RESPONSE, 3, TLS, tls(record(23, bytes(700)))), eap(FAILURE, 3)), [],
        ["client-certificate-refused"]),
    "certificate without an alert": ((*ENTERPRISE[:10], eap(FAILURE, 3)), [],
                                     ["client-certificate-refused"]),
    "rejected": ((*ENTERPRISE[:12], eap(FAILURE, 4)), [], ["rejected-by-server"]),
    "reject delay": ((*ENTERPRISE[:12], eap(FAILURE, 4)), [(12, 1.0)],
                     ["reject-delay", "rejected-by-server"]),
    "SAE passphrase refused": (
        (authentication(1, algorithm=3), authentication(1, algorithm=3, sender=BSS),
         authentication(2, algorithm=3, sender=STATION),
         authentication(2, algorithm=3, sender=BSS, status=15)), [], ["wrong-passphrase"]),
    "group key hidden": ((*PERSONAL, management(0x0C, BSS, STATION, BSS, b"\x10\0")), [(8, 9.0)],
                         ["deauthenticated", "group-rekey-failed"]),
    "Nak": ((*ENTERPRISE[:6], eap(REQUEST, 2, MD5, b"\x10" + bytes(16)),
             eap(RESPONSE, 2, NAK, b"\x0d"), eap(REQUEST, 3, TLS, b"\x20")), [],
            ["eap-method-refused"]),
    "identity": ((*ENTERPRISE[:4], eap(REQUEST, 1, IDENTITY), eap(REQUEST, 1, IDENTITY),
                  *ENTERPRISE[5:]), [(5, 3.0), (6, 1.5)], ["identity-unanswered"]),
    "identity lost": ((*ENTERPRISE[:4], eap(REQUEST, 1, IDENTITY), *ENTERPRISE[4:]), [(5, 3.0)],
                      ["eap-message-lost"]),
    "request lost": ((*ENTERPRISE[:5], eapol(1, b"", from_station=True), *ENTERPRISE[4:]),
                     [(5, 1.5)], ["eap-message-lost"]),
    "late twice": ((*ENTERPRISE[:7], ENTERPRISE[6], *[ENTERPRISE[7]] * 2, *ENTERPRISE[8:]),
                   [(7, 2.0)], ["late-station"]),
    "hello refused": ((*ENTERPRISE[:8], eap(FAILURE, 2)), [], ["tls-refused"]),
    "silence": ((*ENTERPRISE[:8], management(0x0C, STATION, BSS, BSS, b"\3\0")), [(8, 20.0)],
                ["radius-unanswered"]),
    "silence and again": ((*ENTERPRISE[:8], eap(REQUEST, 9, IDENTITY),
                           eap(RESPONSE, 9, IDENTITY, b"user")), [(8, 30.0)],
                          ["radius-unanswered"]),
    "silence of a large message": (
        (*ENTERPRISE[:9], eap(RESPONSE, 3, TLS, tls(handshake(11, bytes(1300)))),
         eap(REQUEST, 9, IDENTITY)), [(10, 30.0)], ["eap-fragment-lost"]),
    "denied twice": ((authentication(1), authentication(2, status=1), authentication(1),
                      authentication(2, status=1)), [(2, 3.0)], ["association-refused"]),
    "encrypted stall": (
        (*ENTERPRISE[:8], eap(REQUEST, 3, TLS, SERVER_HELLO_1_3),
         eap(RESPONSE, 3, TLS, tls(record(23, bytes(700)))),
         eap(REQUEST, 4, TLS, ENCRYPTED_ALERT), eap(RESPONSE, 4, TLS, b"\0"), eap(SUCCESS, 4),
         *FOUR), [(10, 0.9)], ["server-stall-after-certificate"]),
    "EAP lost": ((*ENTERPRISE[:7], ENTERPRISE[6], *ENTERPRISE[7:]), [(7, 1.0)],
                 ["eap-message-lost"]),
    "fragment": ((*ENTERPRISE[:9], eap(RESPONSE, 3, TLS, tls(handshake(11, bytes(1300)))),
                  ENTERPRISE[8], *ENTERPRISE[9:]), [(10, 1.0)], ["eap-fragment-lost"]),
    "refused": ((authentication(1), authentication(2), association(),
                 association(response=True, status=17)), [], ["association-refused"]),
    "deauthentication": ((*PERSONAL, management(0x0C, BSS, STATION, BSS, b"\4\0")), [(8, 9.0)],
                         ["deauthenticated"]),
    "group key": ((*PERSONAL, *[key(1, group=True)] * 3), [(8, 30.0), (9, 1.0), (10, 1.0)],
                  ["group-rekey-failed"]),
    "cached key": ((*joined(1, keys=1), *ENTERPRISE[4:]), [], ["pmksa-miss"])}


@pytest.mark.parametrize("name", CHANGED)
def test_changed_exchange_has_its_cause(name: str, tmp_path: Path) -> None:
    """The cause comes first, and nothing else is found."""
    frames, waits_s, expected = CHANGED[name]
    negotiations = explain(tmp_path, spaced(*frames, waits_s=waits_s))
    assert causes(negotiations) == expected, negotiations


ROAMED = tuple(frame.replace(BSS, OTHER_BSS) for frame in ENTERPRISE)


@pytest.mark.parametrize(("elements", "expected"), [
    ((rsn(3) + domain(1), rsn(3) + domain(1)), ["ft-not-used"]),
    ((rsn(1), rsn(1)), [])])
def test_shortcut_that_was_offered_and_not_taken(elements: tuple[bytes, bytes],
                                                 expected: list[str], tmp_path: Path) -> None:
    """A roam with a full authentication: only an access point that offers FT makes a finding."""
    beacons = [(0.5, beacon(BSS, elements[0])), (0.6, beacon(OTHER_BSS, elements[1]))]
    negotiations = explain(tmp_path, [*beacons, *spaced(*ENTERPRISE),
                                      *spaced(*ROAMED, start_s=20.0)])
    assert negotiations[1]["previous"] == BSS.hex(":")
    assert causes(negotiations) == expected


def test_mobility_domains_that_differ(tmp_path: Path) -> None:
    """The station takes fast transition's AKM at both, but in two domains."""
    frames = [frame.replace(rsn(1), rsn(3)) for frame in ENTERPRISE]
    roamed = [frame.replace(rsn(1), rsn(3)) for frame in ROAMED]
    beacons = [(0.5, beacon(BSS, rsn(3) + domain(1))), (0.6, beacon(OTHER_BSS, rsn(3) + domain(2)))]
    assert causes(explain(tmp_path, [*beacons, *spaced(*frames), *spaced(
        *roamed, start_s=20.0)])) == ["ft-other-domain"]


def test_missing_key_of_fast_transition(tmp_path: Path) -> None:
    """Status 53 in the access point's answer."""
    refused = [authentication(1, bss=OTHER_BSS, algorithm=2),
               authentication(2, bss=OTHER_BSS, algorithm=2, status=53)]
    assert causes(explain(tmp_path, [*spaced(*PERSONAL), *spaced(*refused, start_s=20.0)])) == [
        "ft-key-missing"]


@pytest.mark.parametrize(("number", "expected"), [(1, "ft-key-missing"), (2, "ft-other-domain")])
def test_unanswered_fast_transition(number: int, expected: str, tmp_path: Path) -> None:
    """The station returns to the old access point, which is no roam."""
    beacons = [(0.5, beacon(BSS, rsn(3) + domain(1))),
               (0.6, beacon(OTHER_BSS, rsn(3) + domain(number)))]
    asked = [authentication(1, bss=OTHER_BSS, algorithm=2)] * 3
    negotiations = explain(tmp_path, [*beacons, *spaced(*ENTERPRISE), *spaced(
        *asked, start_s=20.0), *spaced(*ENTERPRISE, start_s=21.0)])
    assert [each["previous"] for each in negotiations] == ["", BSS.hex(":"), ""]
    assert causes(negotiations[1:2]) == causes(negotiations) == [expected]


@pytest.mark.parametrize(("retried", "expected"), [(8, ["roam-too-late"]), (2, [])])
def test_roam_after_retries(retried: int, expected: list[str], tmp_path: Path) -> None:
    """The last ten data frames with the old access point."""
    sent = [(5 + place / 10, data(bytes(40), from_station=True, protected=True,
                                  retry=place < retried)) for place in range(10)]
    roamed = [frame.replace(BSS, OTHER_BSS) for frame in PERSONAL]
    assert causes(explain(tmp_path, [*spaced(*PERSONAL), *sent, *spaced(
        *roamed, start_s=20.0)])) == expected


@pytest.mark.parametrize(("last_s", "expected"), [(3.0, ["long-scan"]), (2.1, [])])
def test_long_scan(last_s: float, expected: list[str], tmp_path: Path) -> None:
    """Probe requests over a second, or a tenth of one."""
    probes = [(at_s, management(4, STATION, BROADCAST, BROADCAST, b"\0\0\1\1\x82"))
              for at_s in (2.0, last_s)]
    assert causes(explain(tmp_path, [*probes, *spaced(*PERSONAL, start_s=4.0)])) == expected


# --- Above the link: DHCP, ARP, IKE, Kerberos, WireGuard, RADIUS ---

ETHERNET = bytes.fromhex("0200000000a0") + STATION
CLIENT, SERVER, HOME = bytes((10, 0, 0, 2)), bytes((10, 0, 0, 1)), bytes((10, 0, 0, 3))


def udp(content: bytes, port: int, *, answer: bool = False, server: bytes = SERVER,
        source_port: int | None = None, client: bytes = CLIENT) -> bytes:
    """An Ethernet frame with a UDP datagram between client and server."""
    ends = (server, client) if answer else (client, server)
    ports = (port, source_port or port) if answer else (source_port or port, port)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(content), 1, 0, 64, 17, 0) + b"".join(ends)
    return (ETHERNET + b"\x08\x00" + head + struct.pack("!HHHH", *ports, 8 + len(content), 0)
            + content)


def ike(exchange: int, number: int, *, answer: bool = False, notify: int | None = None,
        spi: bytes = b"initiate") -> bytes:
    """An IKEv2 message, with a notification if there is one."""
    payload = b"" if notify is None else struct.pack("!BBHBBH", 0, 0, 8, 0, 0, notify)
    return udp(spi + (b"respond!" if answer else bytes(8)) + struct.pack(
        "!BBBBII", 41 if payload else 0, 0x20, exchange, 0x20 if answer else 0x08, number,
        28 + len(payload)) + payload, 500, answer=answer)


def dhcp(kind: int, *, answer: bool = False, server: bytes = SERVER) -> bytes:
    """A DHCP message of the station's, or of a server's that names itself."""
    content = (struct.pack("!BBBBIHH", 2 if answer else 1, 1, 6, 0, 7, 0, 0) + bytes(16) + STATION
               + bytes(202) + b"\x63\x82\x53\x63" + bytes((53, 1, kind))
               + (b"\x36\4" + server) * answer + b"\xff")
    return udp(content, 67, answer=answer, source_port=68, server=server)



def radius(code: int, number: int, *, server: bytes = SERVER, client: bytes = CLIENT) -> bytes:
    """A RADIUS message without EAP, for the station."""
    attributes = b"\x1f\x13" + b"02-00-00-00-00-A2".ljust(17) if code == 1 else b""
    return udp(struct.pack("!BBH", code, number, 20 + len(attributes)) + bytes(16) + attributes,
               1812, answer=code != 1, server=server, source_port=40000, client=client)


INIT, AUTH = 34, 35
ABOVE: dict[str, tuple[Sequence[bytes], Sequence[tuple[int, float]], list[str]]] = {
    "IKE": ((ike(INIT, 0), ike(INIT, 0, answer=True), ike(AUTH, 1), ike(AUTH, 1, answer=True)),
            [], []),
    "no proposal": ((ike(INIT, 0), ike(INIT, 0, answer=True, notify=14)), [],
                    ["ike-no-proposal"]),
    "IKE authentication": ((ike(INIT, 0), ike(INIT, 0, answer=True), ike(AUTH, 1),
                            ike(AUTH, 1, answer=True, notify=24)), [],
                           ["ike-authentication-failed"]),
    "IKE group": ((ike(INIT, 0), ike(INIT, 0, answer=True, notify=17)), [],
                  ["ike-group-refused"]),
    "IKE lost": ((ike(INIT, 0), ike(INIT, 0), ike(INIT, 0, answer=True)), [(1, 4.0)],
                 ["ike-retransmission"]),
    "DHCP": ((dhcp(1), dhcp(2, answer=True), dhcp(3), dhcp(5, answer=True)), [], []),
    "slow DHCP": ((dhcp(1), dhcp(2, answer=True), dhcp(3), dhcp(5, answer=True)), [(1, 3.0)],
                  ["dhcp-slow"]),
    "DHCP lost": ((dhcp(1), dhcp(1), dhcp(2, answer=True), dhcp(3), dhcp(5, answer=True)),
                  [(1, 0.5)], ["dhcp-slow"]),
    "two DHCP servers": ((dhcp(1), dhcp(2, answer=True), dhcp(2, answer=True, server=HOME),
                          dhcp(3), dhcp(5, answer=True)), [(2, 0.02)], []),
    "DHCP Nak": ((dhcp(3), dhcp(6, answer=True)), [], ["dhcp-refused"]),
    "RADIUS": ((radius(1, 1), radius(2, 1)), [], []),
    "late RADIUS": ((radius(1, 1), radius(2, 1)), [(1, 0.7)], ["late-radius"]),
    "RADIUS unanswered": ((radius(1, 1), radius(1, 1)), [(1, 3.0)],
                          ["radius-unanswered", "radius-retransmission"]),
    "RADIUS again": ((radius(1, 1), radius(1, 1), radius(2, 1)), [(1, 3.0)],
                     ["radius-retransmission"]),
    "failover": ((radius(1, 1), radius(1, 2, server=HOME)), [(1, 5.0)], ["radius-failover"]),
    "proxy": ((radius(1, 1), radius(1, 1, client=SERVER, server=HOME),
               radius(2, 1, client=SERVER, server=HOME), radius(2, 1)), [], []),
    "failover of a proxy": ((radius(1, 1), radius(1, 1, client=SERVER, server=HOME),
                             radius(1, 1, client=SERVER, server=b"\x0a\0\0\4"),
                             radius(2, 1, client=SERVER, server=b"\x0a\0\0\4"), radius(2, 1)),
                            [(2, 0.4)], ["radius-failover"])}


@pytest.mark.parametrize("name", ABOVE)
def test_exchange_above_the_link_has_its_cause(name: str, tmp_path: Path) -> None:
    """The same exchange without its fault has no finding."""
    frames, waits_s, expected = ABOVE[name]
    negotiations = explain(tmp_path, spaced(*frames, waits_s=waits_s), made_up_captures.ETHERNET)
    assert causes(negotiations) == expected, negotiations


def wireguard(kind: int, *, answer: bool = False) -> bytes:
    """A WireGuard message of its size."""
    size = {1: 148, 2: 92, 4: 64}[kind]
    return udp(bytes((kind, 0, 0, 0)) + b"\1" * (size - 4), 51820, answer=answer)


@pytest.mark.parametrize(("idle_s", "expected"), [(300.0, ["wireguard-after-idle"]), (20.0, [])])
def test_wireguard_after_idle(idle_s: float, expected: list[str], tmp_path: Path) -> None:
    """A handshake, data, and another handshake after a while."""
    frames = spaced(wireguard(1), wireguard(2, answer=True), wireguard(4), wireguard(1),
                    wireguard(2, answer=True), waits_s=[(3, idle_s)])
    assert causes(explain(tmp_path, frames, made_up_captures.ETHERNET)) == expected


def test_wireguard_without_answer(tmp_path: Path) -> None:
    """The initiation is repeated after five seconds."""
    frames = spaced(wireguard(1), wireguard(1), wireguard(2, answer=True), waits_s=[(1, 5.0)])
    assert causes(explain(tmp_path, frames, made_up_captures.ETHERNET)) == ["wireguard-unanswered"]


@pytest.mark.parametrize(("flags", "expected"), [(0x11, ["power-save"]), (0x01, ["late-radius"])])
def test_sleep_during_the_negotiation(flags: int, expected: list[str], tmp_path: Path) -> None:
    """A null frame with the power management bit in the gap, and the same without the bit."""
    null = bytes((0x48, flags)) + b"\0\0" + BSS + STATION + BSS + b"\0\0"
    frames = spaced(*ENTERPRISE[:8], null, *ENTERPRISE[8:], waits_s=[(9, 0.9)])
    assert causes(explain(tmp_path, frames)) == expected


def test_arp_without_answer(tmp_path: Path) -> None:
    """Three requests for the first hop after an open association."""
    arp = b"\xaa\xaa\3\0\0\0\x08\x06" + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + (
        STATION + CLIENT + bytes(6) + SERVER)
    request = data(arp, from_station=True)
    opened = [authentication(1), authentication(2), association(), association(response=True)]
    for count, expected in ((3, ["arp-stall"]), (1, [])):
        frames = spaced(*opened, *[request] * count, waits_s=[(5, 1.0), (6, 1.0)])
        assert causes(explain(tmp_path, frames)) == expected


@pytest.mark.parametrize("sender", [bytes(4), CLIENT])
def test_arp_probes_and_announcements_expect_no_answer(sender: bytes, tmp_path: Path) -> None:
    """Stations probe for their own address after DHCP, and announce it (RFC 5227)."""
    arp = b"\xaa\xaa\3\0\0\0\x08\x06" + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + (
        STATION + sender + bytes(6) + CLIENT)
    opened = [authentication(1), authentication(2), association(), association(response=True)]
    frames = spaced(*opened, *[data(arp, from_station=True)] * 3, waits_s=[(5, 1.0), (6, 1.0)])
    assert causes(explain(tmp_path, frames)) == []


@pytest.mark.parametrize(("is_protected", "text"), [
    (False, "reason 4 (inactivity)"), (True, "whose reason is encrypted")])
def test_reason_of_the_end(tmp_path: Path, text: str, *, is_protected: bool) -> None:
    """A protected deauthentication hides it."""
    body = b"\1\0\0\x20" + bytes(14) if is_protected else struct.pack("<H", 4)
    end = bytearray(management(0x0C, BSS, STATION, BSS, body))
    end[1] |= 0x40 * is_protected
    (each,) = explain(tmp_path, spaced(*PERSONAL, bytes(end), waits_s=[(len(PERSONAL), 2.0)]))
    (finding,) = each["findings"]
    assert finding["text"] == f"the access point ends with deauthentication, {text}"


def on_air(frame: bytes, *, from_station: bool) -> bytes:
    """The IP packet of an Ethernet frame in a data frame of 802.11."""
    return data(b"\xaa\xaa\3\0\0\0\x08\x00" + frame[14:], from_station=from_station)


@pytest.mark.parametrize(("later", "waits_s", "kinds"), [
    ((8, 5), [], ["802.11"]), ((8, 8, 5), [(8, 5.0), (9, 3.0)], ["802.11"]),
    ((3, 5), [(8, 1800.0)], ["802.11", "DHCP"])])
def test_dhcp_on_the_air_after_its_exchange(later: tuple[int, ...], kinds: list[str],
                                            waits_s: list[tuple[int, float]],
                                            tmp_path: Path) -> None:
    """An Inform is no repetition, and a renewal half an hour later no part of joining."""
    frames = spaced(authentication(1), authentication(2), association(), association(response=True),
                    *(on_air(dhcp(kind, answer=kind in (2, 5)), from_station=kind not in (2, 5))
                      for kind in (1, 2, 3, 5, *later)), waits_s=waits_s)
    negotiations = explain(tmp_path, frames)
    assert [each["kind"] for each in negotiations] == kinds
    assert causes(negotiations) == []


@pytest.mark.parametrize("answers", [(), (struct.pack("<H", 53),)], ids=("unanswered", "refused"))
def test_access_point_in_use_keeps_what_follows_a_request_over_the_ds(answers: tuple[bytes, ...],
                                                                      tmp_path: Path) -> None:
    """Data, DHCP and the end are the same as after Action frames that request nothing."""
    def explain_with(category: bytes) -> list[dict[str, Any]]:
        target = STATION + OTHER_BSS
        frames = [
            *joined(), on_air(dhcp(8), from_station=True),
            management(0x0D, STATION, BSS, BSS, category + b"\1" + target),
            *(management(0x0D, BSS, STATION, BSS, category + b"\2" + target + status)
              for status in answers),
            *[data(b"\xaa\xaa\3\0\0\0\x88\xb5", from_station=True)] * 5,
            *(on_air(dhcp(kind, answer=kind in (2, 5)), from_station=kind in (1, 3))
              for kind in (1, 2, 3, 5)),
            management(0x0C, BSS, STATION, BSS, b"\3\0")]
        return explain(tmp_path, spaced(*frames, waits_s=[(len(frames) - 4, 3.0)]))
    (expected,) = explain_with(b"\5")
    used, request = explain_with(b"\6")
    assert used == expected
    assert "10 data frames: 10 in clear" in expected["policy"]["evidence"]
    assert {"dhcp-slow", "deauthenticated"} <= {*causes([used])}
    assert (request["previous"], request["outcome"]) == (used["peer"], "cannot tell")


def test_other_cipher_than_agreed_is_not_in_force(tmp_path: Path) -> None:
    """CCMP was agreed, and the frames have WEP's header."""
    frame = data(bytes(40), from_station=True, protected=True)
    for sent, expected in ((frame, "yes"), (frame.replace(b"\1\0\0\x20", b"\1\2\3\0"), "no")):
        (each,) = explain(tmp_path, spaced(*PERSONAL, sent, sent))
        assert each["policy"]["in_force"] == expected, each["policy"]


# --- The page of causes ---


def test_every_cause_is_on_the_page() -> None:
    """The page explains exactly the causes that can be found."""
    source = "".join(file.read_text() for file in (PROJECT / "measure/explain").glob("causes*.py"))
    named = set(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)+|deauthenticated)"', source))
    page = (PROJECT / "docs/explain-causes.md").read_text()
    assert named == set(re.findall(r"^### `([a-z0-9-]+)`", page, re.MULTILINE))


@pytest.mark.parametrize(("file", "session"), [
    ("eap_tls/M13.pcap", "full"), ("eap_tls/M13-resumed.pcap", "resumed"),
    ("eap_tls/M5.pcap", "full"), ("eapload2004/full-mn.pcap", "full"),
    ("eapload2004/resumed-mn.pcap", "resumed")])
def test_resumed_tls_session_is_told_from_a_full_one(file: str, session: str) -> None:
    document = explain_captures([recorded.TOOLS / file]).to_document()
    policies = [each["policy"] for each in document["negotiations"] if each["policy"]["tls"]]
    assert {each["session"] for each in policies} == {session}
    assert {each["title"].endswith("resumed") for each in policies} == {session == "resumed"}


@pytest.mark.parametrize("is_resumed", [False, True])
def test_resumed_session_of_tls_1_3_has_a_pre_shared_key(tmp_path: Path, *,
                                                         is_resumed: bool) -> None:
    """The rest of its handshake is encrypted (RFC 8446, 4.2.11)."""
    extensions = b"\0\x2b\0\2\3\4" + b"\0\x29\0\2\0\0" * is_resumed
    hello = handshake(2, b"\3\3" + bytes(32) + b"\0\x13\1\0"
                      + struct.pack("!H", len(extensions)) + extensions)
    frames = (*ENTERPRISE[:8], eap(REQUEST, 3, TLS, tls(hello)), *ENTERPRISE[9:])
    (each,) = explain(tmp_path, spaced(*frames))
    assert each["policy"]["session"] == ("resumed" if is_resumed else "full")


def radiotap(frame: bytes, *, rate_mbps: float = 1.0, channel: int = 2437) -> bytes:
    """A frame with the radio's rate and channel."""
    return struct.pack("<BBHIBBHH", 0, 0, 14, 0x0C, int(2 * rate_mbps), 0, channel, 0x00A0) + frame


CAPABLE, REQUIRED = 0x80, 0xC0


@pytest.mark.parametrize(("offered", "asked", "status", "cause", "text"), [
    (rsn(2, capabilities=REQUIRED), rsn(2), 31, "pmf-mismatch",
     "PMF is required at the access point and off at the station"),
    (rsn(2), rsn(2, capabilities=REQUIRED), 1, "pmf-mismatch",
     "PMF is off at the access point and required at the station"),
    (rsn(2, capabilities=REQUIRED), rsn(2), 40, "pmf-mismatch", ""),
    (rsn(2, capabilities=REQUIRED), rsn(2), 17, "association-refused", ""),
    (rsn(2, capabilities=CAPABLE), rsn(2), 1, "association-refused", ""),
    (rsn(8, capabilities=REQUIRED), rsn(2), 43, "akm-mismatch",
     "the station asks for PSK, and the beacons offer SAE"),
    (rsn(8, capabilities=REQUIRED), rsn(2), 1, "akm-mismatch", ""),
    (b"", rsn(2), 43, "akm-mismatch", "the station asks for PSK"),
    (b"", rsn(2), 31, "pmf-mismatch", ""),
    (b"", rsn(2), 1, "association-refused", ""),
    (rsn(2), rsn(2), 42, "cipher-mismatch", "the station asks for CCMP")],
    ids=lambda value: "RSN" if isinstance(value, bytes) else str(value))
def test_refused_association_names_what_does_not_match(
        offered: bytes, asked: bytes, status: int, cause: str, text: str, tmp_path: Path) -> None:
    """A general status is decided by the beacons and the request, where they differ."""
    frames = (*[beacon(BSS, offered)] * bool(offered), authentication(1), authentication(2),
              association(elements=asked), association(response=True, status=status))
    (each,) = explain(tmp_path, spaced(*frames))
    (finding,) = each["findings"]
    assert finding["cause"] == cause
    assert text in finding["text"]
    assert finding["frames"][-1]["frame"] == len(frames)


@pytest.mark.parametrize(("reason", "cause"), [
    (20, "akm-mismatch"), (18, "cipher-mismatch"), (22, "pmf-mismatch"), (2, None)])
def test_reason_of_an_end_names_what_does_not_match(reason: int, cause: str | None,
                                                    tmp_path: Path) -> None:
    end = management(0x0C, BSS, STATION, BSS, struct.pack("<H", reason))
    frames = (beacon(BSS, rsn(2, capabilities=REQUIRED)), *joined(2), key(1), end)
    (each,) = explain(tmp_path, spaced(*frames))
    assert {finding["cause"] for finding in each["findings"]} == {
        "deauthenticated", *[cause] * bool(cause)}


@pytest.mark.parametrize(("status", "cause"), [(13, "akm-mismatch"), (1, "wrong-passphrase")])
def test_refused_sae_is_no_wrong_passphrase_if_it_is_not_supported(status: int, cause: str,
                                                                   tmp_path: Path) -> None:
    frames = (authentication(1, algorithm=3),
              authentication(1 if status == 13 else 2, algorithm=3, status=status, sender=BSS))
    if status == 1:
        frames = (frames[0], authentication(1, algorithm=3, sender=BSS),
                  authentication(2, algorithm=3, sender=STATION), frames[1])
    (each,) = explain(tmp_path, spaced(*frames))
    assert [finding["cause"] for finding in each["findings"]] == [cause]


@pytest.mark.parametrize(("others", "channel", "wait_s", "expected"), [
    (30, 2437, 0.05, ["busy-channel"]), (3, 2437, 0.05, []), (30, 2462, 0.05, []),
    (30, 2437, 0.001, [])])
def test_slow_negotiation_among_frames_of_others_is_on_a_busy_channel(
        others: int, channel: int, wait_s: float, expected: list[str], tmp_path: Path) -> None:
    """30 frames of 1000 bytes at 1 Mbit/s take 0.25 s of 0.4 s. A quick one waits for nothing."""
    waits = [(place, wait_s) for place in range(1, len(PERSONAL))]
    frames = [(at_s, radiotap(frame)) for at_s, frame in spaced(*PERSONAL, waits_s=waits)]
    end_s = frames[-1][0]
    foreign = bytes((8, 1)) + b"\0\0" + b"\2" * 18 + b"\0\0" + bytes(1000)
    frames += [(1.0 + (end_s - 1.0) * (number + 1) / (others + 2),
                radiotap(foreign, channel=channel)) for number in range(others)]
    found = explain(tmp_path, sorted(frames), made_up_captures.RADIOTAP)
    assert causes(found) == expected
    if expected:
        (finding,) = found[0]["findings"]
        assert re.match(r"frames of others fill \d\d% of the 0\.350 s on channel 6",
                        finding["text"])


@pytest.mark.parametrize(("load", "wait_s", "expected"), [
    (200, 0.05, ["busy-channel"]), (100, 0.05, []), (200, 0.001, [])])
def test_access_point_states_that_the_channel_is_busy(
        load: int, wait_s: float, expected: list[str], tmp_path: Path) -> None:
    """By the BSS Load element of its beacons."""
    waits = [(place, wait_s) for place in range(1, len(PERSONAL) + 1)]
    element = struct.pack("<BBHBH", 11, 5, 3, load, 0)
    frames = spaced(beacon(BSS, rsn(2) + element), *PERSONAL, waits_s=waits)
    found = explain(tmp_path, frames)
    assert causes(found) == expected
    for each in found[0]["findings"]:
        assert "utilization of 78%" in each["text"]
        assert each["frames"] == [{"capture": "a.pcap", "frame": 1}]


def test_radius_without_eap_is_whole(tmp_path: Path) -> None:
    """An access accept ends it, and accounting (codes 4 and 5) is none of it."""
    frames = [*spaced(radius(1, 1), radius(2, 1)), (30.0, radius(4, 2)), (31.0, radius(5, 2))]
    (each,) = explain(tmp_path, frames, made_up_captures.ETHERNET)
    assert (each["outcome"], each["is_from_start"]) == ("success", True)
    assert each["policy"]["title"] == ""


def test_capture_of_radius_from_its_first_request_has_the_beginning() -> None:
    """The first request has the station's identity."""
    document = explain_captures([recorded.path("P12", "auth-wire")]).to_document()
    (each,) = (each for each in document["negotiations"] if each["kind"] == "RADIUS")
    assert each["is_from_start"]


def test_keys_of_wep_on_a_wire_are_of_the_access_point() -> None:
    """They follow EAP, and begin no negotiation of another station."""
    document = explain_captures([recorded.path("P12", "auth-mn")]).to_document()
    (each,) = (each for each in document["negotiations"] if each["kind"] == "802.1X on a wire")
    assert [phase["name"] for phase in each["phases"]] == ["eap", "keys"]


def test_joining_after_dhcp_without_an_answer_is_another_negotiation(tmp_path: Path) -> None:
    """The station joins again because it gets no address, and no frame ends the first attempt."""
    frames = [*spaced(*PERSONAL), (12.0, on_air(dhcp(1), from_station=True)),
              *spaced(*PERSONAL, start_s=20.0)]
    negotiations = explain(tmp_path, frames)
    assert [each["start"]["time_s"] for each in negotiations] == [1.0, 20.0]
    assert all(each["duration_s"] < 1 for each in negotiations)
