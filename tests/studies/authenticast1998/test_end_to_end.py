"""Streams in a guest: the level is proven from altered packets, each control fails its check."""

from __future__ import annotations

import csv
import gzip
import http.client
import itertools
import json
import signal
import urllib.parse
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from conftest import PATIENCE_S, Qop
from harness.live import sources
from made_up_streams import PAGE
from measure.records.record import Record
from studies.authenticast1998 import verification
from studies.authenticast1998.verification import Key, verify_capture

pytestmark = [pytest.mark.guest, pytest.mark.shareable]
STUDY = "authenticast1998"
ON_AIR = ("--frames", "60", "--repetitions", "1", "--heuristics", "tree-16", "--policies", "P12")
#: A row for each packet of a client.
Rows = list[dict[str, str]]


def run(qop: Qop, out: str, *arguments: str,
        frames: int = 75) -> tuple[int, dict[str, Record]]:
    """Streams of seconds to one client; the exit status, and the records by heuristic.

    Those under a flood are called so: `tree-16-flood`.
    """
    done = qop("run", STUDY, "--out", out, "--frames", str(frames), "--repetitions", "1", "--only",
               "clients=1", "--policies", "no-policy", *arguments)
    return done.returncode, {
        record.cell["heuristic"] + "-flood" * (record.cell["load"] == "flood"): record
        for record in qop.records(out).values()}


@pytest.fixture(scope="module")
def tampered(shared_qop: Qop) -> dict[str, Record]:
    """One packet in 8 is altered on its way, under three heuristics; a flood under two."""
    status, records = run(shared_qop, "tampered", "--heuristics", "p50,delayed,tree-16,floor",
                          "--only", "load=tampered,flood")
    assert status == 0, [record.reason for record in records.values()]
    return records


def client(record: Record) -> dict[str, Any]:
    """The only client's packets."""
    assert record.measured is not None
    measured: dict[str, Any] = record.measured["clients"][0]
    return measured


@pytest.mark.parametrize("heuristic", ["p50", "delayed", "tree-16"])
def test_everything_is_proven(tampered: dict[str, Record], shared_qop: Qop,
                              heuristic: str) -> None:
    """Signatures, announcements, order, messages, range, account and level, from captures."""
    record = tampered[heuristic]
    assert (shared_qop.folder / "tampered" / "files" / record.name / "c1.csv").is_file()
    assert record.status == "ok", record.reason
    assert {check.check for check in record.evidence} == {
        "messages are signed", "every packet is authentic", "algorithm as announced",
        "no packet arrives twice", "control messages come from the clients",
        "level in the user's range", "every packet is accounted for",
        "verified fraction matches the level", "daemons are of the release"}
    counts = client(record)
    assert counts["altered"] > 20
    assert counts["sent"] == counts["processed"] + sum(counts["lost"].values())


def test_records_are_judged_anew(tampered: dict[str, Record], shared_qop: Qop) -> None:
    """Every signature verified and every packet accounted for once more, with the same outcome."""
    done = shared_qop("verify", "--redo", "tampered")
    assert done.returncode == 0, done.stdout
    assert f"{len(tampered)} records judged anew say the same" in done.stdout


def test_the_level_is_what_altered_packets_say(tampered: dict[str, Record]) -> None:
    """Half of the altered packets pass at 50 %; none where everything is verified first."""
    passed = {name: client(record)["altered_processed"] for name, record in tampered.items()}
    settled = client(tampered["p50"])["altered_settled"]
    assert 0.2 * settled < passed["p50"] < 0.8 * settled
    assert passed["delayed"] == passed["tree-16"] == 0
    # A bundle is discounted for one altered packet, a tree is not.
    lost = {name: client(record)["lost"] for name, record in tampered.items()}
    assert lost["delayed"]["bundle_failed"] >= 2 * client(tampered["delayed"])["altered_settled"]
    assert lost["tree-16"]["failed"] == client(tampered["tree-16"])["altered_settled"]


