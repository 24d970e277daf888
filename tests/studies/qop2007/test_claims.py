"""Tests of the verdicts on the paper's conclusions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from analysis import statistics
from analysis.cells import Cells, Observation
from analysis.claims import (
    MORE,
    Band,
    DisplayUnit,
    Finding,
    Verdict,
    answer_questions,
    band_around,
    positive_band,
    settle_claim,
)
from analysis.statistics import Estimate
from fabricated import cells_of, make, manifest_of, paper_run, results_of
from studies.qop2007 import published
from studies.qop2007.report import claim_verdicts
from studies.qop2007.report.basis import (
    IN_BOTH_NETWORKS,
    KINDS,
    ReportBasis,
    ReportScenario,
    basis_from_paper,
    basis_from_run,
    policy_of,
)
from studies.qop2007.report.claim_questions import TCP, TIME
from studies.qop2007.report.claim_verdicts import FINDINGS, QUESTIONS, REASONS
from studies.qop2007.report.paper_tables import build_table_5
from studies.qop2007.report.recommendation import possible_recommendations, recommend_by_overhead

PRINTED = basis_from_paper()
HOME, ROAMING = ("N1", "N2", "N3"), ("R1", "R2")
POLICIES = tuple(one.id for one in PRINTED.policies)
Truth = Callable[[str, str, str], float]

#: Seconds: as the paper's text has them, and for the policies it leaves out something that fits.
TIMES = {"P1": 0.11, "P2": 0.11, "P5": 0.55, "P7": 0.6, "P6": 2.5, "P3": 1.4, "P8": 2.6, "P4": 1.4,
         "P9": 2.1, "P11": 2.1, "P10": 3.5, "P12": 3.9}
AWAY = {"P1": 1.5, "P2": 1.5, "P5": 2.1, "P7": 2.1, "P6": 4.9, "P3": 2.8, "P8": 4.96, "P4": 2.8,
        "P9": 3.3, "P11": 3.3, "P10": 6.2, "P12": 6.28}


def paper_truth(metric: str, policy: str, scenario: str) -> float:
    """A world in which the paper is right: its numbers, and times that fit its text."""
    if metric == "authentication_time_s":
        return (TIMES if scenario in HOME else AWAY)[policy]
    return published.load_values().cells[metric, policy, scenario]


def world(truth: Truth = paper_truth, noise: float = 0.002, blocks: int = 10, seed: int = 1,
          packets: Mapping[tuple[str, str], tuple[int, int]] | None = None) -> ReportBasis:
    """A study whose means are the truth, with noise of a share of each and a drift of blocks."""
    random = np.random.default_rng(seed)
    found, drift = {}, random.normal(1, noise, blocks)
    for metric in ("authentication_time_s", "tcp_goodput_bps", "udp_goodput_bps",
                   "tcp_overhead_bps", "udp_overhead_bps"):
        for policy in POLICIES:
            for scenario in (*HOME, *ROAMING):
                if "overhead" in metric and policy == "P1":
                    continue
                value = truth(metric, policy, scenario)
                seen = value * drift * random.normal(1, noise, blocks)
                found[metric, policy, scenario] = Observation(
                    statistics.mean(seen), dict(enumerate(seen.tolist(), 1)),
                    tuple(f"{policy}-{scenario}-{n:03d}" for n in range(1, blocks + 1)))
    return replace(PRINTED, origin="measured", observations=found, packets=packets or {})


def judged(found: ReportBasis) -> dict[str, Verdict]:
    return {one.id: one for one in claim_verdicts.judge_claims(found)}


def changed(metric: str, factor: float, policies: Sequence[str] = POLICIES,
            places: Sequence[str] = (*HOME, *ROAMING)) -> Truth:
    """The paper's world, but for one metric of some policies in some places."""
    def truth(name: str, policy: str, scenario: str) -> float:
        hit = name == metric and policy in policies and scenario in places
        return paper_truth(name, policy, scenario) * (factor if hit else 1)
    return truth


#: Packets as the paper counts them.
COUNTED = {("dot1x", policy): (17, 17) for policy in ("P6", "P8", "P10", "P12")} | {
    ("dot1x", policy): (8, 8) for policy in ("P5", "P7", "P9", "P11")} | {
    ("ike", policy): (9, 9) for policy in ("P3", "P4", "P9", "P10", "P11", "P12")}


