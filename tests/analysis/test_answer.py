"""Tests of the answer in sentences and of the short table."""

from __future__ import annotations

import re
from typing import Any

import click
import numpy as np
import pytest

from analysis.cells import Cells
from analysis.claims import Verdict
from analysis.present.report import ApplicationAdvice, Recommendation
from analysis.present.terminal import to_plain_text
from analysis.reporting import answer
from analysis.reporting.significance import decide_differences
from fabricated import (
    POLICIES,
    STUDY,
    body_of,
    cells_of,
    failed,
    make,
    manifest_of,
    paper_run,
    phases_of,
    results_of,
    write_all,
)
from harness.commands import options, report, run
from harness.commands.output import SCREEN_LINES, SCREEN_WIDTH
from topologies.loader import load_scenario

TITLES = {**{name: policy.name for name, policy in POLICIES.items()},
          **{name: load_scenario(name).title for name in ("N2", "R1")}}
#: Authentication times of P1 in ms by block. Those of P12 are 9 times as long, or nearly so.
_BASE = (2.0, 2.1, 1.9, 2.0)
_NOISE = (0.1, -0.1, 0.05, -0.05)


def with_time(policy: str, block: int, seconds: float, **changes: Any) -> Any:
    """Return a record with an authentication time and components that add up to it."""
    body = body_of(make(policy, block, phases=phases_of(policy)))
    parts = body.authentications[0].components_s
    factor = seconds / sum(parts[name] for name in body.authentication_sum)
    return make(policy, block, phases=phases_of(policy), authentication_time_s=seconds,
                components_s={name: factor * value for name, value in parts.items()}, **changes)


def describe(cells: Cells) -> list[str]:
    """Return the answer of cells with plain spaces."""
    return [line.replace("\N{NO-BREAK SPACE}", " ")
            for line in answer.describe_answer(cells, decide_differences(cells))]


def nine_times() -> list[Any]:
    """Return records of P1 and of P12, which takes about nine times as long to authenticate."""
    return [record for block, base in enumerate(_BASE, 1) for record in (
        with_time("P1", block, base / 1e3, udp=5.80e6 + block * 1e3),
        with_time("P12", block, (9 * base + _NOISE[block - 1]) / 1e3,
                  udp=0.975 * 5.80e6 + block * 1e3))]


def test_describe_answer_names_ratio_and_share_with_intervals() -> None:
    """A multiple and a percentage each have the interval of a ratio within blocks."""
    lines = describe(cells_of(*nine_times()))
    cost = next(line for line in lines if line.startswith("P12"))
    assert cost.startswith("P12 (8021x-EAP-TLS-WEP-128-IPsec-3DES-SHA) against P1 (No security): ")
    ratio = re.search(r"authentication time (\S+) ± (\S+) times as long", cost)
    assert ratio and float(ratio[1]) == pytest.approx(9, abs=0.02)
    assert 0 < float(ratio[2]) < 0.2  # 7 % without the pairs of blocks
    assert re.search(r"UDP goodput 2\.(?:49|50)\d* ± 0\.00\d+ % less", cost)


@pytest.mark.parametrize(("in_r1", "units"), [
    ((42.0, 41.8, 42.1, 42.0), "times as long"), ((2000.0, 2.0, 40.0, 1.0), "ms more")])
def test_describe_answer_of_two_scenarios_has_one_unit_a_metric(
        in_r1: tuple[float, ...], units: str) -> None:
    """A small and a large cost of one metric are both multiples, or both in the metric's unit.

    In the second case, the baseline varies so much in R1 that a ratio has no interval.
    """
    records = nine_times() + [record for block, (base, noise) in enumerate(
        zip(in_r1, _NOISE, strict=True), 1) for record in (
        with_time("P1", block, base / 1e3, scenario="R1"),
        with_time("P12", block, (base + 21 + noise) / 1e3, scenario="R1"))]
    cost = next(line for line in describe(cells_of(*records)) if line.startswith("P12"))
    [time] = [part for part in cost.split("; ") if "authentication time" in part]
    assert {"N2", "R1"} <= set(re.findall(r"in (N2|R1)", time))
    assert [unit for unit in ("times as long", "ms more", "% longer") if unit in time] == [units]


def test_describe_answer_of_unpaired_spread_has_no_false_certainty() -> None:
    """A difference within the noise is listed as undecided, not as a cost."""
    records = [with_time(policy, block, (2 + shift) / 1e3, tcp=4e6 + 4e5 * shift)
               for policy, shifts in (("P1", (0.5, -0.5, 0.3)), ("P6", (-0.4, 0.6, 0.1)))
               for block, shift in enumerate(shifts, 1)]
    lines = describe(cells_of(*records))
    assert "P6 (8021x-EAP-TLS): no difference from P1 (No security) is proven." in lines
    assert any(line.startswith("Not decided: ") and "TCP goodput of P6" in line for line in lines)


