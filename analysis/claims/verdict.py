"""Verdicts on claims, and the table of all verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.blocks import Observations
from analysis.claims.finding import Asks, Finding, Word, answer_questions
from analysis.table import Column, Entry, Table

_SHOWN = 6
_PRINTED = "printed values have no intervals"
_WORDS = ("Confirmed: every 95 % interval lies where the claim says. Refuted: an interval lies "
          "elsewhere, or, where more is claimed, within what does not matter; one as wide as "
          "Bonferroni asks for the number of questions. Undecided: the intervals do not tell.")


@dataclass(frozen=True)
class Claim:
    """A conclusion of a publication, and the place where it is stated.

    `rests_on` names what a verdict on it depends on here, if known: arithmetic, configuration,
    measurements.
    """

    id: str
    says: str
    where: str
    rests_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    `figure` is the answer that decided the verdict (or leaves it open), with its interval.
    `evidence` has all answers in words. `cells` and `records` are the sources of the figure. `why`
    is the reason, if known, why a claim does not hold here, or what is missing for a decision.
    `rests_on` names what the verdict depends on. `otherwise` has the verdicts under other readings,
    a line each.
    """

    id: str
    says: str
    where: str
    verdict: Word
    figure: str
    evidence: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    records: tuple[str, ...] = ()
    why: str = ""
    rests_on: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()


def judge_claim(claim: Claim, questions: Sequence[Asks], observations: Observations,
                reason: str = "") -> Verdict:
    """Return the verdict on a claim from the answers to its questions.

    Missing data raise no error. `reason` says why the claim may not hold here, as far as known.
    """
    findings, missing = answer_questions(observations, questions)
    return settle_claim(claim, findings, missing, reason)


def settle_claim(claim: Claim, findings: Sequence[Finding], missing: Sequence[str],
                 reason: str) -> Verdict:
    """Return the verdict on a claim from its findings.

    The claim is refuted if any answer refutes it. It is confirmed if all answers confirm it and
    none is missing. Otherwise it is undecided.
    """
    words = {finding.word for finding in findings}
    evidence = (*(f"{finding.text}: {finding.word}" for finding in findings),
                *(f"{label}: not measured" for label in missing))
    if "refuted" in words:
        word: Word = "refuted"
        decisive = max((finding for finding in findings if finding.word == "refuted"),
                       key=lambda finding: finding.distance)
    elif words == {"confirmed"} and not missing:
        word, decisive = "confirmed", min(findings, key=lambda finding: finding.distance)
    elif "undecided" in words:
        word = "undecided"
        decisive = min((finding for finding in findings if finding.word == "undecided"),
                       key=lambda finding: (finding.agrees, finding.distance))
    else:
        return Verdict(claim.id, claim.says, claim.where, "undecided", "not measured", evidence,
                       why=_describe_missing(findings, missing), rests_on=claim.rests_on)
    why = {"refuted": reason, "undecided": _describe_missing(findings, missing)}.get(word, "")
    return Verdict(claim.id, claim.says, claim.where, word, decisive.text, evidence,
                   decisive.cells, decisive.records, why, claim.rests_on)


def _describe_missing(findings: Sequence[Finding], missing: Sequence[str]) -> str:
    """Return a description of what is needed for a decision."""
    parts = []
    if missing:
        parts.append(f"not measured: {'; '.join(missing[:3])}"
                     + (f" and {len(missing) - 3} more" if len(missing) > 3 else ""))
    bare = [finding for finding in findings if finding.estimate.low is None]
    if bare and all(finding.estimate.n == 0 for finding in bare):
        agree = sum(finding.agrees for finding in bare)
        parts.append(f"{_PRINTED}; {agree} of {len(bare)} of them agree with the claim")
    elif bare:
        parts.append("fewer than two blocks in common, or a divisor that may be 0")
    open_ = [finding for finding in findings
             if finding.word == "undecided" and finding.estimate.low is not None]
    if open_:
        parts.append(f"{len(open_)} of {len(findings)} intervals cross a limit of the claim; "
                     f"{_describe_needed(open_)}")
    return "; ".join(parts)


def _describe_needed(open_: Sequence[Finding]) -> str:
    """Return a sentence on how many more repetitions are needed.

    One answer is enough to refute a claim. All answers are needed to confirm it.
    """
    against = [finding.further for finding in open_ if not finding.agrees]
    counts = against or [finding.further for finding in open_]
    known = [count for count in counts if count is not None]
    if not known or (not against and len(known) < len(counts)):
        return "no number of repetitions within reason would decide, as it looks"
    further = min(known) if against else max(known)
    return f"about {further} more repetition{'s' if further > 1 else ''} may decide"


def _list_cells(names: Sequence[str]) -> str:
    """Return the names of the cells behind a figure, six at most."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more cells" if more > 0 else "")


def _make_row(verdict: Verdict) -> tuple[Entry, ...]:
    behind = verdict.records if verdict.verdict == "refuted" else ()
    return (Entry(verdict.id), Entry(verdict.says), Entry(verdict.where),
            Entry(verdict.verdict, records=behind),
            Entry(verdict.figure, records=verdict.records, note=_list_cells(verdict.cells)),
            Entry(verdict.why))


def make_claims_table(verdicts: Sequence[Verdict], title: str = "Claims", says: str = "Claim says",
                      notes: Sequence[str] = ()) -> Table:
    """Return the table of verdicts, a row per claim."""
    words = ("confirmed", "refuted", "undecided")
    counts = [f"{sum(verdict.verdict == word for verdict in verdicts)} {word}" for word in words]
    # Leave out columns that are empty for all claims.
    further = [(column, texts) for column, texts in (
        (Column("rests_on", "Rests on"), [", ".join(each.rests_on) for each in verdicts]),
        (Column("otherwise", "Read otherwise"), ["; ".join(each.otherwise) for each in verdicts]))
        if any(texts)]
    rows = tuple((*_make_row(verdict), *(Entry(texts[at]) for _, texts in further))
                 for at, verdict in enumerate(verdicts))
    return Table("claims", title,
                 (Column("claim", "Claim"), Column("says", says),
                  Column("where", "Where"), Column("verdict", "Verdict"),
                  Column("figure", "Figure that decides"), Column("why", "Why"),
                  *(column for column, _ in further)),
                 rows, f"{', '.join(counts)}. Intervals hold 95 %.",
                 (_WORDS, *notes))
