"""Measuring with cards, without a card: configuration, causes, samples, record and tables."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import fabricated
from analysis.present.terminal import to_plain_text
from conftest import Qop
from harness import card_report
from harness.engine.cards import tell_changed_rules
from measure.agent.errors import MeasureError
from measure.cards import results, station, users, wireless
from measure.cards.station import Attempt
from measure.explain import messages
from measure.explain.answer import explain_captures
from measure.services.hostap import Event
from recorded import path

RECORDED = path("P12-R1", "auth-air")
STATE = wireless.CardState("wlan0", 3, 0, wireless.STATION, "02:00:00:00:00:00", is_up=False,
                           link_mode=0, power_save=None, country="00", has_manager=False)


def make_record(samples: list[results.Sample], monitor_missing: str = "") -> results.CardRecord:
    return results.CardRecord(
        ssid="home", card="wlan0", address=STATE.address, driver={"driver": "ath9k"},
        programs={"wpa_supplicant": "v2.10"}, regulatory_domain="DE",
        access_points=[results.AccessPointRecord(bssid="02:00:00:00:01:00", frequency_mhz=2412,
                                                 channel=1, signal_dbm=-40)],
        monitor_missing=monitor_missing,
        not_checked=list(results.MISSING_WITHOUT_MONITOR) if monitor_missing else [],
        dropped_frames=0, measured_at_s=1.0, samples=samples)


@pytest.fixture(scope="module")
def negotiations() -> list[dict[str, object]]:
    return explain_captures([RECORDED]).to_document()["negotiations"]


@pytest.mark.parametrize(("frequency_mhz", "channel"), [
    (2412, 1), (2472, 13), (2484, 14), (5180, 36), (5885, 177), (5955, 1), (6415, 93), (0, 0)])
def test_channel_of_a_frequency(frequency_mhz: int, channel: int) -> None:
    assert station.to_channel(frequency_mhz) == channel


@pytest.mark.parametrize(("text", "ssid"), [
    ("home", "home"), (r"caf\xc3\xa9", "café"), (r"a\"b\\c", 'a"b\\c'), (r"\x20a\n", " a\n")])
def test_ssid_with_escapes_is_decoded(text: str, ssid: str) -> None:
    """wpa_supplicant shows bytes that are not printable, quotes and backslashes with escapes."""
    assert station.decode_ssid(text) == ssid


def test_network_has_its_ssid_as_bytes_and_keys_by_passphrase() -> None:
    text = station.format_network('a"\n}', "secret passphrase")
    assert "ssid=61220a7d\n" in text and 'psk="secret passphrase"' in text and "SAE" in text
    assert "key_mgmt=NONE" in station.format_network("open", "")


@pytest.mark.parametrize(("events", "cause"), [
    ([], "no connection within 30 s"),
    ([("CTRL-EVENT-NETWORK-NOT-FOUND", "")], "no access point with this SSID"),
    ([("CTRL-EVENT-NETWORK-NOT-FOUND", ""),
      ("CTRL-EVENT-SSID-TEMP-DISABLED", 'id=0 ssid="x" auth_failures=1 reason=WRONG_KEY')],
     "refuses the station (reason=WRONG_KEY)"),
    ([("CTRL-EVENT-EAP-FAILURE", "EAP authentication failed"),
      ("CTRL-EVENT-EAP-TLS-CERT-ERROR", "depth=0 err='self signed'")],
     "certificate is not accepted (err='self signed')"),
    ([("CTRL-EVENT-ASSOC-REJECT", "bssid=02:00:00:00:01:00 status_code=30")], "(status_code=30)"),
])
def test_failure_has_the_cause_of_the_event(events: list[tuple[str, str]], cause: str) -> None:
    made = [Event(1.0, name, text) for name, text in events]
    assert cause in station._describe_failure(made, 30.0)


def test_sample_has_the_phases_of_the_capture(
        negotiations: list[dict[str, object]]) -> None:
    """An attempt gets the negotiation within its time, of its own station alone."""
    first = negotiations[0]
    start_s = first["start"]["time_s"]  # type: ignore[index]
    attempt = Attempt("login", 1, start_s - 1, start_s + first["duration_s"] + 0.01,
                      first["peer"], 2412)
    (sample,) = results.make_samples([attempt], negotiations, first["station"])
    assert sample.joining_s == first["duration_s"]
    assert sample.phases_s["eap"] > 0 and sample.policy == first["policy"]["title"]
    assert sample.way.startswith("EAP") and sample.channel == 1
    (other,) = results.make_samples([attempt], negotiations, "02:00:00:00:00:99")
    (late,) = results.make_samples([replace(attempt, start_s=attempt.end_s + 1,
                                            end_s=attempt.end_s + 2)],
                                   negotiations, first["station"])
    assert other.joining_s is late.joining_s is None and late.attempts == 0


@pytest.mark.parametrize(("akm", "eap", "packets", "way"), [
    ("PSK", "", {"authentication": 2, "four_way_handshake": 4}, ""),
    ("802.1X", "PEAP", {"eap": 9, "four_way_handshake": 4}, "EAP, full session"),
    ("802.1X", "", {"eap": 1, "four_way_handshake": 4}, "cached key"),
    ("SAE", "", {"authentication": 4, "four_way_handshake": 4}, ""),
    ("SAE", "", {"authentication": 2, "four_way_handshake": 4}, "cached key"),
    ("FT-PSK", "", {"authentication": 2}, "fast transition"),
    ("FT-PSK", "", {"authentication": 2, "four_way_handshake": 4}, "")])
def test_way_to_the_keys_is_told_apart(akm: str, eap: str, packets: dict[str, int],
                                       way: str) -> None:
    """Logins and roams with other messages are no sample of the same mean."""
    shown = {"policy": {"akm": akm, "eap": eap, "session": "full"},
             "phases": [{"name": name, "packets": count} for name, count in packets.items()]}
    assert results.describe_way(shown) == way


def make_sample(number: int, duration_s: float, **changes: object) -> results.Sample:
    return results.Sample.model_validate({
        "kind": "login", "number": number, "reason": "", "start_s": 1.0, "duration_s": duration_s,
        "joining_s": duration_s / 10, "bssid": "02:00:00:00:01:00", "previous": "",
        "channel": 1, "policy": "PSK, CCMP", "policy_fields": {"akm": "PSK"}, "way": "",
        "phases": [], "waited_for_s": {},
        "roam_times_s": None, "link_retries": 2, "attempts": 1,
        "link": {"rates": {"to": "non-HT, 20 MHz, 54.0 Mbit/s"}}, **changes})


def test_table_has_means_with_intervals_of_what_succeeded() -> None:
    """Student's interval of 1, 2 and 3 s is 2 ± 2.484 s. A failed login is in no mean."""
    record = make_record([make_sample(1, 1.0), make_sample(2, 2.0), make_sample(3, 3.0),
                          make_sample(4, 30.0, reason="no connection within 30 s")])
    number = card_report.make_tables(record)[0].rows[0][4].number
    assert number is not None
    assert (number.value, number.n) == (2.0, 3)
    assert number.high == pytest.approx(2.0 + 2.484, abs=1e-3)
    lines = "\n".join(card_report.make_lines(record))
    assert "1 login or roam of 4 failed; the first: login 4: no connection within 30 s" in lines
    assert "54.0 Mbit/s" in lines and "medium: air" in lines and "regulatory domain DE" in lines
    assert "PSK, CCMP" in to_plain_text(card_report.make_tables(record)[0], 120)


