"""What a reader must know beside a table: definitions, circumstances, and what is amiss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from analysis.flags import flagged_line
from analysis.frame import Frame, Results, components
from analysis.names import component_label
from analysis.one_clock import caveat
from analysis.overhead import Baseline

#: How far the phases of a handoff may be from the measured whole before it is said.
GAP_S = 0.005

_COMPONENTS = {
    "mip_registration": "MIP is Mobile IP registration, from the first solicitation or request to "
                        "the accepted reply (discovery and regist. are its parts)",
    "eap": "EAP is 802.1X or, without it, the 4-way handshake",
    "ike": "IKE is both of its phases"}
_PHASES = ("Scan, 802.11 (authentication and association) and the time to the first answered "
           "packet come beside T_A, all of the stay at home.")
_HANDOFF = ("Handoff is the time from leaving the home network to the first answered packet in the "
            "visited one; --handoff shows its phases.")
_WATERFALL = ("Handoff: from the order to leave the home network to the first answered packet in "
              "the visited one. A phase lasts from the end of the one before it to its own last "
              "packet or event, so they tile the handoff; what a program needs to begin counts "
              "to what it begins.")


@dataclass(frozen=True)
class Notes:
    """Notes that belong under a table, and warnings that belong in front of it."""

    under_table: tuple[str, ...]
    under_handoff: tuple[str, ...]
    about_baseline: tuple[str, ...]
    about_data: tuple[str, ...]


def notes(results: Results, baseline: Baseline, counts: Iterable[tuple[int, int]]) -> Notes:
    """All notes of a run; `counts` are good and planned repetitions of its cells."""
    good = results.good
    intervals, circumstances = _intervals(set(counts)), _circumstances(results.frame)
    # What a reader must not miss comes first.
    clock = [said for said in (caveat(results.clock),) if said]
    said = [*clock, intervals, *_authentication(good), _throughput(good)]
    if baseline.policy:
        said.append(f"Overhead C_C is the goodput under {baseline.policy} minus that under the "
                    "policy in the same block (repetition), averaged; \N{DEGREE SIGN} marks an "
                    "interval that holds 0: no overhead shown.")
    return Notes((*said, circumstances),
                 (*clock, intervals, _WATERFALL, *_agreement(good), circumstances),
                 tuple(_about_baseline(results.frame, good, baseline)),
                 (*(line for line in (results.left_out, flagged_line(results)) if line),
                  *_mixtures(results.frame, good), *_gaps(good)))


def _about_baseline(frame: Frame, good: Frame, baseline: Baseline) -> Iterator[str]:
    if baseline.note:
        yield baseline.note
    if baseline.policy:
        there = set(good[good["policy"] == baseline.policy]["scenario"])
        for scenario in sorted(set(frame["scenario"]) - there):
            yield (f"No overhead in {scenario}: the baseline {baseline.policy} has no good "
                   "repetition there.")


def _intervals(counts: set[tuple[int, int]]) -> str:
    text = "mean \N{PLUS-MINUS SIGN} half of the 95 % interval (Student's t) of n good repetitions"
    totals = {total for _, total in counts}
    if totals == {1}:
        return "One repetition a cell: values without interval; ask for more with --repetitions."
    if all(good == total for good, total in counts) and len(totals) == 1:
        said = f"Each value: {text}, n = {min(totals)} in every cell."
    else:
        said = f"Each value: {text}; column n gives good of planned."
    # Student's factor is 12.7 for two values, 4.3 for three and 2.8 for five.
    return said + " Two make wide intervals: take five or more." if max(totals) == 2 else said


def _authentication(good: Frame) -> Iterator[str]:
    """What T_A adds up, as the records say, and what is beside it."""
    there = {name.rpartition("_")[0] for name in components(good)}
    said = [text for name, text in _COMPONENTS.items() if name in there]
    if said:
        yield f"{'; '.join(said)}; each from its first to its last packet (packets in parentheses)."
    yield from _sums(good)
    yield _PHASES
    if good["handoff_s"].notna().any():
        yield _HANDOFF


def _sums(good: Frame) -> Iterator[str]:
    """A line for each group of scenarios with the same sums: which policies have which."""
    order = components(good)
    places: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for scenario, part in good.groupby("scenario", sort=False):
        sums: dict[str, list[str]] = {}
        for (policy, text), _ in part.groupby(["policy", "authentication_sum"], sort=False):
            if text:
                sums.setdefault(_in_words(str(text), order), []).append(str(policy))
        key = tuple((text, ", ".join(policies)) for text, policies in sums.items())
        places.setdefault(key, []).append(str(scenario))
    for key, scenarios in places.items():
        if key:
            listed = "; ".join(f"{text} ({policies})" for text, policies in key)
            yield f"T_A in {', '.join(scenarios)} (Table 4 of the 2007 paper): {listed}."


def _in_words(sum_: str, order: Sequence[str]) -> str:
    """The components of a sum, in the order of the table's columns; what no record has, last."""
    names = sum_.split("+")
    ordered = [name for name in order if name in names]
    return " + ".join(component_label(name) for name in
                      [*ordered, *(name for name in names if name not in order)])


