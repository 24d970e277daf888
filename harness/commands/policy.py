"""`qop policy`: make a policy from a configuration file of another program.

A policy is qop's YAML file that says which protection a network has. Input is a hostapd.conf, a
wpa_supplicant.conf, a swanctl.conf, a file of wg-quick or another known format. The policy is
printed, and each setting that is not taken over is listed on standard error.
"""

from __future__ import annotations

from pathlib import Path

import click

from harness.errors import UserError
from policies.conversion.kinds import KINDS

_SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group("policy", context_settings=_SETTINGS)
def command() -> None:
    """Make policies of configuration files that people have."""


@command.command("from", context_settings=_SETTINGS)
@click.argument("file")
@click.option("--kind", type=click.Choice(list(KINDS)),
              help="Read FILE as this kind (default: found by its content and name).")
@click.option("--network", metavar="NAME",
              help="Take this network, connection or interface (default: the only one).")
@click.option("--id", "policy_id", metavar="ID",
              help="Give the policy this id (default: made of the network's name).")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE",
              help="Write the policy into this file (default: standard output).")
def make_policy(file: str, kind: str | None, network: str | None, policy_id: str | None,
                out: Path | None) -> None:
    """Make a policy of FILE, the configuration of another program.

    FILE is a hostapd.conf, a wpa_supplicant.conf, OpenWrt's /etc/config/wireless, a profile of
    NetworkManager or iwd, a swanctl.conf, or a file of wg-quick. '-' is standard input.

    The policy goes to standard output. Standard error lists each setting that is not taken over,
    and what is assumed because FILE does not say it. Passphrases and private keys are not copied:
    qop makes its own for each run. docs/policy-from.md has more.
    """
    from policies import PolicyError
    from policies.conversion.convert import convert_file

    try:
        converted = convert_file(file, kind=kind, network=network, policy_id=policy_id)
    except PolicyError as error:
        raise UserError(str(error)) from None
    for note in converted.notes:
        click.echo(note, err=True)
    click.echo(f"qop: policy {converted.policy.id}: {len(converted.taken_lines)} settings taken "
               f"over, {'the others are listed above' if converted.notes else 'which is all'}",
               err=True)
    if out is None:
        click.echo(converted.text, nl=False)
        return
    try:
        out.write_text(converted.text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written ({error.strerror}); choose another "
                        "file") from None
    click.echo(f"policy ready: {out}; measure it with './qop run --policy {out}'",
               err=True)
