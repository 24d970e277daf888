"""Configure the kernel's queueing disciplines (tc) that emulate Wi-Fi channels and wires.

`make_channel` makes a device emulate a Wi-Fi channel, with DCF contention and airtimes of a medium
(802.11 timing). DCF is a queueing discipline of this project (guest/sources/net/sched/sch_dcf.c).
It is configured by netlink, because the program `tc` does not know it. `set_size_table` also uses
netlink, because `tc` computes size tables for ATM only.

For wires, `wire_commands` returns `tc` commands that set rate, delay and loss. `macsec_commands`
returns those that protect a wire by MACsec. Structures are those of dcf_core.h and dcf_netlink.h in
the folder of the discipline.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from topologies.medium_model import Medium
from topologies.model import Link
from topologies.namespaces import network_of
from topologies.netlink import (
    ACK,
    DUMP,
    NetlinkSocket,
    encode_attribute,
    encode_nested,
    parse_attributes,
)

# --- Requests to a node's kernel, by netlink ---
# Layouts and numbers: linux/rtnetlink.h, linux/pkt_sched.h.

_RTM_NEWQDISC, _RTM_GETTCLASS = 36, 42
#: Additional flags to create a queueing discipline that does not exist yet.
NLM_F_CREATE_NEW = 0x600
_TC_H_ROOT = 0xFFFFFFFF
TCA_KIND, TCA_OPTIONS, TCA_STAB = 1, 2, 8
_TCA_STATS2, _TCA_STATS_APP = 7, 4
_TCMSG = struct.Struct("=BxxxiIII")


class NetlinkRequest(NamedTuple):
    """The arguments of a call of `NetlinkSocket.send_request`."""

    kind: int
    flags: int
    body: bytes


def qdisc_request(index: int, handle: int, attributes: bytes, flags: int = 0) -> NetlinkRequest:
    """Return a netlink request that creates or changes an interface's root queueing discipline."""
    return NetlinkRequest(_RTM_NEWQDISC, ACK | flags, _TCMSG.pack(
        socket.AF_UNSPEC, index, handle, _TC_H_ROOT, 0) + attributes)


def send_request(pid: int, device: str, build: Callable[[int], NetlinkRequest], what: str) -> None:
    """Send a netlink request to the kernel.

    Raises:
        OSError: The kernel refuses; the text names `what` was refused.
    """
    with network_of(pid), NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
        request = build(socket.if_nametoindex(device))
        try:
            netlink.send_request(*request)
        except OSError as error:
            raise OSError(error.errno, f"{what} refused") from None


# --- DCF channel of a medium (sch_dcf), in a guest ---

KIND = "dcf"
_TCA_DCF_CHANNEL, _TCA_DCF_TIMING, _TCA_DCF_POWER, _TCA_DCF_LINKS, _TCA_DCF_ADDRESSES, \
    _TCA_DCF_SIGNALS = range(1, 7)
#: Number of frame lengths with a known loss, and the step between them in bytes; the kernel
#: interpolates linearly.
_LOSS_STEPS, _LOSS_STEP_BYTES = 33, 72
#: Power in dBm of one unit: interference is summed in whole units.
_UNIT_DBM = -130.0
_CERTAIN = 0xFFFFFFFF
#: Received signals (dBm) in the kernel: of a frame that is not heard, and the bounds of all others.
#: 0 means that the signal is unknown.
_UNHEARD, _WEAKEST_DBM, _STRONGEST_DBM = -128, -127, -1
#: Bits of a class's handle with its number.
_MINOR = 0xFFFF
#: Largest number of radios whose power matrix fits into a netlink attribute.
_MAX_PLACED = 90
_LLC_BYTES = 8
_ETHERNET_BYTES = 14


@dataclass(frozen=True)
class DcfChannel:
    """An emulated Wi-Fi channel with contention: medium, number of stations, access points."""

    medium: Medium
    #: Highest class number; class numbers start at 1.
    stations: int
    access_points: tuple[int, ...]
    cipher_bytes: int
    seed: int
    frequency_mhz: int = 0
    #: Received power in dBm by class numbers of sender and listener; empty if all hear all
    #: equally.
    received_dbm: Mapping[tuple[int, int], float] = field(default_factory=dict)
    #: Stations and access points whose links have their own rates and losses.
    links: tuple[tuple[int, int], ...] = ()
    #: MAC addresses by class number of the radios whose management frames take airtime.
    addresses: Mapping[int, str] = field(default_factory=dict)
    #: Bytes that the cipher of frames to all adds beyond those of `cipher_bytes`.
    more_group_bytes: int = 0