def test_lines_say_what_no_monitor_leaves_out() -> None:
    lines = "\n".join(card_report.make_lines(make_record([], "its driver has no monitor mode")))
    assert "Not checked" in lines and "scan, authentication, association" in lines


def test_record_is_read_as_written_and_altered_ones_are_refused(tmp_path: Path) -> None:
    record = make_record([make_sample(1, 1.0)])
    path = results.write_record(record, tmp_path)
    assert results.read_record(tmp_path).samples == record.samples
    path.write_text(path.read_text().replace('"channel": 1', '"channel": 6'))
    with pytest.raises(MeasureError, match="is not what was written"):
        results.read_record(tmp_path)
    path.write_text("{}")
    with pytest.raises(MeasureError, match="no record of a measurement with a card"):
        results.read_record(tmp_path)
    path.unlink()
    with pytest.raises(MeasureError, match="cannot be read"):
        results.read_record(tmp_path)


def test_states_differ_by_what_changed() -> None:
    """What NetworkManager sets itself as soon as it manages the card is no difference."""
    changed = replace(STATE, is_up=True, address="02:00:00:00:00:01", country="US")
    assert list(wireless.compare_states(STATE, STATE)) == []
    assert list(wireless.compare_states(STATE, changed)) == [
        "address 02:00:00:00:00:01, not 02:00:00:00:00:00", "up yes, not no",
        "regulatory domain US, not 00"]
    managed = replace(STATE, has_manager=True)
    assert list(wireless.compare_states(managed, replace(changed, has_manager=True))) == [
        "regulatory domain US, not 00"]
    assert list(wireless.compare_states(managed, STATE)) == [
        "managed by NetworkManager no, not yes"]