def test_a_recording_of_virtual_time_is_replayed(tampered: dict[str, Record],
                                                 shared_qop: Qop) -> None:
    """What the page is shown of it: the stream five times a second, at its level, and evidence."""
    lines = sources.read_recorded_lines(shared_qop.folder / "tampered", tampered["p50"].name,
                                        PAGE)
    assert lines[0]["clock"] == "virtual" and lines[0]["clients"] == ["c1"]
    assert [check["ok"] for check in lines[-1]["checks"]] == [True] * 9
    readings = [line for line in lines if line.get("name") == "reading"]
    gaps_s = {round(after["time_s"] - before["time_s"], 6)
              for before, after in itertools.pairwise(readings)}
    assert gaps_s == {0.2}
    streaming = [reading["clients"]["c1"] for reading in readings
                 if reading["clients"]["c1"]["state"] == "streaming"]
    assert len(streaming) > 10 and 0.3 < streaming[-1]["level"] < 0.7
    assert streaming[-1]["sent"] <= client(tampered["p50"])["sent"]


class Page:
    """What a browser does, without one: lines of a run, and messages to it."""

    def __init__(self, address: str) -> None:
        self._url = urllib.parse.urlsplit(address)
        self._line = http.client.HTTPConnection(self._url.netloc, timeout=PATIENCE_S)
        self._line.request("GET", f"{self._url.path}lines")
        self._lines = self._line.getresponse()

    def until(self, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The first line of which something holds."""
        while text := self._lines.readline():
            if text.startswith(b"data: ") and holds(line := json.loads(text[6:])):
                return line
        raise AssertionError("the stream of lines has ended")

    def tell(self, **message: Any) -> None:
        """Say something to the run."""
        with closing(http.client.HTTPConnection(self._url.netloc)) as connection:
            connection.request("POST", f"{self._url.path}tell", json.dumps(message), {
                "Content-Type": "application/json", "Origin": f"http://{self._url.netloc}"})
            assert connection.getresponse().status == 200

    def close(self) -> None:
        """Go away."""
        self._lines.close()
        self._line.close()


def test_the_dial_is_turned_from_the_page(qop: Qop) -> None:
    """A message of the page's becomes a signed one on the network, and the level follows.

    The page goes, its client's stream ends when it is told to, and all of it is recorded, proven,
    with the turn of the dial in the captures.
    """
    command = qop.start("thermostat", "--heuristic", "p50", "--clients", "2", "--frames", "2000",
                        "--out", "live")
    assert command.stdout is not None
    page = Page(command.stdout.readline().removeprefix("the page: ").strip())
    try:
        page.until(lambda line: level_of(line, "c1") == pytest.approx(0.5, abs=0.15))
        page.tell(client="c1", range=[5, 15], level=10, scheme="percentage", algorithm="RSA")
        page.until(lambda line: level_of(line, "c1") == pytest.approx(0.1, abs=0.08))
        page.tell(client="c2", stop=True)
        page.until(lambda line: line.get("name") == "reading"
                   and line["clients"]["c2"]["state"] == "ended"
                   and line["clients"]["c1"]["state"] == "streaming")
        page.close()  # and whoever has looked on is gone
        command.send_signal(signal.SIGINT)
        assert command.wait(PATIENCE_S) == 0
    finally:
        page.close()
        command.kill()
        command.communicate()
    [record] = qop.records("live").values()
    assert record.status == "ok", record.reason
    details = {check.check: check.detail for check in record.evidence if check.ok}
    assert details["level in the user's range"].endswith("; the range was set 1 times more")
    capture = qop.folder / "live" / "captures" / record.name / "whole-c1.pcap.gz"
    keys = {name: Key(pem) for name, pem in record.raw["keys"].items()}
    (qop.folder / "c1.pcap").write_bytes(gzip.decompress(capture.read_bytes()))
    every = list(verification.read_datagrams(qop.folder / "c1.pcap"))
    [session] = verify_capture(every, keys["server"], keys["c1"]).sessions.values()
    assert session.ranges == {0: (0.0, 1.0), 1: (0.05, 0.15)}
    assert {(epoch.algorithm, epoch.answers) for epoch in session.epochs.values()} == {
        (1, 0), (2, 1)}


def level_of(line: dict[str, Any], name: str) -> float | None:
    """A client's level now, by a line that tells it."""
    return line["clients"][name].get("level") if line.get("name") == "reading" else None


def test_load_is_no_way_past_the_floor(tampered: dict[str, Record]) -> None:
    """Under a flood a receiver with a floor of 100 % never passes a packet unverified."""
    for name in ("floor-flood", "tree-16-flood"):
        record = tampered[name]
        assert record.status == "ok", record.reason
        assert "forged packets are not processed" in {check.check for check in record.evidence}
        assert client(record)["verified"] == client(record)["processed"] > 50
        assert client(record)["below_floor_s"] == client(record)["exposure_s"] == 0


def test_two_runs_of_a_seed_are_the_same(tampered: dict[str, Record], shared_qop: Qop,
                                         qop: Qop) -> None:
    """Another guest, other keys: every number, and each packet's row to the byte."""
    status, again = run(qop, "again", "--heuristics", "p50", "--only", "load=tampered")
    assert status == 0
    assert again["p50"].measured == tampered["p50"].measured
    assert again["p50"].raw["keys"] != tampered["p50"].raw["keys"]
    file = f"files/{again['p50'].name}/c1.csv"
    rows = (qop.folder / "again" / file).read_bytes()
    assert rows == (shared_qop.folder / "tampered" / file).read_bytes()
    assert rows.count(b"\n") > 150


@pytest.fixture(scope="module")
def at_both(shared_qop: Qop) -> dict[str, Record]:
    """A stream of two seconds through the tunnel of a policy, at home and through a handoff."""
    done = shared_qop("run", STUDY, "--out", "air", *ON_AIR, "--scenarios", "N2,R1")
    records = {record.cell["scenario"]: record for record in shared_qop.records("air").values()}
    assert done.returncode == 0, [record.reason for record in records.values()]
    return records


@pytest.fixture(scope="module")
def on_air(at_both: dict[str, Record]) -> Record:
    """The one through a handoff."""
    return at_both["R1"]


@pytest.fixture(scope="module")
def once_more(shared_qop: Qop, at_both: dict[str, Record]) -> dict[str, tuple[Record, Rows, Rows]]:
    """The same in another guest, by scenario: its record, its rows, and those of the first."""
    done = shared_qop("run", STUDY, "--out", "once-more", *ON_AIR, "--scenarios", "N2,R1")
    assert done.returncode == 0
    return {record.cell["scenario"]: (
        record, _rows(shared_qop, "once-more", record.name),
        _rows(shared_qop, "air", at_both[record.cell["scenario"]].name))
        for record in shared_qop.records("once-more").values()}


def _rows(qop: Qop, folder: str, name: str) -> Rows:
    """A row for each packet of the first client, as its program wrote it."""
    with (qop.folder / folder / f"files/{name}/c1.csv").open() as file:
        return list(csv.DictReader(file))


def test_two_runs_of_a_seed_are_the_same_on_the_air(
        at_both: dict[str, Record], once_more: dict[str, tuple[Record, Rows, Rows]]) -> None:
    """Another guest, other keys of every layer: every number, and each packet's row."""
    again, rows, first = once_more["N2"]
    assert again.measured == at_both["N2"].measured
    assert rows == first
    assert len(rows) > 200


def test_two_runs_of_a_seed_are_the_same_through_a_handoff(
        at_both: dict[str, Record], once_more: dict[str, tuple[Record, Rows, Rows]]) -> None:
    """Every number, how long it took among them, and each packet's row; though keys are others."""
    again, rows, first = once_more["R1"]
    assert again.measured is not None
    assert 0.05 < again.measured["handoff_s"] < 0.25
    assert again.measured == at_both["R1"].measured
    assert rows == first
    assert again.raw["keys"] != at_both["R1"].raw["keys"]
    assert len(rows) > 200


def test_layers_below_are_proven_beside_the_stream(on_air: Record) -> None:
    """Today's checks of link, port, tunnel and mobility, and every packet's signature.

    Nothing goes in clear between the tunnel at home and the one away, though the stream goes on.
    """
    assert {check.check for check in on_air.evidence} >= {
        "every packet is authentic", "every packet is accounted for", "WEP-104 on every data frame",
        "frames open with the keys in force", "EAP method TLS", "port is closed before",
        "ISAKMP packets", "ESP transforms in the kernel", "no clear inner packet",
        "registered with the foreign agent", "registration is authentic"}


def test_a_handoff_costs_what_was_sent_meanwhile(on_air: Record) -> None:
    """The stream goes on in the visited network; what was lost was lost by the handoff."""
    counts = client(on_air)
    lost = {cause: count for cause, count in counts["lost"].items() if count}
    assert set(lost) == {"handoff"}
    assert 0 < lost["handoff"] < counts["sent"] / 4
    assert on_air.measured is not None
    [[first, last]] = on_air.measured["lost_runs"]
    assert last - first + 1 == lost["handoff"]
    assert on_air.measured["handoff_s"] > 0.05