def test_every_claim_of_the_paper_is_judged() -> None:
    """Q1 to Q16, each with questions or findings, and a reason in case it is refuted."""
    asked = [*QUESTIONS, *FINDINGS]
    assert sorted(asked) == sorted(f"Q{number}" for number in range(1, 17))
    assert [one.id for one in published.load_claims()] == [f"Q{number}" for number in range(1, 17)]
    assert set(REASONS) == set(asked)


def test_in_the_papers_world_the_paper_is_right() -> None:
    """With its own numbers, measured precisely, all is confirmed, but for one overstatement.

    The spreads of Q12: UDP in N3 differs by 9.3 percent in Table 8, where the text says 6 to 8.
    """
    found = judged(world(noise=0.0005, packets=COUNTED))
    assert {name for name, one in found.items() if one.verdict != "confirmed"} == {"Q12"}
    assert found["Q12"].verdict == "refuted"
    assert found["Q12"].figure.startswith("UDP in N3, P1 over P11: 9.")


@pytest.mark.parametrize(("claim", "truth"), [
    ("Q1", changed(TIME, 5, ["P9"])), ("Q2", changed(TIME, 6, ["P5"])),
    ("Q3", changed(TIME, 0.36, ["P4"], ROAMING)), ("Q4", changed(TIME, 9, ["P3"])),
    ("Q5", changed(TIME, 3, ["P5"], HOME)), ("Q6", changed(TIME, 3, ["P10", "P12"])),
    ("Q8", changed(TCP, 20, ["P6"])), ("Q9", changed(TCP, 0.5, ["P3"])),
    ("Q10", changed(TCP, 0.2, ["P4"])), ("Q11", changed("udp_overhead_bps", 2)),
    ("Q13", changed("tcp_goodput_bps", 2, places=ROAMING)),
    ("Q14", changed(TCP, 4, ["P3"], ["N2"])), ("Q15", changed(TCP, 12, ["P2"], ["N2"])),
    ("Q16", changed(TIME, 1 / 40)),
])
def test_a_claim_is_refuted_where_it_does_not_hold(claim: str, truth: Truth) -> None:
    """One thing is different in the world; the verdict says so, names cells, records and why."""
    found = judged(world(truth, packets=COUNTED))[claim]
    assert found.verdict == "refuted"
    assert found.why == REASONS[claim] and found.cells and found.records
    assert {name.rpartition("-")[0] for name in found.records} == set(found.cells)


def test_the_figure_is_the_answer_that_decides() -> None:
    """Confirmed: the weakest of its answers. Refuted: the one that is surest."""
    weak = replace(finding(0.01, 0.2, 0.39, MORE), label="just so")
    assert settle_claim(published.load_claims()[0], [finding(0.1, 0.2, 0.3, MORE), weak], [],
                        "").figure.startswith("just so")
    low = replace(finding(-0.3, -0.2, -0.1, MORE), label="surely less")
    lower = replace(finding(-0.9, -0.5, -0.1, MORE), label="perhaps less")
    yes = finding(0.1, 0.2, 0.3, MORE)
    found = settle_claim(published.load_claims()[0], [yes, lower, low], [], "because")
    assert (found.verdict, found.why) == ("refuted", "because")
    assert found.figure.startswith("surely less") and len(found.evidence) == 3


