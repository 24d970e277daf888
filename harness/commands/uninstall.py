"""`qop uninstall`: delete qop's cache, and list what else was installed on this machine.

The cache has disk images and Python environments. The command asks first, unless `--yes` is given.
What needs root to be removed is only listed, with the commands that remove it.
"""

from __future__ import annotations

import click

from harness import removal


@click.command("uninstall", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--yes", is_flag=True, help="Remove without a question.")
def remove_cache(yes: bool) -> int:
    """Remove the cache, with its images and Python environments.

    Logs and the keys of clusters are in the cache, too. Results and the checkout stay. The command
    shows what it removes and asks. Then it names what stays as well: the Debian packages that were
    installed for qop, and what './qop provision --on host' changed on this machine.
    """
    return removal.remove_cache(yes=yes)


command = remove_cache