def make_channel(pid: int, device: str, handle: int, channel: DcfChannel) -> None:
    """Make a device emulate a Wi-Fi channel with contention (DCF).

    Args:
        pid: A process in the device's namespace.
        device: The device.
        handle: The qdisc's handle.
        channel: The channel.

    Raises:
        OSError: The kernel refuses the request.
        RuntimeError: The kernel has no DCF or no memory, or too many radios have positions.
    """
    if channel.received_dbm and channel.stations > _MAX_PLACED:
        raise RuntimeError(f"{channel.stations} radios have positions on one channel; take "
                           f"{_MAX_PLACED} at most, or a medium without signal")
    try:
        send_request(pid, device, lambda index: build_dcf_request(index, handle, channel),
                     f"DCF on {device}")
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise RuntimeError(f"the machine has no memory for a channel of {channel.stations} "
                               "stations; take fewer, or a machine with more") from None
        if error.errno != errno.ENOENT:
            raise
        raise RuntimeError("this kernel has no 802.11 DCF; write 'air: queue' in the medium's "
                           "file, or measure in the embedded guest") from None


def reseed_backoffs(pid: int, device: str, handle: int, channel: DcfChannel) -> None:
    """Restart the random backoffs of an emulated channel from another seed.

    Nothing else of the channel changes.

    Raises:
        OSError: The kernel refuses the request.
    """
    send_request(pid, device, lambda index: build_dcf_request(index, handle, channel, flags=0),
                 f"seed of {device}")


def move_radios(pid: int, device: str, handle: int, attributes: bytes) -> None:
    """Change received powers, signals, rates and losses of an emulated channel to other positions.

    Nothing else of the channel changes. A transmission under way ends as it began.

    Args:
        pid: A process in the device's namespace.
        device: The device.
        handle: The qdisc's handle.
        attributes: The result of `encode_move`.

    Raises:
        OSError: The kernel refuses the request.
    """
    send_request(pid, device, lambda index: qdisc_request(index, handle, attributes),
                 f"positions on {device}")


def encode_move(channel: DcfChannel) -> bytes:
    """Return the netlink attributes that set new received powers of radios in a channel."""
    options = _placement_attributes(replace(channel, addresses={}), signals=bool(channel.addresses))
    return (encode_attribute(TCA_KIND, KIND.encode() + b"\0")
            + encode_nested(TCA_OPTIONS, options))


def build_dcf_request(index: int, handle: int, channel: DcfChannel,
                      flags: int = NLM_F_CREATE_NEW) -> NetlinkRequest:
    """Return the netlink request that creates or changes an emulated Wi-Fi channel (DCF)."""
    options = encode_attribute(_TCA_DCF_CHANNEL, _pack_channel(channel))
    if flags:
        options += encode_attribute(_TCA_DCF_TIMING,
                                    _pack_timing(channel)) + _placement_attributes(channel)
    attributes = (encode_attribute(TCA_KIND, KIND.encode() + b"\0")
                  + encode_nested(TCA_OPTIONS, options))
    return qdisc_request(index, handle, attributes, flags)


class TransmissionCounters(NamedTuple):
    """The kernel's counters of a station on an emulated channel (dcf_stats).

    - `transmissions`: frames or aggregates that the station sent, with repetitions
    - `collided`: transmissions that collided
    - `lost`, `delivered`, `given_up`: single frames
    """

    transmissions: int
    collided: int
    lost: int
    delivered: int
    given_up: int


def read_counters(pid: int, device: str) -> dict[int, TransmissionCounters]:
    """Return the counters of every station on an emulated Wi-Fi channel, by class number.

    Args:
        pid: A process in the device's network namespace.
        device: The channel's device.

    Raises:
        OSError: The kernel refuses.
    """
    with network_of(pid), NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
        classes = netlink.send_request(_RTM_GETTCLASS, DUMP, _TCMSG.pack(
            socket.AF_UNSPEC, socket.if_nametoindex(device), 0, 0, 0))
    counters = {}
    for answer in classes:
        _, _, handle, _, _ = _TCMSG.unpack_from(answer)
        statistics = parse_attributes(parse_attributes(answer[_TCMSG.size:])[_TCA_STATS2])
        counters[handle & _MINOR] = TransmissionCounters(
            *struct.unpack_from("=5Q", statistics[_TCA_STATS_APP]))
    return counters


