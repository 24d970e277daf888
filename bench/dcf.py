"""Check the emulated 802.11 contention (DCF) against Bianchi's model and the simulator ns-3.

`run_dcf_program` runs the C code of the emulated air as a program of this machine. Its results are
compared with Bianchi's model, and with recorded results of ns-3. For two stations there is an exact
solution.

The model is Bianchi's (IEEE JSAC 18(3), 2000) with a retry limit. For n stations, contention
windows of W_i slots and R retransmissions, its two equations are:

- p = 1 - (1 - tau)^(n - 1), the probability that a frame collides (`_fixed_point`)
- tau = A / (A + B), the probability to send in a slot (`_sending_probabilities`). A is the mean
  number of attempts of a frame, the sum of p^i for i = 0 to R. B is the mean number of slots that
  it waits, the sum of p^i (W_i - 1) / 2.

As in 802.11, stations do not count down while the channel is busy. A slot in which another station
sends is not counted. So the station that has just sent is alone in the first slot after its frame.
Tinnirello, Bianchi and Xiao (IEEE TVT 59(3), 2010) call this slot anomalous. It changes the
equations in three places:

- After a success, a station that draws 0 slots sends at once and cannot collide. So W_0 has no draw
  of 0 in B.
- After a collision, a station first waits for its ACKTimeout, in whose slots others may start to
  send. These slots are added to B.
- If another station's frame ends the ACKTimeout, a station that draws 0 slots sends right after
  that frame and cannot collide. Such an attempt is not part of A.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from topologies import queueing_disciplines
from topologies.loader import load_medium
from topologies.medium_model import Medium
from topologies.phy_rates import HE, VHT

# --- Bianchi's model, ns-3's answers, and the medium as a program ---

#: Bytes of IP, UDP and LLC headers around a datagram's payload.
HEADER_BYTES = 36
HERE = Path(__file__).parent
#: One cell as an ns-3 program, and the results of ns-3.44, a row for each run. In a row, `load` is
#: a share of the rate of saturated stations (0: stations are saturated). `ack_rate_bps` is the rate
#: of ns-3's acknowledgements (11 Mbit/s in 802.11b, whatever is configured; 2 Mbit/s with an access
#: point). See `to_ns3_medium`.
NS3_SOURCE, NS3_ANSWERS = HERE / "ns3_cell.cc", HERE / "ns3_cell.json"
#: Answers of ns-3.44 for 802.11n, ac and ax with aggregation.
NS3_AGGREGATES = HERE / "ns3_aggregates.json"
#: Preamble of ns-3 besides HE-LTFs, in us: without VHT-SIG-B, and with HE-LTFs of 8 us. HE has tail
#: bits there, and short guard intervals are not filled up.
_NS3_PREAMBLE_US = {VHT: -4.0, HE: 0.8}
_NS3_TAIL_BITS = 6
_GUEST = Path(__file__).parents[1] / "guest"
SOURCE, CORE = _GUEST / "dcf" / "trial.c", "sources/net/sched/dcf_core.h"
#: Patch of the emulated air that makes it like ns-3, as a pair of old and new C code. It is about a
#: frame that waits for DIFS on an idle channel when another station starts to send. In qop it draws
#: a backoff (IEEE 802.11-2016, 10.3.4.2: "remains idle for a period of a DIFS [...]. Otherwise the
#: random backoff procedure"). In ns-3 it draws none and is sent right after that station's frame,
#: together with all frames in the same state.
OVERTAKEN = (("\t\tstation->head = 0;\n\t\tstation->count = dcf_draw(channel, station->cw);\n"
              "\t\treturn;\n"), "\t\tstation->head = 0;\n\t\treturn;\n")
_BISECTIONS = 60
_CELL = ("medium", "payload_bytes", "stations", "load")
_ANSWERS = ("delivered_per_s", "collision_share", "jain_1s", "delay_mean_us", "delay_p99_us")
#: Powers by sender and listener, in the units of the trial's `senses`; a missing entry is 0.
Powers = Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class Saturation:
    """Throughput and collisions of stations that always have a frame to send.

    Throughput is in delivered frames per second. `collision_share` is the fraction of transmissions
    that collide.
    """

    delivered_per_s: float
    collision_share: float


def make_frame_settings(medium: Medium, payload_bytes: int) -> dict[str, int]:
    """Return the settings of the air for the C program, with the airtime of a frame in ns."""
    return {**queueing_disciplines.dcf_settings(medium),
            "frame_ns": round(medium.latency_us(payload_bytes + HEADER_BYTES) * 1e3)}


def make_transmission_settings(medium: Medium, payload_bytes: int) -> dict[str, int]:
    """Return the channel's settings for stations that always send full A-MPDUs.

    The analytic models treat an A-MPDU as one long frame with a block acknowledgement. Without
    aggregation, the result is the settings for single frames.
    """
    settings = make_frame_settings(medium, payload_bytes)
    if medium.frames_together(payload_bytes + HEADER_BYTES) < 2:
        return settings
    return {**settings, "after_frame_ns": settings["after_aggregate_ns"],
            "frame_ns": round(medium.full_ppdu_us(payload_bytes + HEADER_BYTES) * 1e3)}


def make_aggregation_settings(medium: Medium, payload_bytes: int) -> dict[str, float]:
    """Return the settings of the air with frame aggregation, and the bits that each frame adds."""
    return {**make_frame_settings(medium, payload_bytes),
            "frame_bits": 8 * medium.subframe_bytes(payload_bytes + HEADER_BYTES),
            **queueing_disciplines.rate_settings(medium, medium.rate_bps)}


def solve_bianchi(medium: Medium, payload_bytes: int, stations: int) -> Saturation:
    """Return the throughput of saturated stations by Bianchi's model.

    Saturated stations always have a frame to send. With aggregation, they always have a full
    aggregate.
    """
    own = make_transmission_settings(medium, payload_bytes)
    collides = _fixed_point(own, stations)
    sends, alone_later = _sending_probabilities(own, collides)
    some = 1 - (1 - sends)**stations
    alone = stations * sends * (1 - sends)**(stations - 1)
    # A station that drew 0 slots after its frame sends the next one at once, without a collision.
    again = 1 / (own["cw_min"] + 1)
    frames = (alone + stations * alone_later) / (1 - again)
    busy_ns = own["frame_ns"] + own["difs_ns"]
    # Mean time from one ordinary slot to the next: (1 - some) idle slots, the delivered frames, the
    # collisions, and after each transmission the slot in which the other stations count down.
    mean_ns = ((1 - some) * own["slot_ns"] + frames * (busy_ns + own["after_frame_ns"])
               + (some - alone) * (busy_ns + own["after_garbled_ns"]) + some * own["slot_ns"])
    # Transmissions in an ordinary slot, and those right after a frame, which cannot collide.
    sent = stations * sends + frames - alone
    together = medium.frames_together(payload_bytes + HEADER_BYTES)
    return Saturation(together * frames / mean_ns * 1e9, stations * sends * collides / sent)


def _fixed_point(settings: Mapping[str, int], stations: int) -> float:
    """Return the collision probability p at which both equations of Bianchi's model hold."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if 1 - (1 - _sending_probabilities(settings, middle)[0])**(stations - 1) > middle:
            low = middle
        else:
            high = middle
    return low


