"""Check that a station is associated by the configured physical layer: HT, VHT or HE.

`check_physical_layer` takes the results of a repetition (one measurement of a policy), and yields
checks. It compares the configured 802.11 format with beacons and association frames in captures,
and with the rates in the access point's kernel. If frames are aggregated, it also compares the
numbers of frames and transmissions. The emulated air may be configured without a physical layer.
Then there are no checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from measure.capture import pcap
from measure.capture.tcpdump import MOVE
from measure.checks.observation import Check, Observation
from measure.packets.capability_elements import Capabilities, ChannelAccess, read_capabilities
from topologies.model import Medium
from topologies.phy_rates import HE, HT, NON_HT, VHT, Phy

#: Formats that the kernel's rates may have, by the format of the association: mac80211's rate
#: control (minstrel_ht) knows no HE, so that a station with HE sends by HT or VHT there. In 6 GHz,
#: which has neither, it sends by OFDM.
_KERNEL_FORMATS = {HT: (HT,), VHT: (VHT,), HE: (HE, VHT, HT), NON_HT: (NON_HT,)}

#: Frequency in MHz of channel 0 in 6 GHz, and from one channel number to the next (27.3.23.2).
_UPPER_START_MHZ, _CHANNEL_MHZ = 5950, 5


def check_physical_layer(observed: Observation) -> Iterator[Check]:
    """Yield the checks of the physical layer, or none for media without one."""
    medium = observed.phy_medium
    if medium is None or medium.phy is None:
        return
    files = [observed.capture_path("auth-air")]
    if not observed.part:
        files.append(observed.folder / f"{MOVE}-air.pcap")
    frames = [frame for file in files if file.exists() for frame in read_capabilities(file)]
    offers = [frame for frame in frames if frame.is_offer and frame.transmitter in observed.cells]
    associations = [frame for frame in frames if observed.mac in (
        frame.transmitter, frame.receiver) and (frame.is_request or frame.is_response)]
    yield _check_association(medium.phy, observed, offers, associations)
    yield _check_limits(medium, offers, associations)
    if medium.phy.is_in_6_ghz:
        yield _check_band(medium.phy, observed, files)
    if medium.aggregate > 1 and not observed.part:
        yield _check_aggregation(observed)


def _check_association(phy: Phy, observed: Observation, offers: Sequence[Capabilities],
                       associations: Sequence[Capabilities]) -> Check:
    """Check that all announce the format, and that the kernel's rates have it."""
    requests = [frame for frame in associations if frame.is_request]
    responses = [frame for frame in associations if frame.is_response]
    fitting = [[frame for frame in frames if _announces_phy(phy, frame)]
               for frames in (offers, requests, responses)]
    kernel, stays = observed.raw["kernel"], ["", "foreign_"] if observed.moves else [""]
    rates = [kernel.get(f"{prefix}rates", {}).get(way, "unknown") for prefix in stays
             for way in ("to", "from")]
    formats = (NON_HT,) if phy.is_in_6_ghz else _KERNEL_FORMATS[phy.format]
    has_rates = all(rate.startswith(formats) for rate in rates)
    counts = (f"{len(good)} of {len(frames)} {what}" for good, frames, what in zip(
        fitting, (offers, requests, responses),
        ("beacons and probe responses", "association requests", "association responses"),
        strict=True))
    named = f"have {phy.full_name}" if not phy.is_non_ht else "announce no HT, VHT or HE"
    return Check(
        "association uses no HT" if phy.is_non_ht else f"association uses {phy.format}",
        has_rates and all(frames and len(good) == len(frames) for good, frames in zip(
            fitting, (offers, requests, responses), strict=True)),
        f"{', '.join(counts)} {named}; access point's kernel: rates to and from the mobile node "
        f"{'; '.join(rates)}")