def dcf_settings(medium: Medium) -> dict[str, int]:
    """Return a medium's values for the kernel structure dcf_config, by field name.

    Times are in ns.
    """
    signal = medium.signal
    captures_db = signal.capture_db if signal else None
    return {"slot_ns": _to_ns(medium.slot_us), "difs_ns": _to_ns(medium.difs_us),
            "sense_ns": _to_ns(medium.difs_us) if medium.wait_difs else 0,
            "blind_ns": max(1, _to_ns(medium.cca_us)),
            "after_frame_ns": _to_ns(medium.sifs_us + medium.ack_us),
            "after_garbled_ns": _to_ns(medium.after_collision_us),
            "sifs_ns": _to_ns(medium.sifs_us),
            "after_aggregate_ns": _to_ns(medium.sifs_us + medium.block_ack_us),
            "beacon_every_ns": _to_ns(medium.beacon_interval_ms * 1e3) if medium.beacon_bytes
            else 0,
            "beacon_ns": _to_ns(medium.beacon_us),
            "senses": power_units(signal.sense_dbm) if signal else 0,
            "cw_min": medium.cw_min, "cw_max": medium.cw_max, "retries": medium.retries,
            "timeout_slots": medium.timeout_slots,
            "capture": 0 if captures_db is None else round(256 * 10 ** (captures_db / 10)),
            "aggregate": medium.aggregate, "delimits": int(medium.s_mpdu),
            "queue_frames": medium.queue_frames}


def rate_settings(medium: Medium, rate_bps: int) -> dict[str, int]:
    """Return the fields of dcf_rate of a medium's data frames, by their names with units."""
    return {"preamble_ns": _to_ns(medium.preamble_us + medium.extension_us), "rate_bps": rate_bps,
            "symbol_bits": round(rate_bps * medium.symbol_us / 1e6),
            "symbol_ns": _to_ns(medium.symbol_us), "service_bits": medium.service_bits,
            "step_ns": _to_ns(medium.duration_step_us),
            "aggregate_bits": 8 * medium.longest_aggregate_bytes(rate_bps),
            "spacing_bits": 8 * medium.spacing_bytes(rate_bps)}


def power_units(dbm: float) -> int:
    """Return a received power in the kernel's units, 0 for a negligible one."""
    return round(10 ** ((dbm - _UNIT_DBM) / 10))


def _pack_channel(channel: DcfChannel) -> bytes:
    own = dcf_settings(channel.medium)
    loss = round(channel.medium.loss_percent / 100 * _CERTAIN)
    return struct.pack(
        "=11Q10IIIQ", own["slot_ns"], own["difs_ns"], own["sense_ns"], own["blind_ns"],
        own["after_frame_ns"], own["after_garbled_ns"], own["sifs_ns"], own["after_aggregate_ns"],
        own["beacon_every_ns"], own["beacon_ns"], own["senses"], own["cw_min"], own["cw_max"],
        own["retries"], loss, own["queue_frames"], own["timeout_slots"], own["capture"],
        own["aggregate"], own["delimits"], 0, channel.stations, channel.frequency_mhz,
        channel.seed)


def _placement_attributes(channel: DcfChannel, *, signals: bool = False) -> bytes:
    """Return netlink attributes of received powers, links and MAC addresses, if given.

    Radios report the received signals only if the kernel knows their addresses. So `signals` is
    for a request without them.
    """
    attributes, numbers = b"", range(1, channel.stations + 1)
    if channel.received_dbm:
        attributes += encode_attribute(_TCA_DCF_POWER, struct.pack(
            f"={channel.stations ** 2}Q", *(
                power_units(dbm)
                if (dbm := channel.received_dbm.get((sender, listener))) is not None
                else 0 for sender in numbers for listener in numbers)))
        attributes += encode_attribute(_TCA_DCF_LINKS, b"".join(
            _pack_link(channel, station, access_point) for station, access_point in channel.links))
    if channel.addresses:
        attributes += encode_attribute(_TCA_DCF_ADDRESSES, b"".join(
            bytes.fromhex(channel.addresses.get(number, "00" * 6).replace(":", "")) + bytes(2)
            for number in numbers))
    if channel.received_dbm and (signals or channel.addresses):
        attributes += encode_attribute(_TCA_DCF_SIGNALS, struct.pack(
            f"={channel.stations ** 2}b", *(_signal_of(channel, sender, listener)
                                            for sender in numbers for listener in numbers)))
    return attributes


def _signal_of(channel: DcfChannel, sender: int, listener: int) -> int:
    """Return the signal (dBm) that a listener reports for a sender's frames, 0 if unknown."""
    dbm, signal = channel.received_dbm.get((sender, listener)), channel.medium.signal
    if dbm is None or signal is None:
        return 0
    if dbm < signal.sense_dbm:
        return _UNHEARD
    return round(min(max(dbm, _WEAKEST_DBM), _STRONGEST_DBM))


