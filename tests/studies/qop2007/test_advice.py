"""Tests of advice: which policies qualify for an application."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis import statistics
from analysis.cells import Observation
from analysis.statistics import Estimate
from analysis.table import Entry, Table
from fabricated import STUDY, failed, make, results_of
from studies.qop2007.report import application_advice, protection_tables
from studies.qop2007.report.application_advice import (
    APPLICATIONS,
    ApplicationLimits,
    assess_policy,
    grade_interruption,
    parse_limits,
)
from studies.qop2007.report.assembly import build_answers
from studies.qop2007.report.basis import G711, ReportBasis, basis_from_paper

PRINTED = basis_from_paper()


def world(times: dict[str, tuple[float, float]], *, spread: float = 0.001,
          **rates: float) -> ReportBasis:
    """P1 and others at home in N2 and roaming in R1: seconds of authentication and of handoff."""
    found = {}
    for policy, (auth, handoff) in times.items():
        rate = rates.get(policy, 3.3e6)
        values = {("authentication_time_s", "N2"): auth, ("authentication_time_s", "R1"): auth,
                  ("handoff_s", "R1"): handoff}
        for stream in ("tcp", "udp"):
            for place in ("N2", "R1"):
                values[f"{stream}_goodput_bps", place] = rate
                if policy != "P1":
                    values[f"{stream}_overhead_bps", place] = rates.get("P1", 3.3e6) - rate
        for (metric, place), value in values.items():
            seen = {1: value * (1 - spread), 2: value, 3: value * (1 + spread)}
            found[metric, policy, place] = Observation(statistics.mean(seen.values()), seen)
    return replace(PRINTED, origin="measured", observations=found, policies=tuple(
        one for one in PRINTED.policies if one.id in times))


def column(table: Table, key: str) -> dict[str, Entry]:
    at = next(i for i, one in enumerate(table.columns) if one.key == key)
    return {row[0].text: row[at] for row in table.rows}


FAST = {"P1": (0.01, 0.1), "P8": (0.05, 0.2), "P12": (0.1, 0.3)}


def test_the_strongest_policy_that_qualifies_is_recommended() -> None:
    """All are quick enough for a call, so protection decides, at home and roaming."""
    table = application_advice.build_advice_table(world(FAST), "voice")
    for key in ("qualifies_home", "qualifies_roaming"):
        found = column(table, key)
        assert {policy: entry.text for policy, entry in found.items()} == dict.fromkeys(FAST, "yes")
        assert [policy for policy, entry in found.items() if "recommended" in entry.marks] == [
            "P12"]
    assert "Non-roaming: P12. Roaming: P12." in table.caption


def test_an_interruption_beyond_the_limit_disqualifies() -> None:
    """P12 authenticates within 0.40 s but hands off in 0.5 s: at home it qualifies, roaming not."""
    table = application_advice.build_advice_table(world(FAST | {"P12": (0.3, 0.5)}), "voice")
    assert column(table, "qualifies_home")["P12"].text == "yes"
    away = column(table, "qualifies_roaming")
    assert (away["P12"].text, away["P12"].note) == ("no", "interruption")
    assert "recommended" in away["P8"].marks
    assert column(table, "handoff_s")["P12"].note == "poor"


def test_assess_policy_counts_the_handoff_alone_of_a_fast_move() -> None:
    """A move with kept keys needs no authentication, so a slow one disqualifies at home only."""
    table = application_advice.build_advice_table(
        world({**FAST, "P8": (0.7, 0.02), "P12": (0.7, 0.7)}), "voice")
    assert column(table, "qualifies_home")["P8"].text == "no"
    assert column(table, "qualifies_roaming")["P8"].text == "yes"
    assert column(table, "qualifies_roaming")["P12"].text == "no"


def test_an_interval_across_a_limit_leaves_it_undecided() -> None:
    """0.40 s with an uncertainty of ten percent is neither within nor beyond the limit."""
    table = application_advice.build_advice_table(world(FAST | {"P12": (0.4, 0.4)}, spread=0.1),
                                                  "voice")
    entry = column(table, "qualifies_home")["P12"]
    assert (entry.text, entry.note) == ("undecided", "interruption?")
    assert "recommended" in column(table, "qualifies_home")["P8"].marks


def test_loss_is_the_share_of_time_between_handoffs() -> None:
    """0.9 s in a minute are 1.5 percent: too much for a stream, not for a voice that could wait."""
    slow = world(FAST | {"P8": (0.1, 0.9)})
    table = application_advice.build_advice_table(slow, ApplicationLimits("x", "x", loss=0.01))
    assert column(table, "loss")["P8"].number.value == pytest.approx(0.015)
    assert column(table, "qualifies_roaming")["P8"].note == "loss"
    assert column(table, "qualifies_home")["P8"].text == "yes"  # nobody moves
    patient = application_advice.build_advice_table(slow, ApplicationLimits("x", "x", loss=0.03))
    assert column(patient, "qualifies_roaming")["P8"].text == "yes"
    rare = application_advice.build_advice_table(slow,
                                                 ApplicationLimits("x", "x", loss=0.01,
                                                                   between_moves_s=600))
    assert column(rare, "qualifies_roaming")["P8"].text == "yes"


def test_calls_are_of_the_codecs_own_packets() -> None:
    """3.30 Mbit/s of large datagrams say nothing: the air of the scenario with fewest decides."""
    found = replace(world(FAST, P12=6e4), calls={
        (G711, policy, place): count for policy in FAST
        for place, count in (("N2", 15), ("R1", 8 if policy == "P8" else 0))})
    table = application_advice.build_advice_table(found, "voice")
    assert column(table, "calls_home")["P8"].number.value == 15
    assert column(table, "calls_roaming")["P8"].number.value == 8
    assert column(table, "qualifies_roaming")["P1"].note == "rate"  # no call fits
    assert column(table, "qualifies_home")["P12"].note == "rate"  # 60 of 64 kbit/s
    assert column(table, "cost_home")["P12"].number.value == pytest.approx(1 - 0.06 / 3.3)


def test_without_a_known_air_no_calls_are_told() -> None:
    """Of printed values, of other media, and of applications whose packets are not known."""
    assert not application_advice.build_advice_table(world(FAST), "voice").has_column("calls_home")
    found = replace(world(FAST), calls={(G711, "P8", "N2"): 15})
    assert not application_advice.build_advice_table(found, "video").has_column("calls_home")
    assert not application_advice.build_advice_table(found, "rate=64000").has_column("calls_home")


def test_numbers_are_of_the_scenario_where_they_are_worst() -> None:
    """No mean of two scenarios, which nobody has; a limit that one of them passes disqualifies."""
    found = world(FAST)
    slow = dict(found.observations)
    for policy in FAST:
        seen = {1: 0.55, 2: 0.56, 3: 0.57} if policy == "P12" else {1: 0.02, 2: 0.021, 3: 0.022}
        slow["handoff_s", policy, "R2"] = Observation(statistics.mean(seen.values()), seen)
    table = application_advice.build_advice_table(replace(found, observations=slow), "voice")
    handoff = column(table, "handoff_s")
    assert (handoff["P12"].number.value, handoff["P12"].detail) == (pytest.approx(0.56), "R2")
    assert (handoff["P8"].number.value, handoff["P8"].detail) == (pytest.approx(0.2), "R1")
    assert column(table, "qualifies_roaming")["P12"].text == "no"
    missing = {key: value for key, value in slow.items() if key != ("handoff_s", "P8", "R2")}
    again = application_advice.build_advice_table(replace(found, observations=missing), "voice")
    assert column(again, "qualifies_roaming")["P8"].text == "undecided"


def test_data_in_the_open_is_never_recommended() -> None:
    """P8 is EAP-TLS with WEP: it qualifies by 2007's scheme, but not with today's beside it."""
    found = world({"P1": (0.01, 0.1), "P3": (0.02, 0.1), "P8": (0.05, 0.2)})
    today = protection_tables.rescore_today(found)
    assert "Non-roaming: P8" in application_advice.build_advice_table(found, "voice").caption
    for table in (application_advice.build_advice_table(today, "voice"),
                  application_advice.build_advice_table(found, "voice", today)):
        assert "Non-roaming: P3. Roaming: P3." in table.caption
    shown = application_advice.build_overview(found, today)
    assert {row[shown.column_index("policy")].text for row in shown.rows} == {"P3"}
    assert {row[shown.column_index("others")].text for row in shown.rows} == {
        "meet the limits, but protect no data as of 2026: P1, P8"}
    alone = protection_tables.rescore_today(world({"P8": (0.05, 0.2)}))
    assert "no policy qualifies" in application_advice.build_advice_table(alone, "voice").caption


def test_applications_with_one_answer_share_it() -> None:
    """Six times the same policy is said once a kind of scenario, with what each stream loses."""
    found = world(FAST, P12=3.2e6)
    [answer] = build_answers(
        application_advice.build_overview(found, protection_tables.rescore_today(found)))
    assert answer.application.count("\N{MIDDLE DOT}") == 2
    assert [[choice for choice, _ in offer.choices] for offer in answer.offers] == [
        ["P12"], ["P12"]]
    whats = [what for _, what in answer.offers[0].costs]
    assert len(whats) == len(set(whats))
    assert {"UDP rate less than baseline", "TCP rate less than baseline",
            "protection (scheme of 2007)", "protection (scheme of 2026)"} <= set(whats)
    apart = world(FAST | {"P12": (0.1, 0.5)})  # too slow a handoff for voice and video
    found_apart = build_answers(application_advice.build_overview(apart))
    assert [answer.application for answer in found_apart] == [
        "Voice calls \N{MIDDLE DOT} Video conferences", "E-mail, web and file transfer"]


def test_protection_can_be_asked_for() -> None:
    """Sigma of 60 percent and more: of these only P12."""
    table = application_advice.build_advice_table(world(FAST), "sigma=60")
    assert {policy for policy, entry in column(table, "qualifies_home").items()
            if entry.text == "yes"} == {"P12"}
    assert column(table, "qualifies_home")["P8"].note == "protection"


def test_a_policy_without_a_good_repetition_is_not_recommended() -> None:
    """Where an application has no limits, nothing measured exceeds them. P12 is the strongest."""
    records = [*(make(policy, number) for policy in ("P1", "P3") for number in (1, 2)),
               *(failed("P12", number) for number in (1, 2))]
    lines = [line for line in STUDY.report(results_of(*records), {}).summary
             if line.startswith("For ")]
    assert lines and any("P3" in line for line in lines)
    assert not any("P12" in line for line in lines)


def test_no_security_is_never_the_advice() -> None:
    """P1 meets every limit, and is said to, but is not recommended."""
    table = application_advice.build_advice_table(world({"P1": (0.01, 0.1), "P12": (9.0, 9.0)}),
                                                  "voice")
    assert column(table, "qualifies_home")["P1"].text == "yes"
    assert not column(table, "qualifies_home")["P1"].marks
    assert "no policy qualifies" in table.caption


def test_the_papers_thresholds() -> None:
    """0.15, 0.40 and 0.60 s; 1 and 3 percent; 64 kbit/s."""
    assert [grade_interruption(value) for value in (0.15, 0.151, 0.40, 0.41, 0.60, 0.61)] == [
        "not audible", "with quality of service", "with quality of service", "poor", "poor",
        "not possible"]
    voice, video = APPLICATIONS["voice"], APPLICATIONS["video"]
    assert (voice.delay_s, voice.loss, voice.rate_bps) == (0.40, 0.03, 64e3)
    assert (video.delay_s, video.loss) == (0.40, 0.01)


def test_printed_times_do_not_qualify_for_what_the_paper_suggests_them_for() -> None:
    """P3, P4 and P8 for real-time services: beyond its own limits. A known deviation, and said."""
    table = application_advice.build_advice_table(PRINTED, "voice")
    away = column(table, "qualifies_roaming")
    assert {away[policy].text for policy in ("P3", "P4", "P8", "P12")} == {"no"}
    assert any("P3, P4 and P8 for real-time" in note for note in table.notes)
    files = column(application_advice.build_advice_table(PRINTED, "file-transfer"),
                   "qualifies_home")
    assert "recommended" in files["P12"].marks  # as the paper has it (6.6)


def test_the_overview_has_a_row_for_each_application_and_kind() -> None:
    """What a landing page needs: who, which policy, at what cost; and who else."""
    table = application_advice.build_overview(world(FAST, P12=3.2e6))
    keys = [one.key for one in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    assert [(row["application"].text, row["kind"].text) for row in rows] == [
        (one.title, kind) for one in APPLICATIONS.values() for kind in ("Non-roaming", "Roaming")]
    assert {row["policy"].text for row in rows} == {"P12"}
    assert rows[0]["cost"].number.value == pytest.approx(0.1 / 3.3)
    assert rows[0]["others"].text == "P8; meet the limits, but protect no data as of 2026: P1"
    nothing = application_advice.build_overview(world({"P1": (0.01, 0.1)}))
    assert {row[2].text for row in nothing.rows} == {"none"}


def test_a_study_without_roaming_has_advice_for_home_alone() -> None:
    """Nothing assumes five scenarios or two kinds."""
    found = replace(world(FAST), places=tuple(p for p in PRINTED.places if p.kind == "home"))
    table = application_advice.build_advice_table(found, "video")
    assert not [one.key for one in table.columns if "roaming" in one.key]
    assert len(application_advice.build_overview(found).rows) == len(APPLICATIONS)


def test_what_was_not_measured_is_no_answer() -> None:
    """Without a stream and a time nothing is decided, with limits or without."""
    bare = replace(PRINTED, origin="measured", observations={})
    found = assess_policy(bare, PRINTED.policies[-1], APPLICATIONS["voice"], "home")
    assert (found.answer, found.fails) == ("not measured", ("interruption?", "rate?"))
    assert assess_policy(bare, PRINTED.policies[-1], APPLICATIONS["file-transfer"],
                         "home").answer == "not measured"
    assert application_advice.build_advice_table(bare, "voice").rows


@pytest.mark.parametrize(("text", "expected"), [
    ("Voice", APPLICATIONS["voice"]), ("file transfer", APPLICATIONS["file-transfer"]),
    ("delay=0.2, loss=0.01,rate=128000,sigma=50,moves=10",
     ApplicationLimits("own", "Limits of one's own", 0.2, 0.01, 128e3, 50, 10))])
def test_limits_by_name_or_by_number(text: str, expected: ApplicationLimits) -> None:
    """An application that is known, or limits as KEY=NUMBER."""
    assert parse_limits(text) == expected


@pytest.mark.parametrize("text", ["telepathy", "delay", "delay=", "delay=fast", "delay=-1",
                                  "delay=0", "delay=inf", "speed=3", "delay=0.2,", ""])
def test_other_limits_are_refused_in_one_line(text: str) -> None:
    """The message says what can be given."""
    with pytest.raises(ValueError, match=r"voice|number above 0") as caught:
        parse_limits(text)
    assert "\n" not in str(caught.value)


def test_limits_in_words() -> None:
    """What the caption says."""
    assert APPLICATIONS["voice"].words == (
        "an interruption of 0.4 s at most, packets lost in handoffs 3 % at most, "
        "with a handoff every 60 s, 64 kbit/s")
    assert APPLICATIONS["file-transfer"].words == "no limits"
    assert Estimate(1, None, None, 0).n == 0