def _sending_probabilities(settings: Mapping[str, int], collides: float) -> tuple[float, float]:
    """Return a station's probabilities to send in a slot, given its collision probability p.

    The first is tau, the probability to send in an ordinary slot. The second is the probability to
    send right after another station's frame, where no collision is possible. That happens if the
    frame has ended the station's ACKTimeout (IEEE 802.11-2007, 9.2.8) and the station has drawn 0
    slots.

    In the code, `attempts` is A and `waits` is B. `reached` is the probability that a frame gets to
    the next attempt, p^i in Bianchi's model. `ended` is the probability that another station's
    frame ends the ACKTimeout.
    """
    silent = 1 - collides
    # The first slot belongs to the collision; other stations may start in the other slots.
    timeout = [silent**slot for slot in range(1, settings["timeout_slots"])]
    ended = 1 - silent ** len(timeout)
    attempts, alone = 1.0, 0.0
    # For a window after a success, a draw of 0 slots is the separate case above.
    waits, reached = (settings["cw_min"] + 1) / 2 - 1, 1.0
    for attempt in range(1, settings["retries"] + 1):
        window = min((settings["cw_min"] + 1) << attempt, settings["cw_max"] + 1)
        reached *= collides
        # Slots before the attempt: the mean draw; for a draw of 0, the slot of the frame that ended
        # the ACKTimeout; and the other slots of the ACKTimeout. Without an ACKTimeout (-1), the
        # station already counts down in the slot that belongs to the collision.
        waits += reached * ((window - 1) / 2 + ended / window
                            + (sum(timeout) if settings["timeout_slots"] else -1))
        alone += reached * ended / window
        reached *= 1 - ended / window
        attempts += reached
    return attempts / (attempts + waits), alone / (attempts + waits)


