"""Scenarios with `ip: 6`, measured in the guest, and their controls."""

from __future__ import annotations

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks
from plans import body

pytestmark = [pytest.mark.guest, pytest.mark.shareable]
EXAMPLES = PROJECT / "examples/scenarios"
ONE = ("--repetitions", "1", "--stream-bytes", "100k", *VIRTUAL)
#: One search for duplicates of 1 s, or two with a wait of up to 1 s between them (RFC 4862).
LEAST_S, MOST_S = 1.0, 3.3


def test_streams_and_a_move_within_the_subnet_go_over_ipv6(qop: Qop) -> None:
    done, records = qop.run("six", "--policies", "M2", "--scenarios",
                            f"{EXAMPLES / 'N2-ipv6.yml'},{EXAMPLES / 'E1-ipv6.yml'}",
                            "--move-stream", "5", *ONE)
    assert done.returncode == 0, done.stderr
    for record in records.values():
        assert {"address by SLAAC", "traffic goes over IPv6",
                "frames are as long as the air charges",
                "frames open with the keys in force"} <= checks(record).keys()
        found = {phase.name: phase for phase in body(record).phases}
        assert LEAST_S < found["slaac"].duration_s < MOST_S
        assert "foreign_slaac" not in found


def test_ipsec_has_ipv6_inside_and_outside(qop: Qop) -> None:
    """The kernels' keys open its packets, of IKEv1 and IKEv2. A datagram outside is found out."""
    cell = ["--policies", "P3", "--scenarios", str(EXAMPLES / "N2-ipv6.yml"), "--udp-payload",
            "1300", *ONE]
    done, records = qop.run("tunnels", *cell, "--policy",
                            str(PROJECT / "examples/ikev2-psk.yml"))
    assert done.returncode == 0, done.stderr
    for record in records.values():
        details = {check.check: check.detail for check in record.evidence}
        assert "ESP packets" in details["no clear inner packet"]
        assert " 0 packets of mobile nodes outside" in details["no clear inner packet"]
        assert "fd71:6f70:a01::1" in details["traffic goes over IPv6"]
    done, records = qop.run("beside", *cell, "--fault", "bypass")
    assert done.returncode == 1
    [record] = records.values()
    assert "not proven: no clear inner packet" in record.reason


def test_missing_advertisement_is_the_reason_of_a_failure(qop: Qop) -> None:
    done, records = qop.run("red", "--policies", "P1", "--scenarios",
                            str(EXAMPLES / "N2-ipv6.yml"), "--fault", "no-advertisement", *ONE)
    assert done.returncode == 1
    [found] = records.values()
    assert "by router advertisements within" in found.reason
