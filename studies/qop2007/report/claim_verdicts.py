"""Decide by measured values which claims of the 2007 paper are confirmed.

A claim is a conclusion of the paper. `claim_questions.py` turns each one into questions about
measured values. `judge_claims` answers them and returns verdicts: confirmed, refuted or undecided.
`refutation_reason` gives reasons for refuted claims. `describe_devices` compares authentication
times on models of the paper's devices with the printed times. The paper is Agarwal and Wang (2007),
on the cost of security policies in wireless LANs. `studies.qop2007.report` lists the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from analysis import claims
from analysis.circumstances import clock_caveat
from analysis.claims import Claim, ClaimQuestion, Finding, Verdict, answer_questions, settle_claim
from analysis.statistics import Looks
from analysis.table import Table
from studies.qop2007 import published
from studies.qop2007.measurements import AUTHENTICATION
from studies.qop2007.report import claim_questions
from studies.qop2007.report.basis import IN_BOTH_NETWORKS, Kind, ReportBasis
from studies.qop2007.report.claim_questions import papers_policies
from studies.qop2007.report.phase_names import component_label

# --- Known reasons why a claim that held in 2007 may fail here ---

_HARDWARE = ("Hardware and daemons of 2007: mobile nodes of 206 and 400 MHz, where public key "
             "operations took seconds that take milliseconds here.")
_UNLIMITED = ("The medium is emulated and the processor not limited to that of a 2007 device: "
              "encryption costs header bytes and their airtime, hardly any time of its own.")
_DETECTION = ("Movement is detected by an event, not by waiting for advertisements, so that "
              "registration with a foreign agent takes milliseconds where the paper has 1.4 s "
              "(--detection advertisement waits, too).")
_SHARE = ("Overhead is a share of the rate here, so its variance over scenarios grows with its "
          "mean; the paper's in N2 is only half of the difference of its throughputs.")

#: Reasons by the claim's number, used where a claim is refuted.
REASONS: Mapping[str, str] = {
    "Q1": f"{_HARDWARE} Without them IKE, with its own public key operations and exchanges, takes "
          "as long as EAP-TLS.",
    "Q2": f"{_HARDWARE} Both negotiations are short here.",
    "Q3": f"{_DETECTION} With 802.1X the sum of Table 4 has the same components in both.",
    "Q4": f"{_HARDWARE} Which of IKE and EAP-TLS is faster depends on key sizes and daemons.",
    "Q5": f"{_HARDWARE} With 802.1X the sum of Table 4 has no registration abroad.",
    "Q6": _HARDWARE,
    "Q7": "The paper does not say which packets it counts. Here EAP-TLS takes 17 with the two "
          "EAPOL-Key frames that deliver WEP keys and 15 without (P6), EAP-MD5 5 from the first "
          "EAP frame to EAP-Success, IKE 9 in main and quick mode.",
    "Q8": "These policies add no byte to a data frame, so a difference to the policy without "
          "security comes from the emulator or from drift within blocks.",
    "Q9": f"{_UNLIMITED} The ratios then follow from header bytes alone.",
    "Q10": _UNLIMITED,
    "Q11": f"{_UNLIMITED} The difference then follows from packet sizes, and from "
           "acknowledgements, which share the air with the data.",
    "Q12": f"{_UNLIMITED} What is left is the share of header bytes, which depends on packet "
           "sizes; the paper does not give its own.",
    "Q13": "The medium: a path that crosses the shared air twice has half of the rate of one that "
           "crosses it once, so the factor is that of the paths measured.",
    "Q14": f"{_UNLIMITED} {_SHARE}",
    "Q15": f"{_UNLIMITED} {_SHARE}",
    "Q16": _HARDWARE,
}
#: Claims on times, for which the share of processor time matters.
_ON_TIME = frozenset(name for name, text in REASONS.items()
                     if _HARDWARE in text or _UNLIMITED in text)


def refutation_reason(claim: str, clock: str, on_devices: str = "") -> str:
    """Return why a claim may be refuted here, such as faster hardware ("": unknown).

    Args:
        claim: id of the claim, such as Q3.
        clock: clock of the run: real, virtual or processor.
        on_devices: text that replaces the reason about hardware, if nodes ran on device models.
    """
    first = clock_caveat(clock) if claim in _ON_TIME else ""
    known = REASONS.get(claim, "")
    if on_devices:
        known = known.replace(_HARDWARE, on_devices)
    return " ".join(part for part in (first, known) if part)


# --- Authentication times on the paper's devices, compared with print by phase ---

#: Authentication times that the paper prints (s), in its abstract and sections 5.1 and 6.
_PRINTED: tuple[tuple[str, Kind, float], ...] = (
    ("P1", "home", 0.11), ("P3", "home", 1.4), ("P3", "roaming", 2.8), ("P8", "roaming", 4.96),
    ("P12", "roaming", 6.28))
_COMPONENTS = ("eap_home", "ike_home", "mip_registration_home", "mip_registration_foreign")


def describe_devices(basis: ReportBasis) -> str:
    """Compare authentication times on device models with the printed ones ("": no devices)."""
    if not basis.devices:
        return ""
    times = "; ".join(_describe_times(basis))
    sentence = f" Seconds here, as printed, and by phase: {times}." if times else ""
    return f"Nodes compute on {', '.join(basis.devices)}, with the daemons of today.{sentence}"


def _describe_times(basis: ReportBasis) -> Iterator[str]:
    for policy, kind, printed_s in _PRINTED:
        places = basis.measured_places(AUTHENTICATION.name, basis.of_kind(kind))
        here_s = basis.mean_value(AUTHENTICATION.name, policy, places)
        if here_s is None:
            continue
        phases = [f"{component_label(name)} {phase_s:.2f}" for name in _COMPONENTS
                  if (phase_s := basis.mean_value(f"component_{name}_s", policy,
                                                  places)) is not None]
        by_phase = f" ({', '.join(phases)})" if phases else ""
        yield f"{policy} {kind} {here_s:.2f}, {printed_s:.2f}{by_phase}"


# --- Verdicts and their table ---

_READ = ("'About' is read as within 20 percent; 'next to no overhead' as within one percent of the "
         "rate without security; ranges in percent as a point wider on both sides.")
QuestionBuilder = Callable[[ReportBasis], Sequence[ClaimQuestion]]
QUESTIONS: Mapping[str, QuestionBuilder] = {
    "Q1": claim_questions.ask_q1, "Q2": claim_questions.ask_q2, "Q3": claim_questions.ask_q3,
    "Q4": claim_questions.ask_q4,
    "Q5": claim_questions.ask_q5,
    "Q6": claim_questions.ask_q6, "Q8": claim_questions.ask_q8, "Q9": claim_questions.ask_q9,
    "Q10": claim_questions.ask_q10,
    "Q11": claim_questions.ask_q11,
    "Q12": claim_questions.ask_q12, "Q13": claim_questions.ask_q13, "Q14": claim_questions.ask_q14,
    "Q15": claim_questions.ask_q15,
    "Q16": claim_questions.ask_q16}
#: Claims on counts, which have no confidence interval.
FINDINGS: Mapping[str, Callable[[ReportBasis], Sequence[Finding]]] = {"Q7": claim_questions.ask_q7}
#: Claims on all policies of the paper. Policies that a run lacks could refute them.
OF_ALL_POLICIES = frozenset({"Q1", "Q3", "Q6", "Q7", "Q11", "Q12", "Q14", "Q15"})

#: Section 5.1 says that roaming takes longer "due to the re-authentication in a foreign network for
#: all policies". Table 4 does not add that up where there is 802.1X.
_NEGOTIATED = "With all that the visited network negotiates"
#: Other readings of a claim: their title, and their questions to the paper's scenarios and to all.
READINGS: Mapping[str,
                  tuple[str, Callable[[ReportBasis, ReportBasis], Sequence[ClaimQuestion]]]] = {
    "Q3": (_NEGOTIATED, lambda basis, _: claim_questions.ask_q3(basis, IN_BOTH_NETWORKS)),
    "Q5": (_NEGOTIATED, lambda basis, _: claim_questions.ask_q5(basis, IN_BOTH_NETWORKS)),
    "Q6": (_NEGOTIATED, lambda basis, _: claim_questions.ask_q6(basis, IN_BOTH_NETWORKS)),
    "Q13": ("With the subnets on channels of their own", claim_questions.on_several_channels)}


def judge_claims(full_basis: ReportBasis) -> list[Verdict]:
    """Judge all claims of the 2007 paper, in order of their numbers.

    Claims are about the paper's own scenarios. Some verdicts also mention other scenarios. A claim
    without data is undecided.

    Args:
        full_basis: the measured or published values of all scenarios.
    """
    basis = select_paper_scenarios(full_basis)
    verdicts, devices = [], describe_devices(basis)
    for claim in published.load_claims():
        if claim.id in FINDINGS:
            findings = list(FINDINGS[claim.id](basis))
            missing: list[str] = []
        else:
            findings, missing = answer_questions(basis.observations, QUESTIONS[claim.id](basis),
                                                 basis.looks)
        if claim.id in OF_ALL_POLICIES:
            missing = [*missing, *_lacking_policies(basis)]
        verdict = settle_claim(claim, findings, missing,
                               refutation_reason(claim.id, basis.clock, devices))
        verdicts.append(replace(verdict,
                                otherwise=tuple(_other_readings(claim, basis, full_basis))))
    return verdicts


def _lacking_policies(basis: ReportBasis) -> list[str]:
    """Return a sentence that names the paper's policies that were not measured, or nothing."""
    there = {policy.id for policy in papers_policies(basis)}
    lacking = [policy.id for policy in published.load_policies() if policy.id not in there]
    return [", ".join(lacking)] if lacking else []


