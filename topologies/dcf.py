"""Configure the kernel's DCF channel (sch_dcf) in a guest from a medium's file.

The queueing discipline is the project's own (guest/sources/net/sched/sch_dcf.c), so `tc` does not
support it. The layouts are those of dcf_core.h and dcf_netlink.h in the same folder.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from topologies import rtnetlink
from topologies.netlink import encode_attribute
from topologies.timing import Medium

KIND = "dcf"
_TCA_DCF_CHANNEL, _TCA_DCF_TIMING, _TCA_DCF_POWER, _TCA_DCF_LINKS, _TCA_DCF_ADDRESSES = range(1, 6)
#: Number of frame lengths with a known loss, and the step between them in bytes; the kernel
#: interpolates linearly.
_LOSS_STEPS, _LOSS_STEP_BYTES = 33, 72
#: Power in dBm of one unit: interference is summed in whole units.
_UNIT_DBM = -130.0
_CERTAIN = 0xFFFFFFFF
#: Largest number of radios whose power matrix fits into a netlink attribute.
_MAX_PLACED = 90
_LLC_BYTES = 8
_ETHERNET_BYTES = 14


@dataclass(frozen=True)
class DcfChannel:
    """A channel: its medium, its number of stations, and its access points."""

    medium: Medium
    #: Highest class number; class numbers start at 1.
    stations: int
    access_points: tuple[int, ...]
    cipher_bytes: int
    queue_frames: int
    seed: int
    frequency_mhz: int = 0
    #: Received power in dBm by class numbers of sender and listener; empty if all hear all
    #: equally.
    received_dbm: Mapping[tuple[int, int], float] = field(default_factory=dict)
    #: Stations and access points whose links have their own rates and losses.
    links: tuple[tuple[int, int], ...] = ()
    #: MAC addresses by class number of the radios whose management frames take airtime.
    addresses: Mapping[int, str] = field(default_factory=dict)


def make_channel(pid: int, device: str, handle: int, channel: DcfChannel) -> None:
    """Make this channel a device's root qdisc.

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
    with rtnetlink.route_socket(pid, device) as (netlink, index):
        try:
            rtnetlink.send_request(netlink, build_request(index, handle, channel),
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
    """Restart a channel's random numbers from another seed. Nothing else of it changes.

    Raises:
        OSError: The kernel refuses the request.
    """
    with rtnetlink.route_socket(pid, device) as (netlink, index):
        rtnetlink.send_request(netlink, build_request(index, handle, channel, flags=0),
                               f"seed of {device}")


def build_request(index: int, handle: int, channel: DcfChannel,
                  flags: int = rtnetlink.NLM_F_CREATE_NEW) -> bytes:
    """Return the netlink request that makes an interface's root qdisc a channel, or changes it."""
    options = encode_attribute(_TCA_DCF_CHANNEL, _pack_channel(channel))
    if flags:
        options += encode_attribute(_TCA_DCF_TIMING,
                                    _pack_timing(channel)) + _placement_attributes(channel)
    attributes = (encode_attribute(rtnetlink.TCA_KIND, KIND.encode() + b"\0")
                  + encode_attribute(rtnetlink.TCA_OPTIONS | rtnetlink.NLA_F_NESTED, options))
    return rtnetlink.qdisc_request(index, handle, attributes, flags)


def dcf_settings(medium: Medium) -> dict[str, int]:
    """Return a medium's fields of dcf_config by their names with units.

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
            "aggregate": medium.aggregate, "aggregate_bits": 8 * medium.aggregate_bytes}


def power_units(dbm: float) -> int:
    """Return a power in the kernel's units. The result is 0 for a negligible one."""
    return round(10 ** ((dbm - _UNIT_DBM) / 10))


def _pack_channel(channel: DcfChannel) -> bytes:
    own = dcf_settings(channel.medium)
    loss = round(channel.medium.loss_percent / 100 * _CERTAIN)
    return struct.pack(
        "=11Q10IIIQ", own["slot_ns"], own["difs_ns"], own["sense_ns"], own["blind_ns"],
        own["after_frame_ns"], own["after_garbled_ns"], own["sifs_ns"], own["after_aggregate_ns"],
        own["beacon_every_ns"], own["beacon_ns"], own["senses"], own["cw_min"], own["cw_max"],
        own["retries"], loss, channel.queue_frames, own["timeout_slots"], own["capture"],
        own["aggregate"], own["aggregate_bits"], 0, channel.stations, channel.frequency_mhz,
        channel.seed)


def _placement_attributes(channel: DcfChannel) -> bytes:
    """Return attributes of received powers, links and MAC addresses, if they are given."""
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
    return attributes


def _pack_link(channel: DcfChannel, station: int, access_point: int) -> bytes:
    """Return a link's rate, and its loss probability for each frame length."""
    medium, dbm = channel.medium, channel.received_dbm[station, access_point]
    signal = medium.signal
    assert signal is not None
    rate_bps = signal.best_rate_bps(dbm)
    survives = 1 - medium.loss_percent / 100
    losses = (1 - survives * (1 - signal.frame_loss(rate_bps, dbm, step * _LOSS_STEP_BYTES))
              for step in range(_LOSS_STEPS))
    return (struct.pack("=II", station, access_point)
            + _pack_rate(medium, medium.preamble_us, rate_bps)
            + struct.pack(f"={_LOSS_STEPS}I4x", *(round(loss * _CERTAIN) for loss in losses)))


def _pack_timing(channel: DcfChannel) -> bytes:
    medium = channel.medium
    added_bytes = medium.mac_bytes + _LLC_BYTES + channel.cipher_bytes - _ETHERNET_BYTES
    infrastructure = sum(1 << number - 1 for number in channel.access_points)
    return (_pack_rate(medium, medium.preamble_us, medium.rate_bps)
            + _pack_rate(medium, medium.older_preamble_us, medium.broadcast_rate_bps)
            + struct.pack("=Qi4x", infrastructure, added_bytes))


def _pack_rate(medium: Medium, preamble_us: float, rate_bps: int) -> bytes:
    symbol_bits = round(rate_bps * medium.symbol_us / 1e6)
    return struct.pack("=QQIII4x", _to_ns(preamble_us + medium.extension_us), rate_bps, symbol_bits,
                       _to_ns(medium.symbol_us), medium.service_bits)


def _to_ns(time_us: float) -> int:
    return round(time_us * 1e3)
