"""Recomputes goodput and negotiations from a results folder's captures, sharing no code with qop.

    python3 tests/recompute.py RESULTS [SHARE]

reads the captures byte by byte with the standard library alone and prints, for each record, by
which share its numbers differ from what is computed here. Status 1 where one differs by more than
SHARE (0.01). Captures have to be whole (`--captures all`), and IPsec the paper's (3DES, an HMAC of
96 bits).
"""

from __future__ import annotations

import gzip
import json
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

EAPOL, IPV4 = 0x888E, 0x0800
IP_IN_IP, TCP, UDP, ESP = 4, 6, 17, 50
IPERF, MOBILE_IP, IKE, NAT_TRAVERSAL = 5201, 434, 500, 4500
_NO_ETHERNET = b"\0" * 12 + struct.pack(">H", IPV4)
#: ESP around a packet: outer header, SPI and number, IV, ICV, trailer of two, half of 7 of padding.
_ESP_BYTES = 20 + 8 + 8 + 12 + 2 + 3.5
_HEADERS_BYTES = 20 + 32


class Datagram(NamedTuple):
    """An IPv4 packet: its protocol, total length and what it carries."""

    protocol: int
    length: int
    payload: bytes


def frames(path: Path) -> Iterator[tuple[float, bytes, int]]:
    """Seconds, bytes held and length on the wire of each frame of a pcap, compressed or not."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    unit = {0xA1B2C3D4: 1e-6, 0xA1B23C4D: 1e-9}[struct.unpack_from("<I", data)[0]]
    at = 24
    while at < len(data):
        seconds, part, held, length = struct.unpack_from("<IIII", data, at)
        yield seconds + part * unit, data[at + 16:at + 16 + held], length
        at += 16 + held


def datagram(frame: bytes) -> Datagram | None:
    """The innermost IPv4 packet of IP-in-IP in an Ethernet frame, if it has one."""
    if len(frame) < 34 or int.from_bytes(frame[12:14], "big") != IPV4:
        return None
    packet = Datagram(frame[23], int.from_bytes(frame[16:18], "big"),
                      frame[14 + (frame[14] & 15) * 4:])
    if packet.protocol == IP_IN_IP:
        return datagram(_NO_ETHERNET + packet.payload)
    return packet


def ports(packet: Datagram) -> tuple[int, int]:
    """Source and destination port of TCP or UDP."""
    return struct.unpack_from(">HH", packet.payload) if len(packet.payload) >= 4 else (0, 0)


def negotiations(path: Path, moved: float) -> dict[str, tuple[float, int]]:
    """Seconds and packets of 802.1X, registration, IKE, at home and (`foreign_`) after the move."""
    seen: dict[str, list[float]] = {}
    eapol: dict[str, list[float]] = {}
    registered = set()
    for at, frame, _ in frames(path):
        place = "foreign_" if at >= moved else ""
        if int.from_bytes(frame[12:14], "big") == EAPOL:
            eapol.setdefault(place, []).append(at)
            is_key, is_end = frame[15] == 3, frame[15] == 0 and frame[18] in (3, 4)
            if is_key or is_end:
                seen[f"{place}eapol"] = list(eapol[place])
            continue
        packet = datagram(frame)
        if packet is None or packet.protocol != UDP:
            continue
        message = packet.payload[8:]
        if MOBILE_IP in ports(packet) and place not in registered:
            seen.setdefault(f"{place}registration", []).append(at)
            if message[0] == 3 and message[1] in (0, 1):
                registered.add(place)
        elif IKE in ports(packet) or (NAT_TRAVERSAL in ports(packet) and not any(message[:4])):
            seen.setdefault(f"{place}ike", []).append(at)
    return {name: (times[-1] - times[0], len(times)) for name, times in seen.items()}


def udp_bps(path: Path, begin: float, end: float) -> float:
    """What arrived at the peer, over the time in which it did: n packets in n - 1 gaps."""
    arrived = [(at, len_of) for at, frame, _ in frames(path) if begin <= at <= end
               and (packet := datagram(frame)) and packet.protocol == UDP
               and ports(packet)[1] == IPERF
               for len_of in [int.from_bytes(packet.payload[4:6], "big") - 8]]
    size = Counter(length for _, length in arrived).most_common(1)[0][0]
    times = [at for at, length in arrived if length == size]
    lasted = (times[-1] - times[0]) * len(times) / (len(times) - 1)
    return len(times) * size * 8 / lasted


def tcp_bytes(folder: Path, begin: float, end: float, lasted: float) -> tuple[float, float]:
    """What reached the peer in as long as iperf3 counted: full segments on the path's last hop.

    A station's is the air, whose frames from the access point are captured when they arrive, in the
    order of the wire before it. At least and at most: what is past a gap no program can read, and
    how much that is, encrypted numbers do not tell.
    """
    wire = folder / "traffic-far.pcap.gz"
    if not wire.exists():
        wire = folder / "traffic-wire.pcap.gz"
    packets = [(at, packet) for at, frame, _ in frames(wire) if begin <= at <= end
               and (packet := datagram(frame)) and packet.protocol in (TCP, ESP)]
    longest = max(packet.length for _, packet in packets)
    full = [(at, packet) for at, packet in packets if packet.length == longest]
    segment = longest - _HEADERS_BYTES - (_ESP_BYTES if full[0][1].protocol == ESP else 0)
    times, downlink = [at for at, _ in full], []
    for at, frame, length in frames(folder / "traffic-air.pcap.gz"):
        header = frame[int.from_bytes(frame[2:4], "little"):]
        is_from_ap = len(header) >= 24 and header[0] >> 2 & 3 == 2 and header[1] & 3 == 2
        if begin <= at <= end and is_from_ap:
            downlink.append((at, length))
    long = [at for at, length in downlink if length > longest]
    if 4 * len(long) > len(times):  # where it is one access point, its wire has each packet twice
        times = long
    arrived = sum(at <= times[0] + lasted for at in times)
    if full[0][1].protocol == ESP:
        unread = _past_the_gap(_acknowledgements(wire, begin, end, longest), times[0] + lasted)
        return segment * (arrived - unread), segment * arrived
    numbers = [int.from_bytes(packet.payload[4:8], "big") for _, packet in full]
    # What was sent again had been lost behind the access point: its last copy arrived.
    last = {number: at for at, number in enumerate(numbers)}
    size = _readable([number for at, number in enumerate(numbers) if last[number] == at][:arrived],
                     segment)
    return size, size


def _acknowledgements(wire: Path, begin: float, end: float,
                      longest: int) -> list[tuple[float, int]]:
    """When packets went the other way than full segments, and their lengths."""
    there = [(at, frame[26:30], packet.length) for at, frame, _ in frames(wire)
             if begin <= at <= end and (packet := datagram(frame)) and packet.protocol == ESP]
    sender = next(source for _, source, length in there if length == longest)
    return [(at, length) for at, source, length in there if source != sender]


def _past_the_gap(acknowledgements: list[tuple[float, int]], stop: float) -> int:
    """How many segments at most have arrived past a gap that is open when it ends.

    Each has an acknowledgement of its own, which is longer, as it says what has arrived (RFC 2018).
    Those of the last before the end may still be on their way. A usual one alone does not close the
    gap: it may be iperf3's other connection's, by which it is told of the end. What is shorter has
    no stamps, and refuses what comes after that.
    """
    usual = Counter(length for _, length in acknowledgements).most_common(1)[0][0]
    run = since = 0
    for at, length in acknowledgements:
        if length > usual:
            run, since = run + 1, 0
        elif at >= stop or length < usual:
            break
        else:
            since += 1
            run = run if since == 1 else 0
    return run


def _readable(numbers: list[int], segment: float) -> float:
    """Bytes up to the first gap, by the sequence numbers of full segments: what programs can read.

    Short segments stand between full ones, so a gap is one that a full segment would fit into.
    """
    end = begin = min(numbers)
    for number in sorted(set(numbers)):
        if number >= end + segment:
            break
        end = number + segment
    return end - begin


def deviations(record: dict[str, Any], folder: Path) -> dict[str, float]:
    """By which share each number of a record differs from what its captures come to."""
    measured, stamps = record["measured"], record["raw"]["stamps"]
    known = {phase["name"]: phase for phase in measured["authentications"][-1]["phases"]}
    differ = {}
    moved = stamps.get("handoff", float("inf"))
    for name, (seconds, count) in negotiations(folder / "auth-mn.pcap.gz", moved).items():
        said = next(known[phase] for phase in (
            name, name.replace("eapol", "dot1x"), name.replace("eapol", "four_way_handshake"))
            if phase in known)
        differ[name] = abs(seconds - said["duration_s"]) / seconds if count == said["packets"] \
            else float("inf")
    udp, tcp = measured["udp"], measured["tcp"]
    rate = udp_bps(folder / "traffic-peer.pcap.gz", stamps["udp_start"], stamps["udp_end"])
    differ["udp"] = abs(udp["goodput_bps"] / rate - 1)
    least, most = tcp_bytes(folder, stamps["tcp_start"], stamps["tcp_end"], tcp["duration_s"])
    said = tcp["goodput_bps"] * tcp["duration_s"] / 8
    differ["tcp"] = abs(said / min(max(said, least), most) - 1)
    return differ


def main(results: Path, share: float = 0.01) -> int:
    """Print a line a record; 1 where something differs by more than that share."""
    worst = 0.0
    files = sorted((results / "records").glob("*.json"))
    for file in files:
        record = json.loads(file.read_text())
        if record["status"] != "ok":
            print(file.stem, record["reason"], sep="  ")
            continue
        differ = deviations(record, results / "captures" / file.stem)
        worst = max(worst, *differ.values())
        print(file.stem, *(f"{name} {part:.3%}" for name, part in differ.items()), sep="  ")
    print(f"{len(files)} records; the largest difference is {worst:.3%}")
    return int(worst > share)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(float, sys.argv[2:])))