def _pack_link(channel: DcfChannel, station: int, access_point: int) -> bytes:
    """Return the bytes of a link's rate, and its loss probability for each frame length."""
    medium, dbm = channel.medium, channel.received_dbm[station, access_point]
    signal = medium.signal
    assert signal is not None
    rate_bps = signal.best_rate_bps(dbm)
    survives = 1 - medium.loss_percent / 100
    losses = (1 - survives * (1 - signal.frame_loss(rate_bps, dbm, step * _LOSS_STEP_BYTES))
              for step in range(_LOSS_STEPS))
    return (struct.pack("=II", station, access_point)
            + _pack_rate(rate_settings(medium, rate_bps))
            + struct.pack(f"={_LOSS_STEPS}I4x", *(round(loss * _CERTAIN) for loss in losses)))


def _pack_timing(channel: DcfChannel) -> bytes:
    medium = channel.medium
    added_bytes = medium.mac_bytes + _LLC_BYTES + channel.cipher_bytes - _ETHERNET_BYTES
    infrastructure = sum(1 << number - 1 for number in channel.access_points)
    return (_pack_rate(rate_settings(medium, medium.rate_bps)) + _pack_rate(_basic_rate(medium))
            + struct.pack("=Qii", infrastructure, added_bytes,
                          added_bytes - medium.mac_bytes + medium.group_mac_bytes
                          + channel.more_group_bytes))


def _basic_rate(medium: Medium) -> dict[str, int]:
    """Return the rate of broadcast and multicast frames, as fields of the kernel's `dcf_rate`.

    These frames are never aggregated. The structure is in guest/sources/net/sched/dcf_core.h.
    """
    rate_bps = medium.broadcast_rate_bps
    return {"preamble_ns": _to_ns(medium.older_preamble_us + medium.extension_us),
            "rate_bps": rate_bps, "symbol_bits": round(rate_bps * medium.older_symbol_us / 1e6),
            "symbol_ns": _to_ns(medium.older_symbol_us), "service_bits": medium.older_service_bits,
            "step_ns": 0, "aggregate_bits": 0, "spacing_bits": 0}


def _pack_rate(rate: Mapping[str, int]) -> bytes:
    return struct.pack("=QQ6I", *(rate[name] for name in (
        "preamble_ns", "rate_bps", "symbol_bits", "symbol_ns", "service_bits", "step_ns",
        "aggregate_bits", "spacing_bits")))


def _to_ns(time_us: float) -> int:
    return round(time_us * 1e3)


# --- Size tables, which `tc` can compute only for ATM ---
# A size table maps a packet's length to the length that the scheduler uses.

_TCA_STAB_BASE, _TCA_STAB_DATA = 1, 2
_LINKLAYER_ETHERNET = 1
_ENTRY_LIMIT = 0xFFFF


def set_size_table(pid: int, device: str, kind: str, handle: int, sizes: Sequence[int]) -> None:
    """Set the size table of a device's queueing discipline: n bytes count as `sizes[n]`.

    Args:
        pid: A process in the device's network namespace.
        device: The device.
        kind: Kind of the qdisc.
        handle: The qdisc's handle.
        sizes: Sizes, up to the longest packet; the kernel extrapolates beyond the end.

    Raises:
        OSError: The kernel refuses.
    """
    send_request(pid, device, lambda index: build_size_table_request(index, kind, handle, sizes),
                 f"size table of {device}")


