"""`qop export`: pack a results folder into an archive with checksums.

A results folder has the plan and the records of a run. Captures are packed only on request
(`--captures`). With `--records-only`, the archive has no more than a report needs. `qop import`
unpacks the archive on another machine. With `--wireshark`, the captures are also exported with
their keys, to open them in Wireshark.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from harness import host_process
from harness.engine import results
from harness.errors import UserError
from harness.portable import archive, wireshark_export
from harness.portable.folder import CaptureChoice
from measure.records.document import to_printable


@click.command("export", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("-o", "--output", "file", type=click.Path(path_type=Path), metavar="FILE",
              help="Write this archive (.tar.gz or .tar.xz), or into this folder (default: "
              "FOLDER's name with .tar.gz, here).")
@click.option("--captures", type=click.Choice(get_args(CaptureChoice)), default="none",
              help="Include captures of these repetitions (default: none).")
@click.option("--records-only", is_flag=True,
              help="Leave out logs, events and raw data, which no report needs (default: only "
              "captures are left out).")
@click.option("--wireshark", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Write all captures into FOLDER as pcapng files with their keys, for Wireshark "
              "(default: an archive).")
def command(folder: Path | None, file: Path | None, captures: CaptureChoice,
            records_only: bool, wireshark: Path | None) -> None:
    """Pack FOLDER into one archive with checksums (default: the newest in results/).

    The archive holds plan, records, provenance, events and logs, but no report. Two exports of a
    folder are equal in every byte. A damaged folder is refused.
    """
    folder = folder or results.find_latest_folder(results.RESULTS)
    results.require_manifest(folder)
    if wireshark:
        if file or captures != "none" or records_only:
            other = "--output" if file else "--records-only" if records_only else "--captures"
            raise UserError(f"--wireshark: goes without {other}, which is for archives; leave it "
                            "out")
        exported = wireshark_export.export_captures(folder, wireshark)
        click.echo(f"{wireshark}: {exported.captures} captures of {exported.repetitions} "
                   f"repetitions; {wireshark / 'README'} says how to open them")
        return
    if records_only and captures != "none":
        raise UserError(f"--captures {captures}: goes without --records-only; leave one of them "
                        "out")
    name = f"{archive.make_folder_name(folder)}.tar.gz"
    if file is None:
        file = Path(name)
    elif file.is_dir():
        file /= name
    with host_process.raise_interrupt_on_signals():
        done = archive.export_folder(folder, file, captures, records_only=records_only)
    click.echo(f"{done.file}: {done.records} records, {done.captures} captures, "
               f"{done.bytes / 1e6:.1f} MB")
    click.echo(f"  digest of plan and records: {done.digest}")
    if done.foreign:
        names = to_printable(", ".join(map(click.format_filename, done.foreign)))
        click.echo(f"  left out, no part of the results: {names}")