def test_processes_are_found_by_their_arguments() -> None:
    """The guardian ends programs that have a path below the card's folder as an argument."""
    with subprocess.Popen([sys.executable, "-c", "input()", "/run/qop-cards/x/run/a"],
                          stdin=subprocess.PIPE) as process:
        assert process.pid in users.find_processes("/run/qop-cards/x/run/")
        assert os.getpid() not in users.find_processes("/run/qop-cards/x/run/")
        process.kill()


@pytest.mark.parametrize(("arguments", "text"), [
    ([], "--card none: there is no such interface; cards here: "),
    (["--card", "lo"], "--card lo: is no 802.11 card; cards here: "),
    (["--ssid", "x" * 33], "an SSID has 1 to 32 bytes"),
    (["--passphrase-file", "nowhere"], "--passphrase-file nowhere: cannot be read"),
    (["--passphrase-file", "short"], "--passphrase-file short: its first line is no passphrase"),
    (["--config", "nowhere"], "--config nowhere: cannot be read"),
    (["--passphrase-file", "good", "--config", "good"], "goes without --config"),
    (["--logins", "0"], "0 is not in the range")])
def test_bad_input_is_one_line(qop_here: Qop, arguments: list[str], text: str) -> None:
    (qop_here.folder / "short").write_text("1234567\n")
    (qop_here.folder / "good").write_text("12345678\n")
    done = qop_here("measure", "--card", "none", "--ssid", "home", *arguments)
    assert done.returncode in {1, 2}
    assert text in done.stderr
    assert done.stderr.startswith("qop: ") and done.stderr.count("\n") == 1, done.stderr


# --- ./qop compare ---


def results_of_recording(folder: Path, recording: str) -> Path:
    """A results folder of an emulated network: a record and the air of a recording."""
    policy, _, scenario = recording.partition("-")
    record = fabricated.make(policy, scenario=scenario)
    captures = folder / "captures" / record.name
    captures.mkdir(parents=True)
    (captures / "auth-air.pcap").write_bytes(path(recording, "auth-air").read_bytes())
    fabricated.write_all([record], folder)
    return folder


def card_results(folder: Path, delays_s: dict[str, float], count: int = 3) -> Path:
    """A results folder of a card that took as long as a recording, and longer in some phases.

    Repetitions differ by 0.1 ms in each phase.
    """
    found = [each for each in explain_captures([RECORDED]).to_document()["negotiations"]
             if each["kind"] == "802.11"]
    samples = []
    for number in range(count):
        for each in found:
            (sample,) = results.make_samples([Attempt(
                "roam" if each["previous"] else "login", number + 1, each["start"]["time_s"] - 1,
                each["start"]["time_s"] + each["duration_s"], each["peer"], 2412)], found,
                each["station"])
            phases = [phase.model_copy(update={
                "duration_s": phase.duration_s + delays_s.get(phase.name, 0) + number * 1e-4})
                for phase in sample.phases]
            samples.append(sample.model_copy(update={
                "phases": phases,
                "joining_s": sample.joining_s + sum(delays_s.values())}))
    folder.mkdir()
    results.write_record(make_record(samples), folder)
    return folder


