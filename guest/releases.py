"""List the Debian releases that a test network's virtual machine (guest) can run.

Each `Release` has the suite (bookworm, trixie, forky), its title, and the versions of Python and of
the C library there. The builders of a guest's root file system take packages of this release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """A Debian release: its suite and title, and versions of what programs are compiled for.

    - `python`: version of Python, for wheels of the worker's environment
    - `c_library`: version of the C library, which compiled programs may need at most
    - `is_testing`: whether its packages still change every day
    - `has_mlkem`, `has_ikev1`: whether its strongSwan packages have ML-KEM, and IKEv1
    """

    suite: str
    title: str
    python: str
    c_library: tuple[int, int]
    is_testing: bool = False
    has_mlkem: bool = False
    has_ikev1: bool = True

    @property
    def archive_suites(self) -> tuple[str, str, str]:
        """Return the names of the release and of its updates in Debian's archive."""
        return self.suite, f"{self.suite}-updates", f"{self.suite}-security"

    @property
    def wheel_options(self) -> tuple[str, ...]:
        """Return pip's options for wheels of the release's Python, without the processor."""
        abi = f"cp{self.python.replace('.', '')}"
        return ("--python-version", self.python, "--implementation", "cp", "--abi", abi,
                "--abi", "abi3", "--abi", "none")


BOOKWORM = Release("bookworm", "Debian 12", "3.11", (2, 36))
TRIXIE = Release("trixie", "Debian 13", "3.13", (2, 41))
#: Debian 14, before its release.
FORKY = Release("forky", "Debian testing", "3.14", (2, 43), is_testing=True, has_mlkem=True,
                has_ikev1=False)
#: Releases by suite, the default first.
RELEASES: Mapping[str, Release] = {
    release.suite: release for release in (BOOKWORM, TRIXIE, FORKY)}
DEFAULT = BOOKWORM
#: Suites whose lists of packages may be older than their date of expiry. Testing's are valid for a
#: week, and a mirror or a snapshot of the archive may keep them longer.
EXPIRING_SUITES = frozenset(suite for release in RELEASES.values() if release.is_testing
                            for suite in release.archive_suites)
