"""Tests of 802.11's DCF outside of the guest: the same C code against Bianchi's model and ns-3."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.selftest import contention
from topologies import dcf, loader
from topologies.loader import load_medium
from topologies.timing import Medium

NS3 = contention.ns3_answers()
MEDIA = [name for name in loader.medium_names() if name != "802.11n"]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guest's air as a program."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    return contention.compiled(tmp_path_factory.mktemp("dcf"))


def run(program: Path, medium: Medium, payload_bytes: int, **settings: float) -> dict[str, float]:
    """A cell of stations in the guest's air."""
    return contention.trial(program, {**contention.cell(medium, payload_bytes), **settings})


@pytest.mark.parametrize("stations", [1, 2, 10, 50])
@pytest.mark.parametrize("name", MEDIA)
def test_saturation_is_bianchis(program: Path, name: str, stations: int) -> None:
    """Throughput within 1 % of the model, 1 to 50 stations; two wait for each other: 1.3 %.

    The model takes stations for independent, which two are least of all.
    """
    medium = load_medium(name)
    for payload_bytes in (64, 1470):
        model = contention.bianchi(medium, payload_bytes, stations)
        measured = run(program, medium, payload_bytes, stations=stations, seconds=40)
        within = 0.013 if stations == 2 else 0.01
        assert measured["delivered_per_s"] == pytest.approx(model.delivered_per_s, rel=within)
        if stations > 2:
            assert measured["collision_share"] == pytest.approx(model.collision_share, rel=0.02)


def test_one_station_is_the_ceiling() -> None:
    """The model of one station is the maximum of Jun, Peddabachagari and Sichitiu."""
    for name in MEDIA:
        medium = load_medium(name)
        assert contention.bianchi(medium, 1470, 1).delivered_per_s * 1470 * 8 == pytest.approx(
            medium.udp_ceiling_bps(1470), rel=1e-5)


@pytest.mark.parametrize("row", NS3, ids=lambda row: "{medium}-{payload_bytes}-{stations}-{load}"
                         .format(**row))
def test_as_ns3(program: Path, row: dict[str, Any]) -> None:
    """Within 2 % of ns-3 when saturated; delay, mean and 99th percentile, within 5 % when not.

    `load` is a share of what saturated stations get together.
    """
    measured = run(program, contention.as_ns3(row), row["payload_bytes"], stations=row["stations"],
                   gap_ns=row["gap_s"] * 1e9, seconds=400 if row["load"] else 40)
    assert measured["delivered_per_s"] == pytest.approx(row["delivered_per_s"], rel=0.02)
    if row["load"]:
        for name in ("delay_mean_us", "delay_p99_us"):
            assert measured[name] == pytest.approx(row[name], rel=0.05)


def test_a_lone_frame_takes_preamble_and_bits(program: Path) -> None:
    """On a channel that is idle nearly always: no backoff, and no acknowledgement to wait for."""
    for name in MEDIA:
        medium = load_medium(name)
        measured = run(program, medium, 64, stations=1, gap_ns=1e9, seconds=2000)
        assert measured["delay_mean_us"] == pytest.approx(medium.latency_us(64 + 36), rel=0.02)


def test_equals_get_equal_shares(program: Path) -> None:
    """Jain's index above 0.99, over ten stations."""
    assert run(program, load_medium("802.11g"), 1470, stations=10, seconds=20)["jain"] > 0.99


