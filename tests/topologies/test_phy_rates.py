"""Tests of HT, VHT and HE: rates and durations by hand, against published values and ns-3's."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from measure.cpu import clock
from topologies import loader, model, yaml_reader
from topologies.loader import load_medium
from topologies.medium import frequency_mhz, tuned_frequency_mhz
from topologies.medium_model import Medium
from topologies.phy_rates import HE, HT, NON_HT, VHT, Phy

FASTER = [name for name in loader.medium_names() if load_medium(name).phy]


def make_phy(name: str, width_mhz: int, streams: int, mcs: int, guard_us: float) -> Phy:
    """A physical layer in 5 GHz."""
    return Phy(name, 5, width_mhz, streams, mcs, guard_us, channels=[36])


# Published values ----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "width_mhz", "streams", "mcs", "guard_us", "mbps"), [
    # IEEE 802.11-2020, 19.5 and 21.5; IEEE 802.11ax-2021, 27.5 (as at mcsindex.com).
    (HT, 20, 1, 0, 0.8, 6.5), (HT, 20, 1, 7, 0.8, 65.0), (HT, 20, 1, 7, 0.4, 72.2),
    (HT, 40, 1, 7, 0.8, 135.0), (HT, 20, 2, 15, 0.4, 144.4), (HT, 40, 2, 15, 0.4, 300.0),
    (VHT, 20, 1, 8, 0.8, 78.0), (VHT, 40, 1, 9, 0.4, 200.0), (VHT, 80, 1, 9, 0.4, 433.3),
    (VHT, 80, 2, 9, 0.8, 780.0), (VHT, 80, 2, 9, 0.4, 866.7), (HE, 20, 1, 11, 0.8, 143.4),
    (HE, 40, 1, 11, 0.8, 286.8), (HE, 80, 1, 11, 0.8, 600.5), (HE, 80, 2, 11, 0.8, 1201.0),
    (HE, 80, 1, 0, 3.2, 30.6), (HE, 80, 2, 11, 1.6, 1134.2)])
def test_rate_of_mcs_is_published_one(name: str, width_mhz: int, streams: int, mcs: int,
                                      guard_us: float, mbps: float) -> None:
    """Rates of the tables, which have one decimal, and HE's of symbols with parts of a bit."""
    phy = make_phy(name, width_mhz, streams, mcs, guard_us)
    assert phy.rate_bps / 1e6 == pytest.approx(mbps, abs=0.06)


@pytest.mark.parametrize(("phy", "mbps"), [
    (make_phy(HT, 20, 1, 7, 0.4), 32.1), (make_phy(HT, 40, 1, 7, 0.4), 42.6),
    (make_phy(VHT, 20, 1, 8, 0.4), 33.9), (make_phy(VHT, 40, 1, 9, 0.4), 44.4),
    (make_phy(VHT, 80, 1, 9, 0.4), 50.4)])
def test_goodput_without_aggregates_is_published_one(phy: Phy, mbps: float) -> None:
    """UDP datagrams of 1500 bytes, by the arithmetic of 80211notes.blogspot.com (March 2014).

    It has DIFS of 34 us, a mean backoff of eight slots, units of 4 us for the frame, and an
    acknowledgement in the frame's own format, one such unit long.
    """
    theirs = dataclasses.replace(
        load_medium("802.11a"), rate_bps=round(phy.rate_bps), preamble_us=phy.preamble_us,
        ack_preamble_us=None, symbol_us=4.0, service_bits=0, cw_min=16, mac_bytes=30,
        ack_rate_bps=54_000_000)
    assert theirs.udp_ceiling_bps(1500) / 1e6 == pytest.approx(mbps, abs=0.06)


def duration_us(phy: Phy, psdu_bytes: int, *, preamble_us: float | None = None,
                service_bits: int | None = None, step_us: float | None = None) -> float:
    """The duration of a frame of so many bytes by a physical layer."""
    own = phy.medium_fields()
    values = {"rate_bps": int(own["rate_bps"]), "preamble_us": own["preamble_us"],
              "symbol_us": own["symbol_us"], "service_bits": int(own["service_bits"]),
              "duration_step_us": own["duration_step_us"], "extension_us": 0.0, "mac_bytes": 0}
    changes = {"preamble_us": preamble_us, "service_bits": service_bits,
               "duration_step_us": step_us}
    values |= {key: value for key, value in changes.items() if value is not None}
    plain = dataclasses.replace(load_medium("802.11a"), **values)
    return plain.latency_us(psdu_bytes)


