"""`qop explain`: explain from captures what took how long in authentications and roams, and why.

Input are pcap or pcapng files from any 802.11 network, or a results folder of qop. Passphrases and
other keys are optional. The command prints each authentication and roam with its parts, and which
side was waited for. Options give the answer as JSON, CSV, an HTML page or a Wireshark profile.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from guest.cache import cache_root
from harness.errors import UserError
from measure.records.document import to_printable

if TYPE_CHECKING:
    from measure.explain.recordings import Recording


@click.command("explain", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("captures", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--psk", "passphrases", multiple=True, metavar="SSID:PASSPHRASE",
              help="Decrypt frames of this network with its passphrase. May be repeated.")
@click.option("--pmk", "master_keys", multiple=True, metavar="HEX",
              help="Decrypt frames with this pairwise master key. May be repeated.")
@click.option("--tls-keys", type=click.Path(path_type=Path), metavar="FILE",
              help="Decrypt TLS inside EAP with this key log, an SSLKEYLOGFILE (default: the "
                   "keys inside the capture).")
@click.option("--wireguard-keys", type=click.Path(path_type=Path), metavar="FILE",
              help="Decrypt WireGuard with this key log of Wireshark's format (default: the keys "
                   "inside the capture).")
@click.option("--reference", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Compare with the same policy in this results folder (default: with the "
                   "policies that come with qop).")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a CSV line for each negotiation.")
@click.option("--wireshark", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Write profiles of Wireshark into FOLDER that colour and filter the frames of "
                   "each finding (default: none).")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE",
              help="Write the answer as a page into FILE (default: no page).")
def command(captures: tuple[Path, ...], passphrases: tuple[str, ...],
            master_keys: tuple[str, ...], tls_keys: Path | None, wireguard_keys: Path | None,
            reference: Path | None, as_json: bool, as_csv: bool, wireshark: Path | None,
            html: Path | None) -> None:
    """Explain each CAPTURE: what its authentications and roams took, and who was waited for.

    CAPTURE is a file of Wireshark, tcpdump or another sniffer: pcap or pcapng, also with gzip. It
    may be taken on the air, at an access point, a station or a server. Captures of the same events
    are merged, whatever their clocks. A results folder stands for all captures in it. Without keys,
    everything that is visible in clear is explained. docs/explain.md describes the answer.
    """
    if as_json and as_csv:
        raise UserError("--json: goes without --csv; run the command twice for both")
    keys = _decryption_keys(passphrases, master_keys)
    key_files = {preference: file for preference, file in (
        ("tls.keylog_file", tls_keys), ("wg.keylog_file", wireguard_keys)) if file}
    files, recordings = _find_captures(captures)
    _check_pipes(files)
    if wireshark:
        with _refuse_unwritable("--wireshark", wireshark, "folder"):
            wireshark.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=wireshark).close()
    if html:
        with _refuse_unwritable("--html", html, "file"):
            _check_file(html)
    document = _explain_captures(files, recordings, keys, key_files, reference)
    _print_answer(document, as_json=as_json, as_csv=as_csv)
    if wireshark:
        from measure.explain.recordings import Recording

        _write_profiles(document, keys, key_files, [Recording(files), *recordings], wireshark)
    if html:
        _write_page(document, html)


def _check_pipes(files: Sequence[Path]) -> None:
    """Refuse a pipe among several captures, each of which is read twice. Raises UserError."""
    for file in files if len(files) > 1 else ():
        if file.exists() and not file.is_file():
            raise UserError(f"{file}: a pipe can be read once, and several captures are read "
                            "twice; write it into a file first")


@contextmanager
def _refuse_unwritable(option: str, target: Path, kind: str) -> Iterator[None]:
    """Turn the error of a target that cannot be written into a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{option} {target}: cannot be written ({error.strerror}); choose another "
                        f"{kind}") from None


def _check_file(file: Path) -> None:
    """Open a file for writing, and leave it as it was. Raises OSError."""
    if file.is_fifo():
        return  # its reader would take this for the end
    is_new = not file.exists()
    file.open("ab").close()
    if is_new:
        file.unlink()


def _find_captures(captures: Sequence[Path]) -> tuple[list[Path], list[Recording]]:
    """Separate capture files from folders, and find the recordings in the folders.

    A recording has captures of the same events, such as one repetition.

    Returns:
        The files that belong to no recording, and the recordings. A file that is named twice, by
        itself and by its folder, is in the result once.
    """
    folders = [capture for capture in captures if capture.is_dir()]
    recordings = {os.path.realpath(recording.captures[0]): recording for folder in folders
                  for recording in find_recordings(folder)}
    known = {os.path.realpath(capture) for each in recordings.values()
             for capture in each.captures}
    files = []
    for capture in captures:
        place = os.path.realpath(capture)
        if capture not in folders and place not in known:
            files.append(capture)
            known.add(place)
    return files, [*recordings.values()]


def find_recordings(folder: Path) -> list[Recording]:
    """Return the captures of each repetition in a results folder, with their keys.

    Raises:
        UserError: The folder has none, or its files cannot be read.
    """
    from measure.agent.errors import MeasureError
    from measure.explain import recordings

    try:
        found = recordings.find_recordings(folder)
    except MeasureError as error:
        raise UserError(str(error)) from None
    if not found:
        raise UserError(f"{folder}: no captures in this folder; give a capture file, or a results "
                        "folder with captures ('./qop run --captures all')")
    return found