def read_ns3_runs(hops: int = 1) -> list[list[dict[str, Any]]]:
    """Return the recorded results of the simulator ns-3, by setup, one entry for each seed.

    `hops` 1 is for stations that send to one receiver, 2 for two hops through an access point.
    """
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in json.loads(NS3_ANSWERS.read_text()):
        if row.get("hops", 1) == hops:
            cells.setdefault(tuple(row[name] for name in _CELL), []).append(row)
    return list(cells.values())


def read_ns3_answers() -> list[dict[str, Any]]:
    """Return the mean results of ns-3 for stations that send to one receiver.

    `runs` counts the seeds.
    """
    return [{**rows[0], "runs": len(rows), **{
        name: sum(row[name] for row in rows) / len(rows) for name in _ANSWERS if name in rows[0]}}
        for rows in read_ns3_runs()]


def read_ns3_aggregates() -> list[dict[str, Any]]:
    """Return ns-3's answers for saturated stations that send aggregates."""
    rows: list[dict[str, Any]] = json.loads(NS3_AGGREGATES.read_text())
    return rows


def make_ns3_aggregation_settings(row: Mapping[str, Any]) -> tuple[dict[str, float], float]:
    """Return a cell's settings with ns-3's differences, and the duration in us of an aggregate."""
    medium = load_medium(row["medium"])
    assert medium.phy is not None
    form, streams = medium.phy.format, medium.phy.streams
    added_us = _NS3_PREAMBLE_US.get(form, 0.0) * (streams if form == HE else 1)
    # The physical layer would refuse these values.
    theirs = replace(
        medium, phy=None, preamble_us=medium.preamble_us + added_us, duration_step_us=0.0,
        wait_difs=True,
        service_bits=medium.service_bits + (_NS3_TAIL_BITS if form == HE else 0))
    answered_ns = round((medium.sifs_us + row["ack_us"]) * 1e3)
    settings = {**make_aggregation_settings(theirs, row["payload_bytes"]),
                "timeout_slots": medium.timeout_slots, "after_aggregate_ns": answered_ns}
    return settings, theirs.full_ppdu_us(row["payload_bytes"] + HEADER_BYTES)


def compile_dcf_program(folder: Path, *, like_ns3: bool = False) -> Path:
    """Compile the C code of the emulated air as a program of this machine.

    A C compiler is needed. With `like_ns3`, the one difference to ns-3 is patched in (`OVERTAKEN`).
    """
    source = SOURCE
    if like_ns3:
        source, core = (folder / "as-ns3" / path for path in ("dcf/trial.c", CORE))
        for path in (source, core):
            path.parent.mkdir(parents=True)
        shutil.copy(SOURCE, source)
        core.write_text(_GUEST.joinpath(CORE).read_text().replace(*OVERTAKEN))
    program = source.parent / "trial" if like_ns3 else folder / "trial"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-o",
                    str(program), str(source), "-lm"], check=True)
    return program