@pytest.mark.parametrize(("phy", "psdu_bytes", "us"), [
    (make_phy(HT, 20, 1, 7, 0.8), 76, 48), (make_phy(HT, 20, 1, 7, 0.8), 14, 40),
    (make_phy(HT, 40, 1, 7, 0.8), 1536, 128), (make_phy(HT, 40, 1, 7, 0.4), 1536, 118.8),
    (make_phy(HT, 20, 1, 6, 0.4), 1536, 226.8), (make_phy(VHT, 20, 1, 8, 0.8), 1536, 196),
    (make_phy(VHT, 40, 1, 9, 0.4), 1536, 100.8), (make_phy(VHT, 80, 1, 0, 0.8), 1536, 460),
    (make_phy(VHT, 80, 1, 9, 0.8), 1536, 68), (make_phy(VHT, 80, 1, 9, 0.4), 1536, 64.8),
    (make_phy(HE, 20, 1, 0, 0.8), 1536, 1485.6), (make_phy(HE, 40, 1, 0, 1.6), 1536, 807.2),
    (make_phy(HE, 20, 1, 11, 0.8), 1536, 139.2), (make_phy(HE, 40, 1, 11, 0.8), 1536, 98.4),
    (make_phy(HE, 80, 1, 11, 0.8), 1536, 71.2), (make_phy(HE, 80, 1, 11, 3.2), 76, 60)])
def test_duration_of_frame_is_that_of_ns3(phy: Phy, psdu_bytes: int, us: float) -> None:
    """Known values of ns-3's own test (src/wifi/test/tx-duration-test.cc), less its differences.

    It leaves out VHT-SIG-B (4 us), has an HE-LTF of 8 us, a tail in HE, and fills up no short guard
    interval to 4 us. The standard has the first three otherwise, and the last one (19.4.3, 21.4.3).
    """
    theirs = {HT: 36.0, VHT: 36.0, HE: 44.0}[phy.format]
    assert duration_us(phy, psdu_bytes, preamble_us=theirs, service_bits=22,
                       step_us=0.0) == pytest.approx(us)
    added_us = {HT: 0.0, VHT: 4.0, HE: phy.preamble_us - 44.0}[phy.format]
    filled_us = math.ceil((us - theirs) / 4 - 1e-9) * 4 + theirs if phy.has_short_guard else us
    assert duration_us(phy, psdu_bytes, service_bits=22) == pytest.approx(filled_us + added_us)


# By hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "together", "parts_us"), [
    # AIFS, backoff, preamble, symbols (filled up), extension, SIFS, block acknowledgement of 32
    # bytes in OFDM at 24 Mbit/s: 20 us and three symbols. A frame of 1470 bytes has 1536 bytes, and
    # 1540 with its delimiter.
    # 28 x 12320 + 22 bits in symbols of 260: 1327. A 29th frame would end after 5.55 ms.
    ("802.11n-ht20", 28, (37, 67.5, 36, 1327 * 4, 6, 10, 32 + 6)),
    # 42 x 12320 + 22 bits in symbols of 1080: 480, 1728 us. A 43rd would be the 66,220th byte.
    ("802.11n-ht40", 42, (43, 67.5, 40, 480 * 3.6, 0, 16, 32)),
    # 64 x 12320 + 28 bits in symbols of 3120: 253, 910.8 us, filled up to 912.
    ("802.11ac", 64, (43, 67.5, 44, 912, 0, 16, 32)),
    # 64 x 12320 + 16 bits in symbols of 16333: 49.
    ("802.11ax", 64, (43, 67.5, 50.4, 49 * 13.6, 0, 16, 32)),
    # 16 us are 2402 bytes, so 63 frames take 2404 and the last one 1540: 1,223,936 + 16 bits.
    ("802.11ax-6ghz", 64, (43, 67.5, 50.4, 75 * 13.6, 0, 16, 32)),
    # 63 x 12320 + 16 bits in symbols of 1950: 399, 5469.6 us with the preamble. A 64th would end
    # after 5.55 ms.
    ("802.11ax-20", 63, (37, 67.5, 43.2, 399 * 13.6, 6, 10, 32 + 6))])
def test_airtime_of_aggregate_by_hand(name: str, together: int,
                                      parts_us: tuple[float, ...]) -> None:
    """As many frames of 1470 bytes as go together: every part of their airtime."""
    medium = load_medium(name)
    assert medium.frames_together(1470 + 36) == together
    assert together * medium.delivery_us(1470 + 36) == pytest.approx(sum(parts_us))
    assert medium.udp_ceiling_bps(1470) == pytest.approx(
        together * 1470 * 8 / sum(parts_us) * 1e6)