def test_comparison_names_the_phase_that_differs(qop_here: Qop) -> None:
    """A card that takes 40 ms longer in EAP and 1 ms in association: EAP has the largest part."""
    results_of_recording(qop_here.folder / "emulated", "P12-R1")
    card_results(qop_here.folder / "real", {"eap": 0.04, "association": 0.001})
    done = qop_here("compare", "emulated", "real", "--out", "page")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if " longer in " in line]
    assert [line.partition(" ")[0] for line in lines] == ["login", "roam"]
    for line in lines:
        assert "41.0 ms longer in real (card wlan0) than in emulated (P12 in R1)" in line
        assert "phase: eap +40.1 ms" in line and "policies differ" not in line
    assert "medium air" in done.stdout and "real: a card (ath9k)" in done.stdout
    assert (qop_here.folder / "page" / "report.html").exists()


def test_comparison_of_two_cards_marks_what_is_significant(qop_here: Qop) -> None:
    """Only the phase that differs by more than its spread stays with --changed."""
    card_results(qop_here.folder / "before", {}, count=5)
    card_results(qop_here.folder / "after", {"eap": 0.02}, count=5)
    done = qop_here("compare", "before", "after", "--changed")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if "±" in line and "*" in line]
    assert rows and all(row.startswith(("eap", "all, to the last key")) for row in rows)


@pytest.mark.parametrize(("arguments", "text"), [
    (["emulated", "other"], "have no login or roam of the same policy"),
    (["emulated", "broken"], "no record of a measurement with a card"),
    (["real", "real"], "compared with itself"),
    (["emulated", "real", "--baseline", "P1"], "--baseline P1: a measurement with a card has no"),
    (["nowhere", "real"], "nowhere: no such folder"),
])
def test_comparison_that_cannot_be_made_is_one_line(qop_here: Qop, arguments: list[str],
                                                    text: str) -> None:
    results_of_recording(qop_here.folder / "emulated", "P12-R1")
    card_results(qop_here.folder / "real", {}, count=1)
    for name in ("other", "broken"):
        (qop_here.folder / name).mkdir()
    results.write_record(make_record([make_sample(1, 1.0, policy_fields=dict.fromkeys(
        messages.POLICY_FIELDS, "SAE"))]), qop_here.folder / "other")
    (qop_here.folder / "broken" / results.FILE).write_text("{}")
    done = qop_here("compare", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert text in done.stderr


def test_regulatory_rule_is_shown_with_its_restrictions() -> None:
    rule = {wireless._RULE_START: 5_250_000, wireless._RULE_END: 5_330_000,
            wireless._RULE_WIDTH: 80_000, wireless._RULE_POWER: 2_000,
            wireless._RULE_FLAGS: 1 << 4 | 1 << 7}
    assert wireless._format_rule({
        number: value.to_bytes(4, "little") for number, value in rule.items()}) == (
        "5250-5330 MHz, width 80 MHz, 20 dBm, radar detection, no transmission before one is heard")


@pytest.mark.parametrize(("after", "told"), [
    (("00", ["a"]), ""), (("DE", ["b"]), ""),  # a country that stays is an error of its own
    (("00", ["a", "b"]), "the rules of the regulatory domain 00 are others than before")])
def test_changed_rules_of_a_country_are_told(
        after: tuple[str, list[str]], told: str, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    state = ("00", ["a"])
    monkeypatch.setattr(wireless, "read_country", lambda: state[0])
    monkeypatch.setattr(wireless, "read_rules", lambda: state[1])
    with tell_changed_rules():
        state = after
    said = capsys.readouterr().err
    assert told in said and bool(said) == bool(told)