def test_the_same_seed_is_the_same_air(program: Path) -> None:
    """Every number repeats with the seed, and with another none does."""
    first, again, other = (run(program, load_medium("802.11g"), 256, stations=5, seconds=5,
                               seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(("changes", "share"), [({"eifs": True}, 0.98), ({"cw_max": 31}, 0.97)])
def test_what_a_file_says_is_heeded(program: Path, changes: dict[str, Any], share: float) -> None:
    """Waiting for EIFS after collisions, or windows that do not grow, costs ten stations air."""
    medium = load_medium("802.11b-short")
    usual, changed = (run(program, air, 1470, stations=10, seconds=30)["delivered_per_s"]
                      for air in (medium, dataclasses.replace(medium, **changes)))
    assert changed < share * usual
    assert changed == pytest.approx(contention.bianchi(
        dataclasses.replace(medium, **changes), 1470, 10).delivered_per_s, rel=0.015)


def test_losses_and_retries(program: Path) -> None:
    """A frame that one station may send three times is lost with the cube of the probability."""
    measured = run(program, dataclasses.replace(load_medium("802.11g"), retries=2), 64, stations=1,
                   loss=0.3, seconds=60)
    lost = measured["given_up"] / (measured["given_up"] + 60 * measured["delivered_per_s"])
    assert lost == pytest.approx(0.3**3, rel=0.05)


def test_the_kernel_is_told_what_the_file_says() -> None:
    """Options are where dcf_netlink.h has them, as long as the C structures are."""
    medium = dataclasses.replace(load_medium("802.11g"), loss_percent=50)
    request = dcf.message(7, 1 << 16, dcf.DcfChannel(
        medium, stations=6, access_points=(3, 4), cipher_bytes=8, queue_frames=50, seed=9))
    length, kind, flags = struct.unpack_from("=IHH", request)
    assert (length, kind, flags) == (len(request), 36, 0x605)
    assert request[36:44] == struct.pack("=HH4s", 8, 1, b"dcf\0")
    assert struct.unpack_from("=HHHH", request, 44) == (4 + 92 + 84, 0x8002, 92, 1)
    told = struct.unpack_from("=6Q6II4xQ", request, 52)
    assert told == (9000, 28000, 0, 4000, 10000 + 34000, 0, 15, 1023, 6, 0x80000000, 50, 4, 6, 9)
    assert struct.unpack_from("=HH", request, 140) == (84, 2)
    timing = struct.unpack_from("=QQIII4xQQIII4xQi4x", request, 144)
    assert timing == (26000, 54_000_000, 216, 4000, 22, 26000, 6_000_000, 24, 4000, 22,
                      0b1100, 28 + 8 + 8 - 14)


@pytest.mark.parametrize(("line", "said"), [
    ("cw_max: 7", "cw_max"), ("slot_us: 0", "slot_us"), ("rate_bps: 0", "rate_bps"),
    ("air: fresh", "air must be"), ("basic_rate_bps: 0", "basic_rate_bps")])
def test_bad_media_are_one_line(tmp_path: Path, line: str, said: str) -> None:
    """What no channel can be is refused where it is read."""
    field = line.partition(":")[0]
    text = (loader.ROOT / "media" / "802.11g.yml").read_text()
    (tmp_path / "bad.yml").write_text("\n".join(
        line if entry.startswith(f"{field}:") else entry for entry in text.splitlines()) + "\n")
    with pytest.raises(loader.TopologyError, match=said) as caught:
        load_medium(str(tmp_path / "bad.yml"))
    assert "\n" not in str(caught.value)


def test_ns3_answers_as_recorded(tmp_path: Path) -> None:
    """The reference itself, for who has it: `pip install ns3==3.44.post0` and a C++ compiler."""
    spec = importlib.util.find_spec("ns3")
    if spec is None or not spec.submodule_search_locations or not shutil.which("c++"):
        pytest.skip("ns-3 is not installed")
    [place] = spec.submodule_search_locations
    libraries = sorted(path.name for path in Path(place, "lib64").glob("libns3*-*.so"))
    linked = [f"-l:{name}" for name in libraries if name.rsplit("-", 1)[1] in {
        f"{part}.so" for part in ("core", "network", "wifi", "mobility", "propagation", "antenna",
                                  "spectrum", "stats")}]
    subprocess.run(["c++", "-std=c++2b", "-O1", f"-I{place}/include", str(contention.NS3_SOURCE),
                    "-o", str(tmp_path / "cell"), f"-L{place}/lib64", *linked,
                    f"-Wl,-rpath,{place}/lib64"], check=True)
    row = next(row for row in NS3 if not row["load"] and row["stations"] == 10)
    said = subprocess.run([str(tmp_path / "cell"), *(f"--{name}={row[key]}" for name, key in (
        ("medium", "medium"), ("payload", "payload_bytes"), ("stations", "stations"),
        ("satrate", "send_every_s"), ("seconds", "seconds")))], text=True, capture_output=True,
        check=True)
    assert json.loads(said.stdout)["delivered_per_s"] == pytest.approx(row["delivered_per_s"],
                                                                      rel=0.01)
