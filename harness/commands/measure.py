"""`qop measure`: time logins and roams on a network of the user's own, with an 802.11 card.

The card logs in to the network again and again by the system's wpa_supplicant, and roams between
its access points. A capture of the card shows the phases. Afterwards the card is as it was, also if
the command is killed (`measure.cards.borrowing`). The record and the capture are kept in a results
folder.
"""

from __future__ import annotations

import itertools
import os
import platform
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness import host_process
from harness.errors import UserError, report_disk_errors
from measure.records.document import to_printable

if TYPE_CHECKING:
    from measure.cards.borrowing import BorrowedCard
    from measure.cards.results import CardRecord
    from measure.cards.station import AccessPoint, Attempt, CardStation

_RESULTS = Path("results")
_DEFAULT_LOGINS = 20
_PASSPHRASE_LENGTHS, _SSID_LENGTHS = range(8, 64), range(1, 33)
#: Files of a results folder: the capture below `CAPTURES`, and the daemons' logs.
_CAPTURE, _LOGS = "air.pcapng", "logs"


@dataclass(frozen=True)
class _Request:
    """A measurement to make: card, network, numbers of logins and roams."""

    card: str
    ssid: str
    passphrase: str
    config: Path | None
    logins: int
    roams: int | None
    timeout_s: float
    uses_monitor: bool


@click.command("measure", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--card", required=True, metavar="NAME",
              help="Use the 802.11 card with this interface, such as wlan0.")
@click.option("--ssid", required=True, metavar="NAME", help="Log in to the network of this SSID.")
@click.option("--passphrase-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Log in with the passphrase in the first line of this file (default: none, for "
              "an open network).")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Log in with the network of this SSID in a configuration file of "
              "wpa_supplicant, which may use EAP (default: none).")
@click.option("--logins", type=click.IntRange(1, 10_000), default=_DEFAULT_LOGINS, metavar="N",
              help=f"Log in this many times (default: {_DEFAULT_LOGINS}).")
@click.option("--roams", type=click.IntRange(0, 10_000), metavar="N",
              help="Roam this many times (default: as many as logins if two access points are "
              "heard, else none).")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 600), default=30.0, metavar="S",
              help="Give up a login or roam after this time in s (default: 30).")
@click.option("--no-monitor", is_flag=True,
              help="Capture only the station's own EAPOL frames (default: capture all its frames "
              "by a monitor interface, if the driver has one).")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Write results here (default: a new folder in results/).")
def measure_card(card: str, ssid: str, passphrase_file: Path | None, config: Path | None,
                 logins: int, roams: int | None, timeout_s: float, no_monitor: bool,
                 out: Path | None) -> int:
    """Time logins and roams of a station on a network of your own.

    The station is the 802.11 card --card of this machine, which must not be in use. NetworkManager
    leaves it alone meanwhile. Each login begins without cached keys. Afterwards the card is as it
    was. docs/cards.md describes what is measured.
    """
    passphrase = _read_passphrase(passphrase_file) if passphrase_file else ""
    if passphrase_file and config:
        raise UserError("--passphrase-file: goes without --config, which has the credentials; "
                        "leave one of them out")
    if len(os.fsencode(ssid)) not in _SSID_LENGTHS:
        raise UserError(f"--ssid {ssid}: an SSID has 1 to 32 bytes; correct it")
    if config:
        _check_readable("--config", config)
    request = _Request(card, ssid, passphrase, config, logins, roams, timeout_s, not no_monitor)
    folder = out or _RESULTS / f"{time.strftime('%Y-%m-%d_%H%M%S')}_{card}"
    from measure.agent.errors import MeasureError

    try:
        with host_process.raise_interrupt_on_signals(), report_disk_errors(folder):
            record = _run_measurement(request, folder)
    except MeasureError as error:
        raise UserError(f"--card {error}" if str(error).startswith(f"{card}: ") else str(error),
                        status=1) from None
    _print_record(record, folder)
    return int(any(sample.reason for sample in record.samples))


command = measure_card


def _read_passphrase(file: Path) -> str:
    _check_readable("--passphrase-file", file)
    passphrase = file.read_text(errors="replace").partition("\n")[0].rstrip("\r")
    if len(passphrase) not in _PASSPHRASE_LENGTHS or not passphrase.isprintable():
        raise UserError(f"--passphrase-file {file}: its first line is no passphrase of 8 to 63 "
                        "characters; correct it")
    return passphrase


def _check_readable(option: str, file: Path) -> None:
    try:
        file.open("rb").close()
    except OSError as error:
        raise UserError(f"{option} {file}: cannot be read ({error.strerror}); name another file"
                        ) from None


def _run_measurement(request: _Request, folder: Path) -> CardRecord:
    """Measure with the card, restore the card, and write the record.

    Raises:
        MeasureError: The card cannot be used, or the first login failed.
    """
    from harness.engine.cards import tell_changed_rules
    from measure.cards import results
    from measure.cards.borrowing import borrow_card

    attempts: list[Attempt] = []
    with (tell_changed_rules(),
          borrow_card(request.card, wants_monitor=request.uses_monitor) as card):
        if (folder / results.FILE).exists():
            raise UserError(f"--out {folder}: has a measurement; choose another folder")
        (folder / _LOGS).mkdir(parents=True, exist_ok=True)
        (folder / results.CAPTURES).mkdir(parents=True, exist_ok=True)
        if card.was_restored:
            click.echo(f"qop: {card.card_name}: restored after a measurement that was killed",
                       err=True)
        missing = card.monitor_missing or "" if request.uses_monitor else "--no-monitor was given"
        if missing and request.uses_monitor:
            click.echo(f"qop: {card.card_name}: {missing}; EAP and key messages are timed, and not "
                       f"{', '.join(results.MISSING_WITHOUT_MONITOR)}", err=True)
        station, access_points = _measure_attempts(request, card, folder, attempts)
        facts = _describe_card(card, station)
    return _make_record(request, folder, attempts, access_points, facts, missing)