def test_every_faster_medium_is_tested() -> None:
    """A further one has to be calculated by hand as well."""
    assert FASTER == ["802.11ac", "802.11ax", "802.11ax-20", "802.11ax-6ghz", "802.11n-ht20",
                      "802.11n-ht40"]


def test_short_frames_begin_eight_us_apart() -> None:
    """At 866.7 Mbit/s, 8 us are 867 bytes: frames of 94 bytes take as much, but for the last one.

    64 frames: 63 x 868 + 100 bytes, 438,300 bits with SERVICE and tail, 141 symbols, 508 us.
    """
    medium = load_medium("802.11ac")
    assert medium.spacing_bytes(medium.rate_bps) == 868
    assert medium.full_ppdu_us(64) == pytest.approx(44 + 508)
    free = dataclasses.replace(medium, mpdu_spacing_us=0.0)
    # 64 x 100 bytes are 51,228 bits: 17 symbols.
    assert free.full_ppdu_us(64) == pytest.approx(44 + 64)


def test_lone_frame_has_delimiter_in_vht_and_he() -> None:
    """An S-MPDU: 130 bytes, padded to 132, and a delimiter. In HT a lone frame has none."""
    vht, ht = load_medium("802.11ac"), load_medium("802.11n-ht20")
    for medium, size_bytes in ((vht, 136), (ht, 130)):
        lone = dataclasses.replace(medium, aggregate=1)
        symbols = math.ceil((size_bytes * 8 + medium.service_bits) / round(
            medium.rate_bps * medium.symbol_us / 1e6))
        data_us = symbols * medium.symbol_us
        if medium.duration_step_us:
            data_us = math.ceil(data_us / 4) * 4
        assert lone.latency_us(100) == pytest.approx(
            medium.preamble_us + data_us + medium.extension_us)


# WEP and TKIP, channels and refusals ----------------------------------------------------------


@pytest.mark.parametrize(("name", "like"), [("802.11n-ht20", "802.11g"), ("802.11ac", "802.11a"),
                                            ("802.11ax-20", "802.11g")])
def test_medium_without_ht_is_ofdm_with_qos(name: str, like: str) -> None:
    """54 Mbit/s and each frame alone, as 802.11a and g, with two more bytes and one more slot."""
    medium, older = load_medium(name).without_ht, load_medium(like)
    assert medium.name == f"{name}-non-ht" and medium.aggregate == 1
    assert medium.phy is not None and medium.phy.format == NON_HT
    assert medium.airtime_us(1500) == pytest.approx(
        dataclasses.replace(older, mac_bytes=30).airtime_us(1500) + 9)
    assert medium.without_ht is medium
    assert older.without_ht is older


def test_media_in_5_ghz_tune_channels_in_order() -> None:
    """Channels 1 and 6 of a network become 36 and 149; in 2.4 GHz they stay."""
    medium = load_medium("802.11ac")
    assert [medium.tuned_channel(channel, [6, 1, 6]) for channel in (1, 6)] == [36, 149]
    assert [frequency_mhz(channel) for channel in (1, 6, 14, 36, 149)] == [
        2412, 2437, 2484, 5180, 5745]
    assert medium.phy is not None
    assert [medium.phy.centre_channel(channel) for channel in (36, 149)] == [42, 155]
    assert load_medium("802.11n-ht20").tuned_channel(6, [1, 6]) == 6
    upper = load_medium("802.11ax-6ghz")
    assert [tuned_frequency_mhz(upper, channel, [1, 6]) for channel in (1, 6)] == [5955, 6035]
    assert upper.phy is not None and upper.phy.centre_channel(17) == 23
    assert [tuned_frequency_mhz(medium, 6, [1, 6]), tuned_frequency_mhz(None, 6, [6])] == [
        5745, 2437]
    with pytest.raises(ValueError, match="3 channels, and of 80 MHz there are 2"):
        medium.tuned_channel(1, [1, 6, 11])