def make_claims(*decidable: str, count: int = 2) -> list[Verdict]:
    """Return some undecided claims, of which repetitions can decide some, and a confirmed one."""
    return [Verdict("Q0", "P1 is free", "", "confirmed", ""), *(
        Verdict(claim, f"P12 is slower in case {claim[1:]}", "", "undecided", "",
                needed=(frozenset({"P1-N2", "P12-N2"}),) if claim in decidable else ())
        for claim in (f"Q{number}" for number in range(1, count + 1)))]


def describe_claims(claims: list[Verdict], looks: tuple[int, ...] = ()) -> str:
    """Return the sentence on claims, for four repetitions with these planned looks."""
    records = nine_times()
    plan = manifest_of(records, settings={"repetitions": 2, **({"looks": looks} if looks else {})})
    cells = Cells(results_of(*records, manifest=plan))
    [line] = [line.replace("\N{NO-BREAK SPACE}", " ") for line in answer.describe_answer(
        cells, decide_differences(cells), claims=claims) if line.startswith("Not decided: ")]
    return line


_BOTH = "(Q1: P12 is slower in case 1; Q2: P12 is slower in case 2)"


@pytest.mark.parametrize(("decidable", "said"), [
    ("Q1 Q2", (f"Not decided: 2 of 3 claims {_BOTH}. More repetitions of this plan can decide "
               "them.")),
    ("", (f"Not decided: 2 of 3 claims {_BOTH}. More repetitions of this plan cannot decide them: "
          "the table 'claims' says why.")),
    ("Q1", ("Not decided: 2 of 3 claims. More repetitions of this plan can decide 1 (Q1: P12 is "
            "slower in case 1), but not the other 1."))], ids=["all", "none", "one"])
def test_describe_answer_says_which_claims_repetitions_decide(decidable: str, said: str) -> None:
    """Claims have their words, and those that this plan cannot decide are told from the others."""
    assert describe_claims(make_claims(*decidable.split())) == said


def test_describe_answer_counts_many_claims() -> None:
    """No list of codes: the number, and the command that shows what each lacks."""
    assert describe_claims(make_claims(count=14)) == (
        "Not decided: 14 of 15 claims. More repetitions of this plan cannot decide them: "
        "the table 'claims' says why.")


def test_describe_answer_names_the_last_look() -> None:
    """A claim after its last planned judgement gets no further repetitions, and the answer says so.

    Before that judgement, further repetitions can still decide it.
    """
    assert "can decide them." in describe_claims(make_claims("Q1", "Q2"), looks=(2, 4, 6))
    assert describe_claims(make_claims("Q1"), looks=(2, 4)) == (
        f"Not decided: 2 of 3 claims {_BOTH}. 1 is at the last look, after 4 repetitions. More "
        "repetitions of this plan cannot decide them: the table 'claims' says why.")


def test_describe_answer_names_codes_at_their_first_use() -> None:
    """Policies, scenarios and the policies that claims name have their titles once."""
    records = [record for scenario in ("N2", "R1") for record in paper_run((scenario,), 3)]
    cells = cells_of(*records)
    text = " ".join(answer.describe_answer(
        cells, decide_differences(cells), claims=[Verdict(
            "Q1", "P11 is slower than P3 (IPsec-3DES-SHA)", "", "undecided", "")]))
    codes = re.findall(r"\b(?:P\d+|[NR]\d)\b", text)
    assert {"P11", "P3", "R1", "N2"} <= set(codes)
    for code in set(codes):
        uses = re.findall(rf"\b{code}\b( \([^)]*\))?", text)
        assert uses[0] == f" ({TITLES[code]})" and not any(uses[1:]), code


def test_describe_answer_says_when_no_number_of_repetitions_decides() -> None:
    """Equal means with a spread of a fifth: a command for the rest would be of no use."""
    records = [with_time(policy, block, 0.002 * (1 + (policy == "P6")),
                         tcp=4e6 + 8e5 * shift * (policy == "P6"))
               for block, shift in enumerate((1, -1, 1, -1, 0.5, -0.5), 1)
               for policy in ("P1", "P6")]
    cells = cells_of(*records)
    decisions = decide_differences(cells)
    assert answer.decisive_repetitions(cells, decisions) is None
    [line] = [line for line in describe(cells) if line.startswith("Not decided: ")]
    assert line == ("Not decided: 1 of 3 differences from P1 (TCP goodput of P6). No affordable "
                    "number of repetitions is likely to decide it.")


