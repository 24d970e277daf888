"""`qop verify`: check that a results folder or an archive is complete and unchanged.

The command compares all files with their checksums and prints a line for each problem. With
`--redo` it also computes all results again from the captures. With `--write` it writes new
checksums.
"""

from __future__ import annotations

from pathlib import Path

import click

from harness import host_process
from harness.engine import results
from harness.portable import verification
from measure.records.document import to_printable


@click.command("verify", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("place", required=False, type=click.Path(path_type=Path),
                metavar="[FOLDER_OR_FILE]")
@click.option("--write", is_flag=True,
              help="Write SHA256SUMS into FOLDER, unless something is damaged.")
@click.option("--redo", is_flag=True,
              help="Dissect the captures again, judge every record anew, and compare.")
def command(place: Path | None, write: bool, redo: bool) -> int:
    """Check a results folder, or an archive of './qop export'.

    The default is the newest folder in results/. The command checks checksums, records, whether the
    records belong to the plan, and the captures that they name. The digest of plan and records does
    not depend on their place: compare it with the digest that you were given.

    Exit status: 0 if no problem was found, 1 with one line for each problem.
    """
    place = place or results.find_latest_folder(results.RESULTS)
    with host_process.raise_interrupt_on_signals():
        verdict = verification.verify_results(place, write=write, redo=redo)
    for line in (*(finding.text for finding in verdict.findings), *verdict.reader_notes):
        click.echo(to_printable(line))
    if verdict.ok:
        click.echo(f"{place}: {verdict.summary()}")
        return 0
    return 1