def test_a_verdict_says_what_it_rests_on_and_other_readings() -> None:
    """Whatever the verdict; Q3, Q5, Q6 with the visited network's part, Q13 by channels."""
    base = world(noise=0.0005, packets=COUNTED)
    apart = ReportScenario("R1c6", "R1, channels 1 and 6", "roaming", frozenset({1, 6}))
    found = dict(base.observations)
    for (metric, policy, scenario), seen in base.observations.items():
        if metric == TIME:  # 3 s more than Table 4 adds up, wherever somebody roams
            found[IN_BOTH_NETWORKS, policy, scenario] = plus(seen, 3.0 * (scenario in ROAMING))
        if metric == "tcp_goodput_bps" and scenario == "R1":
            found[metric, policy, "R1c6"] = Observation(
                seen.estimate, {block: 2 * value for block, value in seen.blocks.items()})
    whole = replace(base, observations=found, places=(*base.places, apart))
    verdicts = judged(whole)
    assert all(one.rests_on for one in verdicts.values())
    assert verdicts["Q13"].rests_on == ("channel plan", "medium arithmetic")
    assert [name for name, one in verdicts.items() if one.otherwise] == ["Q3", "Q5", "Q6", "Q13"]
    assert verdicts["Q5"].verdict == "confirmed"
    assert verdicts["Q5"].otherwise[0].startswith(
        "With all that the visited network negotiates: refuted")
    assert ": refuted; all policies, N2 / R1c6, access points on channels of their own: " \
        in verdicts["Q13"].otherwise[0]
    # A scenario that is not the paper's changes no verdict of the paper's.
    assert {name: one.verdict for name, one in verdicts.items()} == \
        {name: one.verdict for name, one in judged(base).items()}
    table = claim_verdicts.build_claims_table(list(verdicts.values()))
    assert [column.title for column in table.columns][-2:] == ["Rests on", "Read otherwise"]
    assert [column.title for column
            in claim_verdicts.build_claims_table(list(judged(base).values())).columns][-1] == \
        "Rests on"


def plus(seen: Observation, more: float) -> Observation:
    blocks = {block: value + more for block, value in seen.blocks.items()}
    return replace(seen, estimate=statistics.mean(blocks.values()), blocks=blocks)


def test_recommendations_say_whether_the_intervals_settle_them() -> None:
    """Sure measurements leave the choice itself; noisy ones others, with the choice among them."""
    sure, vague = world(noise=0.0005), world(noise=0.1, blocks=3)
    for basis in (sure, vague):
        for kind in KINDS:
            chosen = recommend_by_overhead(basis, "tcp", kind)
            for group, names in possible_recommendations(basis, "tcp", kind).items():
                assert chosen[group] in names
                assert len(names) == 1 or basis is vague
    assert any(len(names) > 1 for names in possible_recommendations(vague, "tcp", "home").values())
    assert possible_recommendations(PRINTED, "tcp", "home") == {}
    assert not any("may be any" in note for note in build_table_5(sure).notes)
    assert any("may be any of these" in note for note in build_table_5(vague).notes)


def test_counts_of_packets_decide_without_an_interval() -> None:
    """Q7: what every repetition shows is so; 15 instead of 17 refutes, a mixture does not tell."""
    assert judged(world(packets=COUNTED))["Q7"].verdict == "confirmed"
    fewer = judged(world(packets=COUNTED | {("dot1x", "P6"): (15, 15)}))["Q7"]
    assert fewer.verdict == "refuted"
    assert fewer.figure == "EAP-TLS under P6: 15.0 packets; the claim asks for 17 packets"
    mixed = judged(world(packets=COUNTED | {("dot1x", "P6"): (15, 19)}))["Q7"]
    assert mixed.verdict == "undecided"
    assert judged(world())["Q7"].figure == "not measured"


def test_on_devices_the_reason_is_the_phase_and_not_the_hardware() -> None:
    """Where nodes compute on devices, a claim says what took how long, here and as printed."""
    slowed = replace(world(changed(TIME, 0.5)), devices=("strongarm-206",))
    [unslowed, said] = [judged(basis)["Q16"].why for basis in (
        replace(slowed, devices=()), slowed)]
    assert "206 and 400 MHz" in unslowed
    assert "206 and 400 MHz" not in said
    assert "Nodes compute on strongarm-206" in said
    assert "P12 roaming 3.14, 6.28" in said


def test_noise_leaves_claims_undecided() -> None:
    """Three blocks with a noise as large as the values decide next to nothing."""
    found = judged(world(noise=0.8, blocks=3))
    words = [one.verdict for one in found.values()]
    assert words.count("undecided") >= 13
    assert any("more repetition" in one.why for one in found.values())


def test_wrong_verdicts_are_rarer_than_five_percent() -> None:
    """Claims on the very edge of being true: two policies alike. Neither word may come often."""
    ask = QUESTIONS["Q2"]
    counts = {"confirmed": 0, "refuted": 0, "undecided": 0}
    claim = published.load_claims()[1]
    base = world(blocks=4)
    random = np.random.default_rng(4)
    cells = [key for key in base.observations if key[0] == "authentication_time_s"
             and key[1] in ("P3", "P5")]
    for _ in range(400):
        drawn = dict(base.observations)
        for key in cells:
            seen = random.normal(2.0, 0.2, 4)
            drawn[key] = Observation(statistics.mean(seen), dict(enumerate(seen.tolist())))
        found, missing = answer_questions(drawn, ask(base))
        counts[settle_claim(claim, found, missing, "").verdict] += 1
    assert counts["confirmed"] < 0.03 * 400  # both of two questions would have to err
    assert counts["refuted"] < 0.07 * 400