def _throughput(good: Frame) -> str:
    sizes = [f"{name.upper()} {size(good[f'{name}_bytes'].median())}" for name in ("tcp", "udp")
             if good[f"{name}_bytes"].notna().any()]
    return f"Throughput is goodput at the receiver; {' and '.join(sizes)} received a stream." \
        if sizes else "No throughput was measured."


def size(count: float) -> str:
    """A number of bytes for people, in powers of ten."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * factor:  # what three digits show as 1 of this unit
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def _circumstances(frame: Frame) -> str:
    medium = _values(frame, "medium") or "none given (as fast as the emulator)"
    return (f"Medium: {medium}. Clock: {_values(frame, 'clock') or 'not recorded'}. "
            f"Machine: {_values(frame, 'machine') or 'not recorded'}. "
            f"Builder: {_values(frame, 'builder') or 'not recorded'}.")


def _values(frame: Frame, column: str) -> str:
    return ", ".join(sorted({str(value) for value in frame[column].unique()} - {""}))


def _mixtures(frame: Frame, good: Frame) -> Iterator[str]:
    """Warnings where one mean would mix what is not the same."""
    versions = good.groupby("policy")["policy_sha256"].nunique()
    if changed := [str(policy) for policy in versions.index[versions > 1]]:
        yield (f"{', '.join(changed)}: records of different versions of the policy are "
               "averaged; keep each version in a folder of its own.")
    for column in ("medium", "machine", "builder"):
        if len(good[column].unique()) > 1:
            yield (f"Records of different {column} ({_values(good, column)}) are averaged; keep "
                   "each in a folder of its own.")
    sums = good.groupby(["policy", "scenario"], sort=False)["authentication_sum"].nunique()
    for policy, scenario in sums.index[sums > 1]:
        yield (f"{policy} in {scenario}: authentication times of different sums are averaged; "
               "measure the cell again.")
    if faults := _values(frame, "fault"):
        yield f"Negative control: the fault '{faults}' was put in, so failures are meant."


def _gaps(good: Frame) -> Iterator[str]:
    """Warnings where the phases of a handoff do not add up to what was measured as a whole."""
    gap = good["handoff_sum_s"] - good["handoff_s"]
    for (policy, scenario), part in good[gap.abs() > GAP_S].groupby(["policy", "scenario"],
                                                                   sort=False):
        worst = gap[part.index].abs().idxmax()
        yield (f"{policy} in {scenario}: the phases of {len(part)} handoff"
               f"{'s' if len(part) > 1 else ''} do not add up to the measured total within "
               f"{GAP_S * 1e3:g} ms; the worst, of repetition {good['repetition'][worst]}, by "
               f"{gap[worst] * 1e3:+.1f} ms.")


def _agreement(good: Frame) -> Iterator[str]:
    worst = (good["handoff_sum_s"] - good["handoff_s"]).abs().max()
    if worst <= GAP_S:
        yield ("Total is the time between the two ends, whatever the phases are; these add up to "
               f"it within {max(worst * 1e3, 0.1):.1f} ms in every repetition.")