@pytest.mark.parametrize(("name", "old", "new", "said"), [
    ("802.11ac", "rate_bps: 866666667", "rate_bps: 780000000",
     "rate_bps must be 866666667 with VHT MCS 9, 2 streams, 80 MHz, guard interval 0.4 us"),
    ("802.11ac", "preamble_us: 44", "preamble_us: 40", "preamble_us must be 44"),
    ("802.11ac", "service_bits: 28", "service_bits: 22", "service_bits must be 28"),
    ("802.11ac", "duration_step_us: 4", "duration_step_us: 0", "duration_step_us must be 4"),
    ("802.11ac", "sifs_us: 16", "sifs_us: 10", "sifs_us must be 16"),
    ("802.11ac", "difs_us: 43", "difs_us: 40", "difs_us must be sifs_us and 2 to 15 slots"),
    ("802.11ac", "cw_min: 15", "cw_min: 16", "cw_min must be a power of two less one"),
    ("802.11ac", "channels: [36, 149]", "channels: [36, 52]", "channels must be some of 36, 149"),
    ("802.11ac", "band_ghz: 5", "band_ghz: 2.4", "band_ghz must be 5 with VHT"),
    ("802.11ac", "width_mhz: 80", "width_mhz: 160", "channels must be some of"),
    ("802.11ac", "mcs: 9", "mcs: 10", "mcs must be from 0 to 9 with VHT and 2 streams"),
    ("802.11ac", "streams: 2", "streams: 3", "streams must be one of 1, 2"),
    ("802.11ac", "aggregate: 64", "aggregate: 257", "aggregate must be from 1 to 256"),
    ("802.11ac", "queue_frames: 256", "queue_frames: 5000", "queue_frames must be from 1 to 4096"),
    ("802.11n-ht20", "mcs: 7", "mcs: 8", "mcs must be from 0 to 7 with HT and 1 streams"),
    ("802.11n-ht20", "width_mhz: 20", "width_mhz: 40", "width_mhz must be 20 in 2.4 GHz"),
    ("802.11n-ht20", "format: HT", "format: EHT", "format must be one of HT, VHT, HE, non-HT"),
    ("802.11ax", "guard_us: 0.8", "guard_us: 0.4", "guard_us must be one of 0.8, 1.6, 3.2"),
    ("802.11ax-6ghz", "format: HE", "format: VHT", "format must be HE in 6 GHz"),
    ("802.11ax-6ghz", "channels: [1, 17]", "channels: [1, 5]", "channels must be some of 1, 17, "),
    ("802.11ax-6ghz", "band_ghz: 6", "band_ghz: 60", "band_ghz must be 2.4 or 5 or 6"),
    ("802.11n-ht20", "phy: {", "signal: {rates_bps: [54000000]}\nphy: {",
     "signal and phy exclude")])
def test_medium_that_standard_does_not_have_is_refused(tmp_path: Path, name: str, old: str,
                                                       new: str, said: str) -> None:
    """One line that says which figure belongs to the physical layer."""
    text = (yaml_reader.ROOT / "media" / f"{name}.yml").read_text()
    assert text.count(old) == 1
    (tmp_path / "bad.yml").write_text(text.replace(old, new))
    with pytest.raises(loader.TopologyError, match=said) as caught:
        load_medium(str(tmp_path / "bad.yml"))
    assert "\n" not in str(caught.value)


def test_vht_has_no_mcs_9_in_20_mhz() -> None:
    """A symbol would have 346.67 bits."""
    with pytest.raises(ValueError, match="mcs 9 does not exist in VHT with 1 streams in 20 MHz"):
        make_phy(VHT, 20, 1, 9, 0.8)
    assert make_phy(HE, 20, 1, 9, 0.8).rate_bps == pytest.approx(114.7e6, rel=1e-3)


@pytest.mark.parametrize("name", [name for name in loader.medium_names() if name not in FASTER])
def test_older_media_are_stored_as_before(name: str) -> None:
    """A plan's digest covers its media, so results from before these fields are continued."""
    document = loader.to_json(load_medium(name))
    assert list(document)[-5:] == ["aggregate_bytes", "beacon_bytes", "beacon_interval_ms",
                                   "management", "signal"]
    assert model.from_json(Medium, document) == load_medium(name)


def test_media_stay_hashable_and_survive_json() -> None:
    """Caches have them as keys, and the guest gets them as JSON."""
    for name in FASTER:
        medium = load_medium(name)
        assert model.from_json(Medium, loader.to_json(medium)) == medium
        assert hash(medium) == hash(load_medium(name))


@pytest.mark.parametrize(("name", "ticks"), [
    ("802.11b-short", "20"), ("802.11n-aggregated", "20"), ("802.11n-300", "20"),
    ("802.11n-ht20", "1"), ("802.11ax", "1")])
def test_clock_reads_are_short_on_media_with_phy(name: str, ticks: str, tmp_path: Path) -> None:
    """Media from before the setting keep the 20 ticks of their results."""
    file = tmp_path / "clock_read_ticks"
    are_short = load_medium(name).has_long_aggregates
    clock.set_read_ticks(are_short=are_short, ticks=file)
    assert not file.exists()
    file.write_text("7\n")
    clock.set_read_ticks(are_short=are_short, ticks=file)
    assert file.read_text() == f"{ticks}\n"