def test_many_questions_do_not_refute_by_chance() -> None:
    """Q1 asks 64; where everybody is alike, one of them often errs, but not by Bonferroni."""
    random = np.random.default_rng(8)
    base = world(blocks=4)
    refuted = 0
    for _ in range(30):
        drawn = {key: Observation(statistics.mean(seen), dict(enumerate(seen.tolist())))
                 for key in base.observations if key[0] == "authentication_time_s"
                 for seen in [random.normal(2.0, 0.2, 4)]}
        found = replace(base, observations=drawn)
        refuted += judged(found)["Q1"].verdict == "refuted"
    assert refuted <= 5  # P(more than 5 of 30 at 5 %) is 0.3 %


def test_printed_values_decide_nothing_and_say_how_far_they_agree() -> None:
    """A verdict needs an interval; the paper's own numbers agree with it, but for Q12."""
    found = judged(PRINTED)
    assert {one.verdict for one in found.values()} == {"undecided"}
    assert "no intervals; 4 of 4 of them agree" in found["Q8"].why
    assert "9 of 10 of them agree" in found["Q12"].why
    disagreeing = {name for name, one in found.items()
                   for agree, of in [_counts(one.why)] if agree < of}
    assert disagreeing == {"Q12"}


def _counts(why: str) -> tuple[int, int]:
    if "of them agree" not in why:
        return 0, 0
    words = why.split("intervals; ")[1].split()
    return int(words[0]), int(words[2])


@pytest.mark.parametrize("records", [
    [make("P1")], [make("WPA2-PSK", n) for n in (1, 2)], [make("P12", scenario="R2")],
    [make(policy, n) for policy in ("P1", "P5", "P6") for n in (1, 2)]])
def test_no_run_is_too_small_to_be_judged(records: Sequence[object]) -> None:
    """What was not measured leaves a claim undecided, with what is missing; nothing is raised."""
    found = judged(basis_from_run(cells_of(*records)))
    assert len(found) == 16
    assert found["Q1"].verdict == "undecided"
    assert "not measured" in f"{found['Q5'].figure} {found['Q5'].why}"


def test_a_part_that_was_not_measured_keeps_a_claim_open() -> None:
    """Q2 at home alone: P3 is slower there for sure, but nobody roamed."""
    only = {key: value for key, value in world().observations.items() if key[2] in HOME}
    found = judged(replace(PRINTED, origin="measured", observations=only))["Q2"]
    assert found.verdict == "undecided"
    assert "not measured: P3 less P5, roaming" in found.why
    assert any(text.endswith(": confirmed") for text in found.evidence)


def test_a_group_that_nobody_measured_is_called_by_its_name() -> None:
    """A run of P1 and P12 has none of the middle group; its answers say which group lacks."""
    few = tuple(one for one in PRINTED.policies if one.id in ("P1", "P12"))
    why = judged(replace(world(), policies=few))["Q6"].why
    assert "not measured: P12 / the middle group, non-roaming" in why


def test_claims_stand_on_the_papers_groups_whatever_the_weights() -> None:
    """Groups of one's own weights change tables, not what the paper claimed of its groups."""
    moved = tuple(replace(one, score=replace(one.score, group="low")) for one in PRINTED.policies)
    assert judged(replace(world(), policies=moved))["Q6"].verdict == "confirmed"


def test_the_table_has_a_row_a_claim_and_links_records() -> None:
    """Presenters get id, text, verdict, figure and why; the count stands in the caption."""
    verdicts = claim_verdicts.judge_claims(world(noise=0.0005, packets=COUNTED))
    table = claim_verdicts.build_claims_table(verdicts)
    assert [row[0].text for row in table.rows] == [one.id for one in verdicts]
    assert "15 confirmed, 1 refuted, 0 undecided" in table.caption
    refuted = next(row for row in table.rows if row[3].text == "refuted")
    assert refuted[3].records == refuted[4].records
    assert refuted[4].records[0].startswith("P1-N3-")