def masked_run(generator: np.random.Generator, repetitions: int) -> Cells:
    """Return cells of twelve policies, of which P2 is slower by six deviations."""
    return cells_of(*[with_time(policy, block, 0.02 + 0.006 * (policy == "P2")
                                + generator.normal(0, 0.001 / 2**0.5))
                      for policy in POLICIES for block in range(1, repetitions + 1)])


def test_describe_answer_explains_what_the_correction_leaves_unproven() -> None:
    """Three repetitions face eleven comparisons. The number that the sentence names proves it.

    The seeds are those in which P2's own interval excludes 0, and the corrected one does not.
    """
    stated, proven = [], 0
    for seed in range(40, 60):
        cells = masked_run(np.random.default_rng(seed), 3)
        [decision] = [each for each in decide_differences(cells) if each.ids[0] == "P2"
                      and each.metric.name == "authentication_time_s"]
        sentences = [line for line in describe(cells)
                     if line.startswith("Of those without proven difference")]
        assert bool(sentences) == any(each.is_masked for each in decide_differences(cells)
                                      if each.ids[0] in ("P2", "P3", "P4", "P5"))
        if not decision.is_masked:
            continue
        assert re.search(r" 0 \(\d+ of authentication time(, \d+ of [^)]+)?\)\. ", sentences[0])
        found = re.search(r"But 3 repetitions cannot prove (?:a difference|differences) of this "
                          r"size after the correction for 11 comparisons\. About (\d+) "
                          r"repetitions can\.",
                          sentences[0])
        assert found
        stated.append(int(found[1]))
        assert decision.further and stated[-1] >= 3 + decision.further > 3
        again = decide_differences(masked_run(np.random.default_rng(1000 + seed), stated[-1]))
        proven += any(each.ids[0] == "P2" and each.outcome == "different" for each in again)
    assert len(stated) >= 5 and proven >= 0.8 * len(stated)


def test_describe_answer_of_single_repetitions_says_that_they_prove_nothing() -> None:
    """The reader is not left to guess why no difference is proven."""
    lines = describe(cells_of(*[make(policy, 1) for policy in ("P1", "P6")]))
    assert "One repetition cannot prove a difference. Take 5 repetitions or more." in lines


def test_describe_answer_names_another_release_than_the_default() -> None:
    """The daemons of Debian 13, in the first sentence; those of Debian 12 are the usual ones."""
    for release, expected in (("trixie", True), ("bookworm", False)):
        records = [make("P1", block, environment={"machine": "guest", "debian": release})
                   for block in (1, 2)]
        assert ("1 cell with daemons of Debian trixie; " in describe(cells_of(*records))[0]
                ) is expected


def test_describe_answer_names_single_daemons_of_another_release() -> None:
    """A daemon of the guests' own release is no other one."""
    records = [make("P1", block, environment={
        "machine": "guest", "debian": "bookworm", "daemons": {
            "freeradius/openssl": "trixie", "hostapd": "bookworm"}}) for block in (1, 2)]
    assert "daemons of Debian bookworm (freeradius/openssl of trixie)" in describe(
        cells_of(*records))[0]


def test_describe_answer_without_baseline_says_so() -> None:
    """Costs without a baseline are not stated, and extremes are."""
    lines = describe(cells_of(*[make("P6", block) for block in (1, 2)]))
    assert any("no records of the baseline P1" in line for line in lines)
    assert any(line.startswith("Authentication time: ") for line in lines)
    assert not any("against" in line for line in lines)


def test_describe_answer_names_failed_repetitions() -> None:
    """A cell whose repetitions failed is named with its reason."""
    lines = describe(cells_of(make("P1", 1), make("P1", 2), make("P6", 1),
                              failed("P8", 1), failed("P8", 2)))
    assert any(line.startswith("P8 (8021x-EAP-TLS-WEP-128): failed 2 of 2")
               and "Access-Reject" in line for line in lines)


def test_describe_answer_counts_failures_alike_once() -> None:
    """Reasons that differ in numbers are one; of several checks the first is stated in full."""
    reason = ("not proven: a (0 of {0} frames, at {0}.5 s); not proven: b (1 of {0}); "
              "not proven: c ({0})")
    lines = describe(cells_of(make("P1", 1), make("P1", 2), failed("P8", 1, reason.format(7)),
                              failed("P8", 2, reason.format(31)), failed("P8", 3, "other")))
    failures = [line for line in lines if line.startswith("P8")]
    assert failures == [
        ("P8 (8021x-EAP-TLS-WEP-128): failed 2 of 3 (repetition 1, 2): not proven: a (0 of 7 "
         "frames, at 7.5 s); 2 further checks do not hold."),
        "P8: failed 1 of 3 (repetition 3): other."]


