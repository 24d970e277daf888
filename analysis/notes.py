"""What a reader must know beside a table: definitions, circumstances, and what is amiss."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.frame import Frame, Results
from analysis.overhead import Baseline

_NEGOTIATIONS = ("Authentication time T_A is 802.1X + 4-way handshake + IKE, each from its first "
                 "to its last packet; scan, 802.11 (authentication and association) and the time "
                 "to the first answered packet come beside it. Packet counts in parentheses.")


def notes(results: Results, baseline: Baseline,
          counts: Iterable[tuple[int, int]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Notes that belong under the table, and warnings that belong in front of them."""
    good = results.good
    said = [_intervals(set(counts)), _NEGOTIATIONS, _throughput(good)]
    if baseline.policy:
        said.append(f"Overhead C_C is the goodput under {baseline.policy} minus that under the "
                    "policy in the same block (repetition), averaged; \N{DEGREE SIGN} marks an "
                    "interval that holds 0: no overhead shown.")
    said.append(_circumstances(results.frame))
    warned = [baseline.note] if baseline.note else []
    if baseline.policy:
        lacking = set(results.frame["scenario"]) - set(
            good[good["policy"] == baseline.policy]["scenario"])
        warned += [f"No overhead in {scenario}: the baseline {baseline.policy} has no good "
                   "repetition there." for scenario in sorted(lacking)]
    return tuple(said), tuple(warned + _mixtures(results.frame, good))


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
            f"Machine: {_values(frame, 'machine') or 'not recorded'}.")


def _values(frame: Frame, column: str) -> str:
    return ", ".join(sorted({str(value) for value in frame[column].unique()} - {""}))


def _mixtures(frame: Frame, good: Frame) -> list[str]:
    """Warnings where one mean would mix what is not the same."""
    found = []
    versions = good.groupby("policy")["policy_sha256"].nunique()
    if changed := [str(policy) for policy in versions.index[versions > 1]]:
        found.append(f"{', '.join(changed)}: records of different versions of the policy are "
                     "averaged; keep each version in a folder of its own.")
    found += [f"Records of different {column} ({_values(good, column)}) are averaged; keep each "
              "in a folder of its own." for column in ("medium", "clock", "machine")
              if len(good[column].unique()) > 1]
    if faults := _values(frame, "fault"):
        found.append(f"Negative control: the fault '{faults}' was put in, so failures are meant.")
    return found