def finding(low: float, mean: float, high: float, band: Band, n: int = 5) -> Finding:
    estimate = Estimate(mean, low, high, n)
    return Finding("x", estimate, estimate, band, DisplayUnit("ms", 1e3))


@pytest.mark.parametrize(("low", "high", "band", "word"), [
    (0.1, 0.3, MORE, "confirmed"), (-0.1, 0.3, MORE, "undecided"), (-0.3, -0.1, MORE, "refuted"),
    (6.0, 8.0, band_around(7), "confirmed"), (5.0, 8.0, band_around(7), "undecided"),
    (9.0, 9.5, band_around(7), "refuted"), (1.0, 9.5, band_around(7), "undecided")])
def test_what_an_interval_decides(low: float, high: float, band: Band, word: str) -> None:
    """Inside the band confirmed, outside refuted, across an edge undecided."""
    assert finding(low, (low + high) / 2, high, band).word == word


def test_a_finding_in_words_and_repetitions() -> None:
    """Value with interval in the unit, what is asked; and a rough number of what is missing."""
    found = finding(-0.017, 0.038, 0.093, MORE, n=3)
    assert found.text == "x: 38 ms (-17 to 93); the claim asks for more than 0 ms"
    # An effect of 1.7 standard deviations: six pairs have a power of 0.9, five of 0.78.
    assert found.further in (2, 3)
    assert finding(0.1, 0.2, 0.3, MORE).further is None
    assert finding(0.2, 0.2, 0.2, band_around(0.2)).text.startswith("x: 200 ms; the claim")


def test_real_shaped_records_get_verdicts() -> None:
    """From records to verdicts: the fabricated run has neither 2007's seconds nor its spreads."""
    found = judged(basis_from_run(cells_of(
        *paper_run(("N1", "N2", "N3", "R1", "R2"), repetitions=4))))
    assert found["Q16"].verdict == "refuted"
    assert found["Q7"].verdict == "refuted"  # 17 packets for every 802.1X policy there
    assert found["Q4"].verdict in {"confirmed", "refuted"}
    assert found["Q16"].records


def test_a_name_that_steers_a_terminal_costs_its_policys_score_alone() -> None:
    """In somebody else's folder a policy may be called anything, and the report is made."""
    records = paper_run(("N2",))
    plan = manifest_of(records)
    level = plan.levels["policy"]["P2"].model_copy(update={"title": "WEP\x1b]0;mine\x07"})
    plan = plan.model_copy(update={"levels": {
        **plan.levels, "policy": {**plan.levels["policy"], "P2": level}}})
    results = results_of(*records, manifest=plan)
    assert policy_of(results, "P2") is None
    assert policy_of(results, "P3") is not None
    assert "P2" in {policy.id for policy in basis_from_run(Cells(results)).policies}


def equal_for_p5(metric: str, policy: str, scenario: str) -> float:
    """The paper's world, but that P5 authenticates roaming as it does at home."""
    home = "N1" if (metric, policy) == (TIME, "P5") else scenario
    return paper_truth(metric, policy, home)


@pytest.mark.parametrize(("noise", "verdict"), [(0.002, "refuted"), (0.05, "undecided")])
def test_no_difference_is_not_more(noise: float, verdict: str) -> None:
    """Where an interval lies within what does not matter, the claim is refuted, and it says so."""
    found = judged(world(equal_for_p5, noise=noise))["Q3"]
    assert found.verdict == verdict
    assert found.figure.startswith("P5, roaming less non-roaming")
    assert ("and 5 ms do not matter" in found.figure) == (verdict == "refuted")


@pytest.mark.parametrize(("truth", "least", "most"), [(1.0, 0.0, 0.05), (0.0, 0.5, 1.0)])
def test_a_difference_that_matters_is_seldom_taken_for_none(truth: float, least: float,
                                                            most: float) -> None:
    """Of 2000 runs of six, few are refuted where it just matters, most where there is none."""
    random = np.random.default_rng(7)
    refuted = 0
    for _ in range(2000):
        seen = statistics.mean(random.normal(truth, 0.6, 6))
        refuted += Finding("made up", seen, seen, positive_band(1.0),
                           DisplayUnit()).word == "refuted"
    assert least <= refuted / 2000 <= most