def test_describe_answer_of_a_control_says_first_that_failures_are_meant() -> None:
    """It has no advice, and no intervals, as nothing counts."""
    records = [failed(policy, number, environment={"fault": "no-wep"}) for policy in ("P1", "P2")
               for number in (1, 2)]
    cells = cells_of(*records)
    advice = [ApplicationAdvice("Voice calls", "", (Recommendation(
        "Non-roaming", reason="No policy that protects data is sure to meet the limits."),))]
    lines = answer.describe_answer(cells, decide_differences(cells), advice, caution="Careful.")
    assert lines[:2] == ["Measured: 2 policies; 0 of 4 repetitions good, 0 of 2 cells proven.",
                         "Negative control: 'no-wep' was put in, so failures are meant."]
    assert not any("Voice" in line or "Careful" in line or "limits" in line for line in lines)


def test_describe_advice_gives_the_reason_of_no_recommendation() -> None:
    """Its own words, whatever it lists besides."""
    [line] = answer.describe_advice([ApplicationAdvice("Voice calls", "", (Recommendation(
        "Non-roaming", reason="No policy that protects data is sure to meet the limits.",
        runners=("undecided: P8, P1",)),))], "by weights")
    assert line == "For voice calls: no policy that protects data is sure to meet the limits."


def test_describe_answer_tells_how_many_claims_are_confirmed() -> None:
    """And how many are refuted; without a decided claim there is no such sentence."""
    cells = cells_of(*nine_times())
    claims = [Verdict(f"Q{number}", "P1 is free", "", word, "") for number, word in enumerate(
        ("confirmed", "refuted", "confirmed", "undecided"))]
    said = [line.replace("\N{NO-BREAK SPACE}", " ") for line in answer.describe_answer(
        cells, decide_differences(cells), claims=claims)]
    assert "Claims: 4, of them 2 confirmed and 1 refuted (table 'claims')." in said
    assert not any("Claims that" in line for line in describe(cells))


def test_intervals_of_a_sequential_run_are_said_to_hold_less() -> None:
    """Its length depends on the results, which ordinary intervals do not know."""
    records = nine_times()
    plan = manifest_of(records, settings={"repetitions": 2, "looks": (2, 4)})
    assert answer.describe_intervals(Cells(results_of(*records, manifest=plan))).replace(
        "\N{NO-BREAK SPACE}", " ") == ("decisions hold 95 %, other intervals a little less, as "
                                       "decisions choose how much is measured")
    assert answer.describe_intervals(cells_of(make("P1"))) == (
        "one good repetition a cell gives no intervals")
    assert answer.describe_intervals(cells_of(failed("P1", 1))) == ""


def test_intervals_of_the_least_and_largest_cost_hold_together() -> None:
    """The data choose both scenarios of five. Plain intervals would hold in 80 % of such runs."""
    generator, right, runs = np.random.default_rng(20), 0, 120
    for _ in range(runs):
        cells = cells_of(*[
            make(policy, block, scenario=scenario, udp=factor * 5.8e6 + generator.normal(0, 2e4))
            for policy, factor in (("P1", 1.0), ("P12", 0.9))
            for scenario in ("N1", "N2", "N3", "R1", "R2") for block in range(1, 7)])
        cost = next(line for line in describe(cells) if line.startswith("P12"))
        found = re.search(r"UDP goodput (\S+) ± (\S+) % less in .* to (\S+) ± (\S+)", cost)
        assert found, cost
        least, first, most, last = map(float, found.groups())
        right += abs(least - 10) <= first and abs(most - 10) <= last
    assert right >= 0.89 * runs


def test_one_sentence_names_all_settings_with_a_reason() -> None:
    """A policy that fails everywhere is named once; others are named with their scenarios."""
    records = [make(policy, number, scenario=scenario) for policy in ("P1", "P6")
               for scenario in ("N2", "R1") for number in (1, 2)]
    records += [failed("P8", number, scenario=scenario) for scenario in ("N2", "R1")
                for number in (1, 2)]
    records += [failed("P9", 1, scenario="N2"), failed("P9", 2, scenario="N2"),
                make("P9", 1, scenario="R1"), make("P9", 2, scenario="R1")]
    [line] = [line for line in describe(cells_of(*records)) if "failed 2 of 2" in line]
    assert line.startswith("P8 (")
    assert ") in both scenarios, P9 (" in line and " in N2 (" in line.partition("P9")[2]


