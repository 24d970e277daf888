"""Tell the guest's kernel what a channel of 802.11's DCF is: a medium's file, as sch_dcf takes it.

The queueing discipline is the project's own (guest/sources/net/sched/sch_dcf.c), so `tc` has no
words for it; layouts are those of dcf_core.h and dcf_netlink.h beside it.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

from topologies import rtnetlink
from topologies.timing import Medium

KIND = "dcf"
_TCA_DCF_CHANNEL, _TCA_DCF_TIMING = 1, 2
_LLC_BYTES = 8
_ETHERNET_BYTES = 14


@dataclass(frozen=True)
class DcfChannel:
    """A channel: its medium, how many stations it has, and which are access points."""

    medium: Medium
    #: Class numbers go from 1 to this.
    stations: int
    access_points: tuple[int, ...]
    cipher_bytes: int
    queue_frames: int
    seed: int


def make(pid: int, device: str, handle: int, channel: DcfChannel) -> None:
    """Make a device's root qdisc that channel. `pid` is a process in the device's namespace.

    Raises OSError, and RuntimeError where the kernel has no DCF.
    """
    with rtnetlink.route_socket(pid, device) as (netlink, index):
        try:
            rtnetlink.ask(netlink, message(index, handle, channel), f"DCF on {device}")
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            raise RuntimeError("this kernel has no 802.11 DCF; write 'air: queue' in the medium's "
                               "file, or measure in the embedded guest") from None


def draw_anew(pid: int, device: str, handle: int, channel: DcfChannel) -> None:
    """Have a channel that is there draw its random numbers from another seed on.

    Nothing else of it changes. Raises OSError.
    """
    with rtnetlink.route_socket(pid, device) as (netlink, index):
        rtnetlink.ask(netlink, message(index, handle, channel, flags=0), f"seed of {device}")


def message(index: int, handle: int, channel: DcfChannel,
            flags: int = rtnetlink.NLM_F_CREATE_NEW) -> bytes:
    """The netlink request that makes an interface's root qdisc a channel, or changes it."""
    options = (rtnetlink.attribute(_TCA_DCF_CHANNEL, _told(channel))
               + rtnetlink.attribute(_TCA_DCF_TIMING, _timing(channel)))
    attributes = (rtnetlink.attribute(rtnetlink.TCA_KIND, KIND.encode() + b"\0")
                  + rtnetlink.attribute(rtnetlink.TCA_OPTIONS | rtnetlink.NLA_F_NESTED, options))
    return rtnetlink.qdisc_request(index, handle, attributes, flags)


def settings(medium: Medium) -> dict[str, int]:
    """What dcf_config has of a medium's file, by its names with units; lengths in nanoseconds."""
    return {"slot_ns": _ns(medium.slot_us), "difs_ns": _ns(medium.difs_us),
            "sense_ns": _ns(medium.difs_us) if medium.wait_difs else 0,
            "blind_ns": max(1, _ns(medium.cca_us)),
            "after_frame_ns": _ns(medium.sifs_us + medium.ack_us),
            "after_garbled_ns": _ns(medium.after_collision_us),
            "cw_min": medium.cw_min, "cw_max": medium.cw_max, "retries": medium.retries,
            "timeout_slots": medium.timeout_slots}


def _told(channel: DcfChannel) -> bytes:
    own = settings(channel.medium)
    loss = round(channel.medium.loss_percent / 100 * 0xFFFFFFFF)
    return struct.pack(
        "=6Q6II4xQ", own["slot_ns"], own["difs_ns"], own["sense_ns"], own["blind_ns"],
        own["after_frame_ns"], own["after_garbled_ns"], own["cw_min"], own["cw_max"],
        own["retries"], loss, channel.queue_frames, own["timeout_slots"], channel.stations,
        channel.seed)


def _timing(channel: DcfChannel) -> bytes:
    medium = channel.medium
    added_bytes = medium.mac_bytes + _LLC_BYTES + channel.cipher_bytes - _ETHERNET_BYTES
    infrastructure = sum(1 << number - 1 for number in channel.access_points)
    return (_rate(medium, medium.preamble_us, medium.rate_bps)
            + _rate(medium, medium.older_preamble_us, medium.broadcast_rate_bps)
            + struct.pack("=Qi4x", infrastructure, added_bytes))


def _rate(medium: Medium, preamble_us: float, rate_bps: int) -> bytes:
    symbol_bits = round(rate_bps * medium.symbol_us / 1e6)
    return struct.pack("=QQIII4x", _ns(preamble_us + medium.extension_us), rate_bps, symbol_bits,
                       _ns(medium.symbol_us), medium.service_bits)


def _ns(time_us: float) -> int:
    return round(time_us * 1e3)
