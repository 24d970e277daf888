"""`qop bench cards`: measure with cards in a virtual machine that has Debian's stock kernel.

Radios of the kernel's own module `mac80211_hwsim` stand for cards. In the machine (QEMU),
`qop measure` times logins and roams, and `qop run --card` measures M5 in N2 with a third card for
the air (`bench/cards.sh`). A capture of all radios runs meanwhile. The times by the card must agree
with those of the capture. After each measurement the cards must be as before, also if the
measurement was killed.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from guest import boot, image, vm
from guest.root_variants import PackageList
from harness.engine import setup
from harness.engine.machine import ROOT
from harness.engine.results import RESULTS
from harness.errors import UserError
from measure.capture import tshark
from measure.cards import results
from measure.records.record import read_records

#: Packages beyond those of a testbed: what judges captures, and a manager of cards.
PACKAGES = PackageList("cards", ("dbus", "network-manager", "tshark", "udev"),
                       where="bench/cards.py")
#: Differences that count as equal: a share, or seconds.
TOLERANCE, TOLERANCE_S = 0.02, 0.001
#: Address of the mobile node of N2.
_MOBILE_NODE = "02:00:00:00:a2:00"
_LOGINS, _ROAMS = 4, 30
#: Word of the script for cards that are as before.
_RESTORED = "restored"
_MEMORY_MB = 1500
#: Time by instructions, 4 ns each, without waiting while the machine is idle. By the host's clock,
#: an emulated processor that waits for the host stamps single frames late (docs/cards.md).
_BY_INSTRUCTIONS = ("-icount", "shift=2,sleep=off")
#: Folders of the checkout that commands with cards need.
_PROJECT = ("analysis", "ansible", "documents", "guest", "harness", "measure", "policies",
            "protocols", "studies", "topologies", "requirements", "pyproject.toml", "qop")


@dataclass(frozen=True)
class Agreement:
    """A time by the card, and the nearest one of the capture of all radios, in s."""

    name: str
    card_s: float
    capture_s: float

    @property
    def is_equal(self) -> bool:
        """Return whether both are equal, to 2 % or 1 ms."""
        return abs(self.card_s - self.capture_s) <= max(TOLERANCE * self.capture_s, TOLERANCE_S)


def run_bench(kills: int, out: Path | None = None) -> int:
    """Measure with cards in the machine, and print how far the times agree.

    Args:
        kills: Number of measurements, and of runs, that are killed.
        out: Folder for results; by default results/cards.

    Returns:
        0, or 1 if a time differs, a check fails or a card is not as before.

    Raises:
        UserError: The machine cannot be started, or its script failed.
    """
    folder = (out or RESULTS / "cards").absolute()
    if missing := vm.missing_program(vm.find_architecture()):
        raise UserError(f"bench cards: {missing}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    built = setup.ensure_variant(image.PLAIN, packages=PACKAGES, vm=vm.find_architecture().name)
    asyncio.run(_run_machine(built, folder, kills))
    agreements = [*compare_measurement(folder), *compare_run(folder)]
    outcomes = [line.split() for line in (folder / "outcomes").read_text().splitlines()]
    for line in format_lines(agreements, outcomes, (folder / "kernel").read_text().strip()):
        click.echo(line)
    [record], _ = read_records(folder / "run/records")
    failed = [check.check for check in record.evidence if not check.ok]
    click.echo(f"M5-N2: {record.status}, {len(record.evidence)} checks"
               + (f"; not held: {', '.join(failed)}" if failed else ", all held"))
    return int(record.status != "ok" or not all(each.is_equal for each in agreements)
               or any(outcome[-1] != _RESTORED for outcome in outcomes))


def format_lines(agreements: Sequence[Agreement], outcomes: Sequence[Sequence[str]],
                 kernel: str) -> Iterator[str]:
    """Yield the result in lines: how many times agree, and how often cards were restored."""
    yield f"Linux {kernel}; equal to {TOLERANCE:.0%} or {TOLERANCE_S * 1e3:.0f} ms"
    for name in dict.fromkeys(each.name for each in agreements):
        some = [each for each in agreements if each.name == name]
        largest_s = max(abs(each.card_s - each.capture_s) for each in some)
        yield (f"{name}: {sum(each.is_equal for each in some)} of {len(some)} equal, "
               f"{min(each.card_s for each in some) * 1e3:.1f} to "
               f"{max(each.card_s for each in some) * 1e3:.1f} ms, "
               f"largest difference {largest_s * 1e3:.2f} ms")
    ways = Counter((name, way) for name, _, way, _ in outcomes)
    restored = Counter((name, way) for name, _, way, state in outcomes if state == _RESTORED)
    for (name, way), count in ways.items():
        yield f"{name}, {way}: cards as before after {restored[name, way]} of {count}"


def compare_measurement(folder: Path) -> Iterator[Agreement]:
    """Yield the times of logins and roams, each with that of the capture of all radios."""
    record = results.read_record(folder / "measure")
    spans = list(read_joining_spans(folder / "air-measure.pcap", record.address))
    if len(spans) != len(record.samples):
        raise UserError(f"bench cards: the capture has {len(spans)} logins and roams, and the "
                        f"record {len(record.samples)}; see {folder}", status=1)
    for sample, span_s in zip(record.samples, spans, strict=True):
        yield Agreement(f"{sample.kind}s", sample.joining_s or 0.0, span_s)


def read_joining_spans(capture: Path, address: str) -> Iterator[float]:
    """Yield the time from a station's authentication to its last key message, by tshark alone."""
    begun = ended = 0.0
    for time, kind, sender, receiver, eapol in tshark.read_fields(
            capture, ("frame.time_epoch", "wlan.fc.type_subtype", "wlan.ta", "wlan.ra",
                      "eapol.type")):
        if address not in (sender, receiver):
            continue
        if int(kind, 0) == 0x0B and sender == address:
            if ended:
                yield ended - begun
            begun, ended = float(time), 0.0
        elif eapol == "3" or int(kind, 0) in (0x00, 0x01, 0x02, 0x03):
            ended = float(time)
    if ended:
        yield ended - begun