def run_dcf_program(program: Path, settings: Mapping[str, float],
                    powers: Powers = MappingProxyType({})) -> dict[str, Any]:
    """Run the program of the emulated air with some stations, and return its results.

    Args:
        program: The compiled program.
        settings: Settings by the names in the program's source.
        powers: Received power by sender and listener.
    """
    lines = [f"{name} {value}" for name, value in settings.items()]
    lines += [f"power {sender} {listener} {power}" for (sender, listener), power in powers.items()]
    output = subprocess.run([str(program)], text=True, capture_output=True, check=True,
                            input="\n".join(lines) + "\n")
    answer: dict[str, Any] = json.loads(output.stdout)
    return answer


def to_ns3_medium(row: Mapping[str, Any]) -> Medium:
    """Return the medium (802.11 timing) with which ns-3 was run, including ns-3's differences.

    There, a frame waits for DIFS on an idle channel, too, and the limit of 7 counts
    retransmissions. Frames at 2 Mbit/s always have the long preamble (`ack_preamble_us`).
    """
    medium = load_medium(row["medium"])
    return replace(medium, ack_rate_bps=row["ack_rate_bps"], wait_difs=True, retries=7,
                   ack_preamble_us=row.get("ack_preamble_us", medium.ack_preamble_us))


# --- Exact solution for two saturated stations ---
# Bianchi's model assumes that stations are independent, which is least true for two. Two stations
# have few enough states for a Markov chain of the protocol itself (IEEE 802.11-2007, 9.2), from one
# transmission to the next. The station that succeeded draws a new backoff, and the other keeps its
# remaining slots. After a collision both draw. There is no approximation and no random error.

_CLOSE = 1e-11
_ROUNDS = 100_000
_Floats = npt.NDArray[np.float64]


@dataclass
class _ContentionRound:
    """The outcome of a contention round between two stations, which ends with a transmission.

    `left` are the probabilities of states after a success, by the other station's backoff stage and
    remaining slots. `both` are those after a collision, by both stages. `slots` is the mean number
    of slots that passed, `collides` the probability of a collision.
    """

    left: _Floats
    both: _Floats
    slots: float = 0.0
    collides: float = 0.0


def solve_saturated(medium: Medium, payload_bytes: int) -> Saturation:
    """Return the exact total throughput of two stations that always have a frame to send.

    With aggregation, they always have a full aggregate.
    """
    own = make_transmission_settings(medium, payload_bytes)
    last = own["retries"]
    slots, collides = _solve_chain(tuple(min((own["cw_min"] + 1) << stage, own["cw_max"] + 1)
                                         for stage in range(last + 1)), own["timeout_slots"])
    through = 1 - collides
    # Mean time of a round: DIFS, backoff, frame, and what follows a delivered or a garbled frame.
    # In a collision, two transmissions collide.
    mean_ns = (own["difs_ns"] + own["frame_ns"] + slots * own["slot_ns"]
               + through * own["after_frame_ns"] + collides * own["after_garbled_ns"])
    together = medium.frames_together(payload_bytes + HEADER_BYTES)
    return Saturation(together * through / mean_ns * 1e9,
                      2 * collides / (through + 2 * collides))


@functools.cache
def _solve_chain(windows: tuple[int, ...], timeout_slots: int) -> tuple[float, float]:
    """Return the mean slots of a contention round of two stations, and its collision probability.

    Both are independent of the duration of frames.
    """
    chain = _MarkovChain(windows, timeout_slots)
    now = chain.first_round()
    for _ in range(_ROUNDS):
        after = chain.next_round(now)
        moved = np.abs(after.left - now.left).sum() + np.abs(after.both - now.both).sum()
        now = after
        if moved < _CLOSE:
            return float(now.slots), float(now.collides)
    raise ArithmeticError("two stations: the chain does not settle")