def _check_band(phy: Phy, observed: Observation, files: Sequence[Path]) -> Check:
    """Check by radiotap that all frames of access points and node were sent in the 6 GHz band."""
    known = {_UPPER_START_MHZ + _CHANNEL_MHZ * channel for channel in phy.channels}
    used = Counter(mhz for file in files if file.exists()
                   for data, mhz in pcap.read_frequencies(file)
                   if data[10:16].hex(":") in {*observed.cells, observed.mac})
    return Check("frames are in the 6 GHz band", bool(used) and used.keys() <= known,
                 f"{', '.join(f'{count} at {mhz} MHz' for mhz, count in sorted(used.items()))}; "
                 f"{', '.join(map(str, sorted(known)))} MHz expected")


def _announces_phy(phy: Phy, frame: Capabilities) -> bool:
    """Return whether the sender announces the physical layer, with its width, MCS and streams.

    No newer format may be announced, and an access point's channel has the width of the medium.
    """
    newest = list(frame.formats)[-1] if frame.formats else NON_HT
    if newest != phy.format or phy.is_non_ht:
        return newest == phy.format
    announced = frame.formats[newest]
    fits = (announced.width_mhz >= phy.width_mhz if frame.is_request
            else announced.width_mhz == phy.width_mhz)
    return (fits and announced.highest_mcs.get(phy.streams, -1) >= phy.mcs_of_stream
            and (not phy.has_short_guard or phy.width_mhz in announced.short_guards_mhz))


def _check_limits(medium: Medium, offers: Sequence[Capabilities],
                  associations: Sequence[Capabilities]) -> Check:
    """Check that channel access, acknowledgements and aggregates are charged as announced."""
    assert medium.phy is not None
    charged = ChannelAccess(medium.aifs_number, medium.cw_min, medium.cw_max, txop=0)
    announced = {frame.access for frame in offers}
    basic = {rate for frame in offers for rate in frame.basic_rates_bps}
    fits = (announced == {charged} and {medium.ack_rate_bps, medium.broadcast_rate_bps} <= basic
            and max(basic) == medium.ack_rate_bps and min(basic) == medium.broadcast_rate_bps)
    detail = (f"best effort {', '.join(map(str, announced)) or 'not announced'}, {charged} is "
              f"charged; basic rates {', '.join(f'{rate / 1e6:g}' for rate in sorted(basic))} "
              f"Mbit/s, {medium.ack_rate_bps / 1e6:g} for acknowledgements and "
              f"{medium.broadcast_rate_bps / 1e6:g} for group frames are charged")
    if medium.aggregate > 1:
        ends = [*offers, *(frame for frame in associations if frame.is_request)]
        known = [frame.formats[medium.phy.format] for frame in ends
                 if medium.phy.format in frame.formats]
        limits = {each.aggregate_bytes for each in known}
        spacing_us = max((each.spacing_us for each in known), default=0.0)
        fits = fits and min(limits, default=0) >= medium.aggregate_bytes and (
            spacing_us == medium.mpdu_spacing_us)
        detail += (f"; A-MPDUs of {', '.join(map(str, sorted(limits)))} bytes and {spacing_us:g} "
                   f"us between frames, {medium.aggregate_bytes} and {medium.mpdu_spacing_us:g} "
                   "are charged")
    return Check("channel access and aggregates are as the air charges", fits, detail)


def _check_aggregation(observed: Observation) -> Check:
    """Check that more frames of the UDP stream arrived than the mobile node sent transmissions.

    The emulated channel in the kernel counts both. A transmission with one frame delivers one at
    most, so all others arrived in aggregates.
    """
    counted = observed.raw.get("air_udp")
    if counted is None:
        return Check("frames are aggregated", ok=False, detail="the air's counters are unknown")
    frames, sent = counted["delivered"], counted["transmissions"]
    return Check("frames are aggregated", frames > sent,
                 f"UDP: {frames} frames arrived by {sent} transmissions of the mobile node, "
                 f"{frames / max(1, sent):.1f} by each ({counted['collided']} collided)")
