"""Tests of echoes through a socket: real ones, in a network namespace of the test's own."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from conftest import PROJECT
from topologies.mobile_ip.ipv4 import internet_checksum

_IN_A_NAMESPACE = """
import os, subprocess
from measure.services.icmp_echo import EchoSocket
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["ip", "address", "add", "192.0.2.1/24", "dev", "lo"], check=True)
subprocess.run(["ip", "route", "add", "blackhole", "198.51.100.0/24"], check=True)
with_echoes = EchoSocket(os.getpid())
for address, seconds in (("127.0.0.1", 5), ("192.0.2.1", 5),
                         ("198.51.100.1", 0.3), ("203.0.113.1", 0.3)):
    print(with_echoes.is_answered(address, seconds))
subprocess.run(["sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=1"], check=True)
print(with_echoes.is_answered("127.0.0.1", 0.5))
"""


def test_checksum_is_that_of_rfc_1071() -> None:
    """The example of section 3: its sum is ddf2."""
    assert internet_checksum(bytes.fromhex("0001f203f4f5f6f7")) == ~0xddf2 & 0xffff


def test_answers_are_heard_and_silence_is_none() -> None:
    """Who answers is heard; not who is not there, cannot be reached, or does not answer.

    The socket gets its own requests' echoes on the loopback device, too: they are no answers.
    """
    apart = ["unshare", "-Urn"]
    if shutil.which("ip") is None:
        pytest.skip("needs ip, of iproute2")
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], check=False,
                                                         capture_output=True).returncode:
        pytest.skip("no network namespaces for this user")
    said = subprocess.run([*apart, sys.executable, "-c", _IN_A_NAMESPACE], cwd=PROJECT, check=True,
                          capture_output=True, text=True).stdout.split()
    assert said == ["True", "True", "False", "False", "False"]