def select_paper_scenarios(basis: ReportBasis) -> ReportBasis:
    """Return the values of the 2007 paper's five scenarios only."""
    paper = published.load_values().scenarios
    return replace(basis, places=tuple(place for place in basis.places if place.id in paper))


def _other_readings(claim: Claim, basis: ReportBasis, full_basis: ReportBasis) -> Iterator[str]:
    """Yield verdicts on other interpretations of a claim as text, if there are data for them."""
    if claim.id not in READINGS or basis.origin != "measured":
        return
    title, ask = READINGS[claim.id]
    findings, missing = answer_questions(basis.observations, ask(basis, full_basis),
                                         basis.looks)
    if claim.id in OF_ALL_POLICIES:
        missing = [*missing, *_lacking_policies(basis)]
    if findings:
        verdict = settle_claim(claim, findings, missing, "")
        yield f"{title}: {verdict.verdict}; {verdict.figure}"


def build_claims_table(verdicts: Sequence[Verdict], looks: Looks | None = None) -> Table:
    """Build the table of verdicts, with a row for each claim.

    Args:
        verdicts: the verdicts in order.
        looks: planned evaluations of a run that stops once its claims are decided, else None.
    """
    return claims.make_claims_table(verdicts, "The paper's conclusions", "The paper says",
                                    (_READ,), looks)


# --- Names for other modules ---

__all__ = ["build_claims_table", "judge_claims"]
