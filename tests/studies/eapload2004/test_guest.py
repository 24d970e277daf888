"""From end to end in the machine: real daemons' times, model and report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from conftest import Qop
from measure.records.record import Record
from studies.eapload2004.cells import NOMINAL
from studies.eapload2004.load import PAUSES_S
from studies.eapload2004.measurements import Measurements

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

#: The paper's own cell but for the load.
_NOMINAL = {name: level for name, level in NOMINAL.items() if name != "load"}


def measure(qop: Qop, out: str, loads: str, *words: str, sessions: str = "full",
            count: int = 6, **levels: str) -> dict[str, Record]:
    """Measure these loads, with other levels than the paper's; the records by load."""
    only = {**_NOMINAL, "load": loads, "sessions": sessions, **levels}
    chosen = [word for name, level in only.items() for word in ("--only", f"{name}={level}")]
    # Only the paper's own cell measures the capacity; elsewhere the setting is refused.
    is_own = "0" in loads.split(",") and sessions == _NOMINAL["sessions"] and not levels
    qop("run", "eapload2004", "--out", out, "--authentications", str(count),
        *(["--set", "saturating=100"] if is_own else []), *chosen, *words)
    return {record.cell["load"]: record for record in qop.records(out).values()}


def body(record: Record) -> Measurements:
    """What was measured, which has to be proven."""
    assert record.status == "ok", record.reason
    assert all(check.ok for check in record.evidence)
    return Measurements.model_validate(record.measured)


def test_measured_and_modelled(tmp_path: Path) -> None:
    """Without load and with it, in one machine: capacity, round trips, report, and the model."""
    qop = Qop(tmp_path)
    records = measure(qop, "run", "0,20", count=24)
    alone, loaded = body(records["0"]), body(records["20"])
    assert alone.saturation is not None
    # The device says 10.23 ms for a signature and 0.32 ms for each of three verifications.
    assert alone.demand_s == pytest.approx(0.01119)
    assert alone.saturation.capacity_per_s == pytest.approx(1 / 0.01119, rel=0.03)
    assert alone.saturation.alone_s == pytest.approx(0.0117, rel=0.03)
    assert max(alone.services_s) == pytest.approx(min(alone.services_s), rel=0.001)
    assert alone.round_trips == loaded.round_trips == 5
    assert alone.split.wire_s == pytest.approx(5 * 0.12, rel=0.001)
    assert loaded.service_time_s > alone.service_time_s
    assert alone.split.waiting_s == pytest.approx(0, abs=0.0002)
    # The access point reads the clock some times; frames take longer on the air.
    assert alone.split.authenticator_s is not None
    assert 0 < alone.split.authenticator_s < 0.0007 < alone.split.air_s
    assert sum(seconds or 0.0 for _, seconds in alone.split) == pytest.approx(alone.service_time_s)
    assert alone.waterfall_s["access point"]
    steps = [span for part in loaded.waterfall_s.values() for span in zip(
        part[::2], part[1::2], strict=True)]
    assert sum(ended - begun for begun, ended in steps) == pytest.approx(
        float(np.quantile(loaded.services_s, 0.5, method="higher")))
    assert loaded.utilization_share == pytest.approx(20 * 0.01119, rel=0.25)
    said = qop("model", "run", "--what-if", "server.speed=10", "--capacity", "mean < 50 ms",
               "--chain", "background")
    assert said.returncode == 0, said.stderr
    limit = re.search(r"As it is: background: server saturates first, at ([\d.]+) ", said.stdout)
    assert limit is not None
    assert float(limit[1]) == pytest.approx(1 / 0.01119, rel=0.03)
    assert "keep to mean < 50 ms" in said.stdout
    report = qop("report", "run", "--table", "table-1", "--table", "model")
    assert "(4.917)" in report.stdout  # published at 20/s


def test_who_dies_costs_one_repetition(tmp_path: Path) -> None:
    """Generator and server are killed, each in a repetition, which says so; the next is proven."""
    qop = Qop(tmp_path)
    measure(qop, "killed", "20", "--fault", "killed", "--repetitions", "3", count=2)
    first, second, third = (json.loads(file.read_text()) for file in sorted(
        (tmp_path / "killed" / "records").iterdir()))
    assert "the load generator has ended" in first["reason"]
    assert "freeradius on server ended with status -9" in second["reason"]
    assert (third["status"], third["reason"]) == ("ok", "")
    assert all(check["ok"] for check in third["evidence"])


def test_overload_is_a_result(tmp_path: Path) -> None:
    """Above the server's capacity, authentications become slower; no repetition fails."""
    record = measure(Qop(tmp_path), "over", "0", "--set", "overload_s=3", share="120")["0"]
    measured = body(record)
    assert measured.overload is not None
    assert measured.overload.growth > 0.1
    assert measured.services_s[0] > 0.7
    assert "overloaded" in {check.check for check in record.evidence}