def _decryption_keys(passphrases: tuple[str, ...], master_keys: tuple[str, ...]) -> list[str]:
    """Return the keys in the form of `measure.capture.dissection`. Raises UserError."""
    keys = []
    for text in passphrases:
        ssid, colon, passphrase = text.partition(":")
        if not 1 <= len(os.fsencode(ssid)) <= 32 or not 8 <= len(os.fsencode(passphrase)) <= 63:
            place = f"--psk {ssid}:..." if colon else "--psk"  # what has no colon may be secret
            raise UserError(f"{place}: an SSID has 1 to 32 bytes, and a passphrase 8 to 63; write "
                            "SSID:PASSPHRASE")
        keys.append(f"wpa-pwd:{_escape_key(passphrase)}:{_escape_key(ssid)}")
    for text in master_keys:
        if len(text) not in (64, 96) or not set(text.lower()) <= set("0123456789abcdef"):
            raise UserError("--pmk: a pairwise master key has 64 or 96 hexadecimal digits; give "
                            "the key of the access point's or the station's log")
        keys.append(f"wpa-psk:{text}")
    return keys


def _escape_key(text: str) -> str:
    r"""Return text for a key of tshark, in which % and signs of its own are escaped."""
    return "".join(sign if sign.isalnum() else "".join(f"%{byte:02x}" for byte in os.fsencode(sign))
                   for sign in text)


def _explain_captures(captures: list[Path], recordings: list[Recording], keys: list[str],
                      key_files: dict[str, Path], reference: Path | None) -> dict[str, Any]:
    from measure.agent.errors import MeasureError
    from measure.explain import references
    from measure.explain.answer import explain_captures

    try:
        known = references.read_references(reference or references.SHIPPED)

        def find_reference(negotiation: Mapping[str, Any]) -> dict[str, Any] | None:
            compared = references.find_comparison(negotiation, known)
            return compared.to_document() if compared else None

        with _show_reading() as report:
            answer = explain_captures(captures, keys, key_files, recordings, report,
                                      find_reference)
        return answer.to_stored_document()
    except MeasureError as error:
        raise UserError(str(error)) from None


#: Interval of lines on progress without a terminal, in s.
_LINE_EVERY_S = 10.0


@contextmanager
def _show_reading() -> Iterator[Callable[[str, float], None]]:
    """Show how much of each capture has been read: as a bar, or as a line now and then."""
    console = Console(stderr=True, highlight=False)
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
                   TimeElapsedColumn(), console=console, transient=True,
                   disable=not console.is_terminal)
    tasks: dict[str, TaskID] = {}
    shown_s = time.monotonic()

    def show_share(name: str, share: float) -> None:
        nonlocal shown_s
        if console.is_terminal:
            if name not in tasks:
                tasks[name] = bar.add_task(to_printable(name), total=1.0)
            bar.update(tasks[name], completed=share)
        elif time.monotonic() - shown_s >= _LINE_EVERY_S:
            shown_s = time.monotonic()
            click.echo(f"{to_printable(name)}: {share:.0%} read", err=True)

    with bar:
        yield show_share


def _write_profiles(document: dict[str, Any], keys: list[str], key_files: dict[str, Path],
                    recordings: list[Recording], folder: Path) -> None:
    """Write a Wireshark profile for each capture, with the given keys and its folder's keys."""
    from harness.wireshark import name_profiles, read_keys, write_profile
    from measure.explain.answer import name_captures

    names = name_captures([capture for each in recordings for capture in each.captures])
    sources = {names[capture]: (capture, each) for each in recordings for capture in each.captures}
    profiles = name_profiles([capture["name"] for capture in document["captures"]])
    findings = defaultdict(list)
    for number, negotiation in enumerate(document["negotiations"], 1):
        for finding in negotiation["findings"]:
            for shown in finding["filters"]:
                findings[shown["capture"]].append((f"{number} {finding['cause']}",
                                                   shown["filter"]))
    for capture in document["captures"]:
        profile = profiles[capture["name"]]
        path, source = sources[capture["name"]]
        try:
            content = read_keys(source)
        except OSError as error:
            raise UserError(f"{error.filename}: cannot be read ({error.strerror}); leave "
                            "--wireshark out, or make the file readable") from None
        with _refuse_unwritable("--wireshark", folder, "folder"):
            write_profile(folder, profile, replace(
                content, link_keys=[*keys, *content.link_keys], tls_keys=source.tls_keys,
                findings=findings[capture["name"]], key_files=key_files))
        opened = shlex.join(["wireshark", "-C", profile, str(path)])
        click.echo(to_printable("Written: WIRESHARK_CONFIG_DIR="
                                f"{shlex.quote(str(folder))} {opened}"), err=True)


def _print_answer(document: dict[str, Any], *, as_json: bool, as_csv: bool) -> None:
    from harness import explanation

    if as_json:
        for text in explanation.format_json(document):
            click.echo(text, nl=False)
    elif as_csv:
        for text in explanation.format_csv(document):
            click.echo(text, nl=False)
    else:
        for line in explanation.format_lines(document):
            click.echo(to_printable(line))


def _write_page(document: dict[str, Any], html: Path) -> None:
    from analysis.present.page import render_page
    from harness import explanation

    with _refuse_unwritable("--html", html, "file"):
        page = render_page(explanation.make_page(document), cache_root() / "plotly")
        html.write_text(page, encoding="utf-8")
    click.echo(f"Written: {html}", err=True)
