"""Show tests that need 802.11 radios: each test's body runs in a machine with emulated radios.

This is an example for users of the pytest plug-in `pytest_qop_radios`. The fixture `radios` starts
the machine and returns its radios. The mark `radios` sets their number, their network namespaces
and the clock. With the virtual clock, a test that sleeps for 30 s ends at once.
"""

import time
from pathlib import Path

import pytest


def test_machine_has_two_radios(radios) -> None:
    assert [radio.interface for radio in radios] == ["wlan0", "wlan1"]
    assert sorted(path.name for path in Path("/sys/class/ieee80211").iterdir()) == ["phy0", "phy1"]


@pytest.mark.radios(count=3, clock="virtual")
def test_thirty_seconds_pass_at_once(radios) -> None:
    began_s = time.monotonic()
    time.sleep(30)
    assert 30 <= time.monotonic() - began_s < 31
    assert len(radios) == 3


@pytest.mark.radios(namespaces=["ap1", "sta1"])
def test_each_namespace_has_its_radio(radios) -> None:
    for radio in radios:
        assert Path("/run/netns", radio.namespace).exists()