def test_describe_answer_where_the_baseline_failed() -> None:
    """A baseline without good repetitions gives no differences, and the answer says where."""
    lines = describe(cells_of(failed("P1", 1), failed("P1", 2), make("P6", 1), make("P6", 2)))
    assert ("No differences in N2 (mobile node to its home agent): the baseline P1 has no good "
            "repetition there.") in lines


def test_describe_answer_of_zero_baseline_is_a_difference() -> None:
    """A cost relative to 0 has no ratio and is stated in the metric's unit."""
    records = [with_time(policy, block, seconds) for block in (1, 2, 3, 4)
               for policy, seconds in (("P1", 0.0), ("P12", 0.02 + block / 1e5))]
    cost = next(line for line in describe(cells_of(*records)) if line.startswith("P12"))
    assert re.search(r"authentication time 20\.\d+ ± 0\.\d+ ms more", cost)


def test_decisive_repetitions_of_few_is_no_estimate() -> None:
    """Three repetitions are too few for an estimate; twelve equal ones leave nothing open."""
    few = cells_of(*[make(policy, block, tcp=4e6 + 1e5 * ((block * 7) % 5))
                     for policy in ("P1", "P6") for block in (1, 2, 3)])
    open_ = decide_differences(few)
    found = answer.decisive_repetitions(few, open_)
    if any(decision.outcome == "undecided" for decision in open_):
        assert found is not None and found.repetitions == 5 and found.count == 0
    equal = cells_of(*[make(policy, block) for policy in ("P1", "P6") for block in range(1, 13)])
    assert answer.decisive_repetitions(equal, decide_differences(equal)) is None


def test_make_short_table_fits_one_screen_with_names() -> None:
    """All twelve policies in four scenarios take at most one screen, each with its name."""
    cells = cells_of(*paper_run(("N1", "N2", "R1", "R2"), repetitions=2))
    text = to_plain_text(answer.make_short_table(cells), SCREEN_WIDTH)
    lines = text.splitlines()
    assert len(lines) <= SCREEN_LINES
    assert max(map(len, lines)) <= SCREEN_WIDTH
    for policy in ("P1", "P12"):
        assert re.search(rf"^{policy} .*{'No security' if policy == 'P1' else '8021x'}", text, re.M)


def test_print_run_table_short_and_whole(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The end of a run is the answer and one screen; the whole table has every scenario."""
    folder = write_all(paper_run(("N1", "N2", "R1", "R2"), repetitions=2), tmp_path)
    report.print_run_table(folder, is_short=True, command="./qop run --scenarios N1,N2,R1,R2")
    short = capsys.readouterr().out
    assert short.startswith("Measured: 12 policies x 4 scenarios; ")
    assert "by the weights of 2007" in short and "./qop run today" in short
    assert "--scenarios N1,N2,R1,R2 --repetitions 5" in short
    # Lines with a command stay whole, to be copied.
    assert max(len(line) for line in short.splitlines() if "./qop" not in line) <= SCREEN_WIDTH
    assert len(short.splitlines()) <= SCREEN_LINES + 20
    assert "Scenario N1" not in short and "--table run" in short
    report.print_run_table(folder)
    assert "Scenario N1" in capsys.readouterr().out


def test_repeat_command_has_given_options_only() -> None:
    """The command that goes on has what was given, without what it replaces."""
    command = click.Command("run", params=options.run_parameters(STUDY))
    context = command.make_context("run", [
        "qop2007", "--scenarios", "N2", "--fresh", "--repetitions", "3", "--set", "a=b c"])
    assert options.repeat_command(context, ("fresh", "repetitions")) == (
        "./qop run qop2007 --scenarios N2 --set 'a=b c'")


@pytest.mark.parametrize("typed", [["campus"], ["qop2007", "--profile", "campus"]])
def test_repeat_command_names_a_profile_of_one_study_alone(typed: list[str]) -> None:
    """It is what the pages tell people to type."""
    context = run.command.make_context("run", [*typed, "--repetitions", "3"])
    assert options.repeat_command(context, ("repetitions",)) == "./qop run campus"


def test_repeat_command_keeps_folders_of_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Option --study-path is read before the command line is parsed."""
    option = click.Option(["--study-path"], multiple=True, expose_value=False)
    command = click.Command("run", params=[*options.run_parameters(STUDY), option])
    monkeypatch.setenv("QOP_STUDY_PATH", "mine")
    context = command.make_context("run", ["qop2007", "--study-path", "mine"])
    assert options.repeat_command(context, ()) == "./qop run qop2007 --study-path mine"