def build_size_table_request(index: int, kind: str, handle: int,
                             sizes: Sequence[int]) -> NetlinkRequest:
    """Return the netlink request that changes only a queueing discipline's size table."""
    shift = max(0, (max(sizes) // _ENTRY_LIMIT).bit_length())
    entries = [size >> shift for size in sizes]
    # cell_log, size_log, cell_align, overhead, linklayer, mpu, mtu, tsize
    base = struct.pack("=BBhiIIII", 0, shift, 0, 0, _LINKLAYER_ETHERNET, 0, 0, len(entries))
    table = (encode_attribute(_TCA_STAB_BASE, base)
             + encode_attribute(_TCA_STAB_DATA, struct.pack(f"={len(entries)}H", *entries)))
    return qdisc_request(
        index, handle, encode_attribute(TCA_KIND, kind.encode() + b"\0")
        + encode_attribute(TCA_STAB, table))


# --- Wires: rate, delay and loss ---
# With MACsec the macsec device takes the interface name. The physical device is renamed NAME-sec.

# Limit of the queue for packets in flight: large enough that none is dropped.
_UNDER_WAY = 100_000
#: A rate at which a packet takes no time.
_NO_RATE = "1tbit"


#: Kinds of protection by MACsec.
ENCRYPTS, AUTHENTICATES = "encrypts", "authenticates"
#: MACsec's default cipher suite.
MACSEC_SUITE = "GCM-AES-128"
#: Bytes that MACsec adds to a frame: SecTAG with explicit SCI, and ICV.
MACSEC_BYTES = 32
#: Linux's IFNAMSIZ without the terminating zero.
_NAME = 15
_BELOW = "-sec"
#: Largest fragmentation threshold below 2346, which means no fragmentation in 802.11.
_LONGER_THAN_ANY = 2344


def physical_name(port: str) -> str:
    """Return the name of the wire's own interface, which a MACsec device uses."""
    return port[:_NAME - len(_BELOW)] + _BELOW


def macsec_commands(port: str, mtu_bytes: int, *, encrypts: bool,
                    suite: str = MACSEC_SUITE) -> list[str]:
    """Return commands that create a MACsec device on a wire's interface, without keys.

    The MTU equals that of a wire without MACsec: the wire has room for the added bytes. With
    `encrypts`, frames are also encrypted, otherwise only authenticated. `suite` is the cipher
    suite.
    """
    settings = (f"cipher {suite.lower()} protect on encrypt {'on' if encrypts else 'off'} "
                "validate strict send_sci on replay on window 0")
    return [f"ip link set dev {physical_name(port)} mtu {mtu_bytes + MACSEC_BYTES} up",
            f"ip link add link {physical_name(port)} name {port} type macsec port 1 {settings}",
            f"ip link set dev {port} gso_max_segs 1 mtu {mtu_bytes}",
            # Incoming packets must not be combined either.
            f"ethtool -K {port} gro off"]


def isolating_commands(bridge: str, ports: Sequence[str]) -> list[str]:
    """Return commands that create a bridge whose ports do not reach each other.

    Without ports there are no commands.
    """
    if not ports:
        return []
    return [f"ip link add {bridge} type bridge mcast_snooping 0", *(
        f"ip link set {port} master {bridge} up && bridge link set dev {port} isolated on"
        for port in ports)]


def reserve_headroom_command(radio: str) -> str:
    """Return the command that makes an access point's radio reserve headroom for encryption.

    Frames from a macsec device have no headroom: a bridge requests it from its ports, and macsec
    does not pass the request on. The fast path of mac80211 does not check the headroom, and
    mac80211_hwsim drops such frames. A radio with a fragmentation threshold does not use the fast
    path; no frame is as long as this threshold.
    """
    return f"iw phy $(cat /sys/class/net/{radio}/phy80211/name) set frag {_LONGER_THAN_ANY}"


def wire_commands(link: Link, port: str, end: str = "") -> list[str]:
    """Return commands that give an interface its wire's rate, delay and loss.

    A plain wire needs none. Packets first wait for the wire's rate, up to `queue_packets`; then
    each is delayed, or lost.

    Args:
        link: The wire.
        port: The interface.
        end: The wire's end there, `NODE/INTERFACE`. Left out: the first one.
    """
    steps = []
    parent = "root"
    rate_bps = link.rate_from(end)
    if rate_bps is not None:
        steps.append(f"tc qdisc add dev {port} root handle 1: netem limit {link.queue_packets} "
                     f"rate {round(rate_bps)}bit {link.overhead_bytes}")
        parent = "parent 1:1"
    if link.delay_ms or link.loss_percent:
        steps.append(f"tc qdisc add dev {port} {parent} netem limit {_UNDER_WAY} "
                     f"delay {link.delay_ms}ms{_jitter_words(link)} loss {_loss_words(link)}")
    return steps


def _jitter_words(link: Link) -> str:
    """Return netem's words for a varying delay. With a rate, no packet overtakes another."""
    return f" {link.jitter_ms}ms rate {_NO_RATE}" if link.jitter_ms else ""


def _loss_words(link: Link) -> str:
    """Return netem's words for lost packets: each by itself, or in bursts (Gilbert's model)."""
    if link.loss_burst_packets <= 1:
        return f"{link.loss_percent}%"
    begins, ends = burst_chances(link)
    return f"gemodel {100 * begins:.6g}% {100 * ends:.6g}%"


def burst_chances(link: Link) -> tuple[float, float]:
    """Return the probabilities that a burst of losses begins, and ends, with a packet."""
    ends, share = 1 / link.loss_burst_packets, link.loss_percent / 100
    return share * ends / (1 - share), ends