def test_in_real_time_a_cell_calibrates_itself(tmp_path: Path) -> None:
    """Before and after its load, and each step of one alone: generator and server in turn."""
    name = "--server-device", "today", "--client-device", "today"
    record = measure(Qop(tmp_path), "real", "0", "--clock", "real", *name, share="25",
                     count=3)["0"]
    measured = Measurements.model_validate(
        record.measured)  # on a busy machine it may not be proven
    assert record.raw["is_ordered"]
    before, after = measured.saturation, measured.saturation_after
    assert before is not None and after is not None
    assert len(before.steps_s) == 2 * 5
    assert 0 < sum(before.steps_s) <= 1.2 * before.alone_s
    for each in (before, after):
        assert each.paused_s == sorted(each.paused_s)
        assert all(waited_s >= pause_s for waited_s, pause_s in zip(
            each.paused_s, PAUSES_S, strict=True))
        assert min(each.rests_s) > 0


def test_in_real_time_a_device_takes_its_time(tmp_path: Path) -> None:
    """A signature and three verifications, whatever the machine is; as many came as were asked for.

    The machine's own part comes on top of it, of one alone; of the demand it is none.
    """
    record = measure(Qop(tmp_path), "real", "0", "--clock", "real", "--server-device", "r4400-200",
                     "--set", "arrivals=30", "--set", "saturating=20", share="50", count=2)["0"]
    measured = Measurements.model_validate(
        record.measured)  # on a busy machine it may not be proven
    before, after = measured.saturation, measured.saturation_after
    assert before is not None and after is not None
    for each in (before, after):
        assert each.busy_s == pytest.approx(0.0697 + 3 * 0.0043, rel=1e-4)
        assert each.alone_s is not None and each.alone_s > each.busy_s
        assert not each.steps_s and min(each.rests_s) > each.busy_s
    assert measured.demand_s == pytest.approx(0.0826, rel=1e-4)
    assert len(measured.arrivals_s) >= 30


#: A cell with ML-DSA-65 and X25519MLKEM768, by the processor clock on Debian 13.
_POST_QUANTUM = {"key": "ml-dsa-65", "tls": "1.3", "group": "x25519mlkem768", "rtt": "0"}
_ON_DEBIAN_13 = ("--release", "trixie", "--clock", "processor", "--server-device", "today-native",
                 "--client-device", "today-native")


def test_post_quantum_certificates_are_proven_under_load(tmp_path: Path) -> None:
    """Certificates are decrypted, and the server is asked 31 times for each authentication."""
    record = measure(Qop(tmp_path), "new", "0", *_ON_DEBIAN_13, "--set", "saturating=40", "--set",
                     "arrivals=30", share="25", count=2, **_POST_QUANTUM)["0"]
    measured = body(record)
    assert measured.round_trips == 31
    assert measured.saturation is not None and measured.saturation.capacity_per_s > 0
    [policy] = [check.detail for check in record.evidence if check.check == "policy"]
    assert policy == ("TLS 1.3, x25519mlkem768; chains of 2 and 2, ml-dsa-65, signed with "
                      "ml-dsa-65; in pieces of 1020 bytes")


def test_the_visited_network_asks_by_realm(tmp_path: Path) -> None:
    """Through its proxy it takes as long as directly, a round trip for a longer name aside."""
    record = measure(Qop(tmp_path), "proxied", "5", path="proxied", count=3)["5"]
    measured = body(record)
    assert measured.service_time_s == pytest.approx(0.12 * measured.round_trips, abs=0.06)
    [path] = [check for check in record.evidence if check.check == "path"]
    assert "asked from 10.2.0.2" in path.detail


def test_sessions_are_resumed_by_their_share(tmp_path: Path) -> None:
    """Without certificates, and with fewer round trips."""
    good = body(measure(Qop(tmp_path), "good", "5", "--resumed-share", "0.5", sessions="resumed",
                        count=3)["5"])
    assert good.round_trips == 3
    assert 0 < good.resumed < len(good.latencies_s)


def test_eap_aka_asks_the_subscriber_server_once(tmp_path: Path) -> None:
    """Each challenge is worked out again; its time is that of its round trips and the HSS's."""
    record = measure(Qop(tmp_path), "aka", "0", count=3, method="aka", server="hostapd",
                     hss="40")["0"]
    measured = body(record)
    assert measured.round_trips == 3
    assert measured.service_time_s == pytest.approx(3 * 0.12 + 0.04, abs=0.02)
    [check] = [check for check in record.evidence if check.check == "challenges"]
    assert "3 of 3 by EAP-AKA, 3 vectors" in check.detail


def test_a_server_near_the_supplicant_decides(tmp_path: Path) -> None:
    """By certificates of another authority, and without the round trips to the home network."""
    record = measure(Qop(tmp_path), "near", "0", count=3, path="near")["0"]
    assert body(record).service_time_s < 0.12
    [check] = [check for check in record.evidence if check.check == "authority"]
    assert "certified by visited, its chain ends at root" in check.detail