def compare_run(folder: Path) -> Iterator[Agreement]:
    """Yield the times of M5 by the third card, each with that of the capture of all radios."""
    [kept] = (folder / "run/captures").glob("*/auth-air.pcap.gz")
    (unpacked := folder / "auth-air.pcap").write_bytes(gzip.decompress(kept.read_bytes()))
    of_all = read_phase_spans(folder / "air-run.pcap")
    for name, spans_s in read_phase_spans(unpacked).items():
        for span_s in spans_s:
            nearest_s = min(of_all[name], key=lambda other_s: abs(other_s - span_s))
            yield Agreement(f"M5 {name}", span_s, nearest_s)


def read_phase_spans(capture: Path, address: str = _MOBILE_NODE) -> dict[str, list[float]]:
    """Return how long a station's authentication frames and its EAP last, by tshark alone."""
    spans: dict[str, list[float]] = {"authentication": [], "EAP": []}
    begun: dict[str, float] = {}
    for time, kind, sender, receiver, eapol, code in tshark.read_fields(
            capture, ("frame.time_epoch", "wlan.fc.type_subtype", "wlan.ta", "wlan.ra",
                      "eapol.type", "eap.code")):
        if address not in (sender, receiver):
            continue
        if int(kind, 0) == 0x0B and sender == address:
            begun["authentication"] = float(time)
        elif int(kind, 0) == 0x0B and "authentication" in begun:
            spans["authentication"].append(float(time) - begun.pop("authentication"))
        elif eapol in ("0", "1"):
            begun.setdefault("EAP", float(time))
            if code == "3":
                spans["EAP"].append(float(time) - begun.pop("EAP"))
    return spans


async def _run_machine(built: image.GuestImage, folder: Path, kills: int) -> None:
    """Run the script in a virtual machine, with this checkout and its Python environment."""
    architecture = vm.find_architecture()
    accelerator, _ = vm.choose_accelerator(built, architecture)
    shutil.copy(Path(__file__).with_suffix(".sh"), folder)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        share = Path(scratch, "share")
        _link_files(share)
        (folder / boot.CODE).symlink_to(share)
        guest = await vm.boot_vm(
            built, folder, architecture=architecture, accelerator=accelerator,
            cpu=min(os.sched_getaffinity(0)), memory_mb=_MEMORY_MB,
            console_log=folder / "console.log", scratch=Path(scratch),
            command=["sh", "/host/cards.sh", str(_LOGINS), str(_ROAMS), str(kills)],
            options=_BY_INSTRUCTIONS if accelerator == vm.TCG else ())
        try:
            status = await guest.wait()
        finally:
            await guest.kill()
            (folder / boot.CODE).unlink()
    if not status.ok:
        why = status.reason or f"status {status.status}"
        raise UserError(f"bench cards: the machine's script failed ({why}); see console.log, "
                        f"measure.log and run.log in {folder}", status=1)


def _link_files(share: Path) -> None:
    """Link the checkout and the Python environment into a folder, as hard links where possible.

    The machine cannot follow symbolic links out of its shared folder.
    """
    project = share / "project"
    project.mkdir(parents=True)
    for source, to in ((Path(sys.prefix), share / "venv"),
                       *((ROOT / name, project / name) for name in _PROJECT)):
        done = subprocess.run(["cp", "-al", source, to], capture_output=True, check=False)
        if done.returncode:  # another file system
            shutil.rmtree(to, ignore_errors=True)
            subprocess.run(["cp", "-a", source, to], check=True)