def _measure_attempts(request: _Request, card: BorrowedCard, folder: Path,
                      attempts: list[Attempt]) -> tuple[CardStation, list[AccessPoint]]:
    """Log in and roam, with a capture. Adds to `attempts`."""
    from measure.agent.errors import MeasureError
    from measure.cards import results
    from measure.cards.station import CardStation, format_network

    config = request.config
    if config is None:
        config = card.folder / "station.conf"
        config.touch(mode=0o600)
        config.write_text(format_network(request.ssid, request.passphrase))
    station = CardStation(card, request.ssid, config.absolute(), folder / _LOGS,
                          request.timeout_s)
    with station.run_programs():
        station.start_capture()
        for number in range(1, request.logins + 1):
            attempts.append(station.log_in(number))
            _print_attempt(attempts[-1], request.logins)
            if number == 1 and attempts[0].reason:
                raise MeasureError("link", f"--ssid {request.ssid}: no login: "
                                   f"{attempts[0].reason}; see {folder / _LOGS}")
        access_points = station.list_access_points()
        roams = _count_roams(request, access_points)
        if roams and attempts[-1].reason:
            raise MeasureError("link", f"--ssid {request.ssid}: no login before the roams: "
                               f"{attempts[-1].reason}; see {folder / _LOGS}")
        at = attempts[-1].bssid
        order = itertools.cycle(sorted(access_points, key=lambda each: each.bssid == at))
        for number in range(1, roams + 1):
            attempts.append(station.roam_to(number, next(order)))
            _print_attempt(attempts[-1], roams)
        station.end_capture(folder / results.CAPTURES / _CAPTURE)
    return station, access_points


def _count_roams(request: _Request, access_points: list[AccessPoint]) -> int:
    if len(access_points) > 1:
        return request.logins if request.roams is None else request.roams
    if request.roams:
        click.echo(f"qop: --roams {request.roams}: only {len(access_points)} access point of "
                   f"{to_printable(request.ssid)} is heard, so there is nowhere to roam; nothing "
                   "of it is measured", err=True)
    return 0


def _print_attempt(attempt: Attempt, count: int) -> None:
    what = f"failed: {attempt.reason}" if attempt.reason else (
        f"{attempt.duration_s * 1e3:.0f} ms to {attempt.bssid}")
    click.echo(f"[{attempt.number}/{count}] {attempt.kind}: {what}")


def _describe_card(card: BorrowedCard, station: CardStation) -> dict[str, object]:
    """Return what the record says of the card, its driver and the programs."""
    from measure.cards import wireless

    return {"card": card.card_name, "address": card.state.address,
            "driver": wireless.read_driver(card.card_name),
            "programs": {"wpa_supplicant": station.read_version(), "linux": platform.release()},
            "regulatory_domain": wireless.read_country(card.state.phy),
            "regulatory_rules": wireless.read_rules(card.state.phy),
            "dropped_frames": station.dropped_frames}


def _make_record(request: _Request, folder: Path, attempts: list[Attempt],
                 access_points: list[AccessPoint], facts: dict[str, object],
                 missing: str) -> CardRecord:
    from measure.cards import results
    from measure.cards.station import to_channel
    from measure.explain.answer import explain_captures

    answer = explain_captures([folder / results.CAPTURES / _CAPTURE])
    samples = list(results.make_samples(attempts, answer.to_document()["negotiations"],
                                        str(facts["address"])))
    record = results.CardRecord.model_validate({
        **facts, "ssid": request.ssid, "monitor_missing": missing,
        "not_checked": list(results.MISSING_WITHOUT_MONITOR) if missing else [],
        "access_points": [asdict(each) | {"channel": to_channel(each.frequency_mhz)}
                          for each in access_points],
        "measured_at_s": attempts[0].start_s, "samples": samples})
    results.write_record(record, folder)
    with suppress(OSError):  # --out may be a folder of the user who gave sudo
        _give_to_caller(folder)
    return record


def _give_to_caller(folder: Path) -> None:
    """Let the files belong to the user who gave the command by sudo."""
    user, group = (int(os.environ.get(name, "-1")) for name in ("SUDO_UID", "SUDO_GID"))
    for path in (folder, *folder.rglob("*")) if user >= 0 else ():
        os.chown(path, user, group)


def _print_record(record: CardRecord, folder: Path) -> None:
    from analysis.present.terminal import to_console
    from harness import card_report
    from harness.commands import output

    console = output.make_console()
    for table in card_report.make_tables(record):
        console.print(to_console(table))
    for line in card_report.make_lines(record):
        click.echo(to_printable(line))
    click.echo(f"Written: {folder}; './qop explain {folder}' shows each login and roam")
