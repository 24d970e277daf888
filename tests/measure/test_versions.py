"""Versions come from dpkg's own list, of what is installed and asked for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from measure.agent.running_programs import installed_packages

LISTED = """Package: hostapd
Status: install ok installed
Architecture: amd64
Version: 2:2.10-12+deb12u3
Description: access point
 Version: of another line
Homepage: https://w1.fi/hostapd/

Package: openssl
Status: hold ok installed
Version: 3.0.19-1~deb12u2

Package: tcpdump
Status: deinstall ok config-files
Version: 4.99.3-1

Package: bash
Status: install ok installed
Version: 5.2.15-2
"""


def test_what_is_installed_of_what_is_asked_for(tmp_path: Path) -> None:
    """What was removed has no version, nor has what was never there."""
    listed = tmp_path / "status"
    listed.write_text(LISTED)
    assert installed_packages({"hostapd", "openssl", "tcpdump", "iperf3"}, listed) == {
        "hostapd": "2:2.10-12+deb12u3", "openssl": "3.0.19-1~deb12u2"}


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="no dpkg here")
def test_it_is_what_dpkg_says() -> None:
    """Of this machine's packages."""
    names = ("bash", "coreutils", "python3", "no-such-package")
    said = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *names],
                          capture_output=True, text=True, check=False).stdout
    assert installed_packages(names) == dict(line.split() for line in said.splitlines())