class _MarkovChain:
    """A Markov chain of contention rounds of two stations (see `_ContentionRound`).

    Each round ends with one transmission or a collision.
    """

    def __init__(self, windows: tuple[int, ...], timeout_slots: int) -> None:
        self._first, self._longest = windows[0], max(windows)
        # Both stations wait this long after a collision, so none of the timeout remains.
        self._timeout_slots = timeout_slots
        # Over all pairs of draws, by the stages of the first and the second station: the share of
        # draws in which the second has a given number of slots left, the share of equal draws, and
        # the mean of the earlier draw.
        one, other = np.array(windows)[:, None], np.array(windows)[None, :]
        pairs, less = one * other, np.minimum(one, other)
        apart = np.arange(1, self._longest)
        self._apart = np.clip(other[..., None] - apart, 0, one[..., None]) / pairs[..., None]
        self._equal = less / pairs
        earlier = np.arange(self._longest)
        self._earlier = (np.where(earlier < less[..., None], earlier * (
            (one + other - 1)[..., None] - 2 * earlier), 0)).sum(axis=2) / pairs

    def first_round(self) -> _ContentionRound:
        """Return the state before the first round: both stations draw a random backoff."""
        stages = len(self._equal)
        both = np.zeros((stages, stages))
        both[0, 0] = 1.0
        return _ContentionRound(np.zeros((stages, self._longest)), both)

    def next_round(self, before: _ContentionRound) -> _ContentionRound:
        """Return the outcome of a contention round, from the outcome of the round before."""
        after = _ContentionRound(np.zeros_like(before.left), np.zeros_like(before.both))
        self._one_drew(before.left, after)
        self._both_drew(before.both, after)
        return after

    def _one_drew(self, left: _Floats, after: _ContentionRound) -> None:
        """Add outcomes of rounds in which the station that has just sent draws a new backoff.

        It draws d of the first window's W slots, each with probability 1 / W. The other station has
        s slots left with probability left[stage, s].
        """
        window = self._first
        # d < s: it sends first. The other then has r = s - d slots left, with the probability
        # (left[stage, r] + ... + left[stage, r + W - 1]) / W. If d = s, both send.
        until = np.cumsum(np.pad(left, ((0, 0), (1, window))), axis=1)
        after.left[:, 1:] += (until[:, window + 1:-1] - until[:, 1:-1 - window]) / window
        self._collide_frames(np.pad(until[None, :, window] / window,
                             ((0, len(left) - 1), (0, 0))), after)
        # d > s: the other sends first, and draws next. Then this station has r = d - s slots left,
        # with the probability (slots[0] + ... + slots[W - 1 - r]).
        slots = left.sum(axis=0) / window
        drawn = np.arange(window)
        after.left[0, 1:window] += np.cumsum(slots[:window - 1])[::-1]
        # The slots that have passed: d for d <= s, and s for each of the W - 1 - s greater draws.
        after.slots += (drawn * (slots.sum() - np.cumsum(slots[:window]) + slots[:window])).sum()
        after.slots += (drawn * slots[:window] * (window - 1 - drawn)).sum()

    def _both_drew(self, both: _Floats, after: _ContentionRound) -> None:
        """Add outcomes of rounds in which both stations draw a backoff, after a collision."""
        after.left[:, 1:] += np.einsum("ij,ijk->jk", both + both.T, self._apart)
        self._collide_frames(both * self._equal, after)
        after.slots += (both * self._earlier).sum() + both.sum() * self._timeout_slots

    @staticmethod
    def _collide_frames(both: _Floats, after: _ContentionRound) -> None:
        """Add collisions: both stations go to their next backoff stage.

        After the last stage the frame is dropped.
        """
        after.both += np.roll(both, (1, 1), axis=(0, 1))
        after.collides += both.sum()
