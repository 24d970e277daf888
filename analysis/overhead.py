"""Cryptographic overhead: what a policy takes off the bit rate, by paired differences.

C_C(P) = goodput without security minus goodput under P, in bit/s, in the same scenario and the
same block (equation 3 of the 2007 paper; block = repetition number).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.frame import Frame
from analysis.statistics import Sample, paired_differences

#: `Policy.digest()` of a policy without any layer: the hash of an empty JSON object.
NO_LAYERS_SHA256 = hashlib.sha256(b"{}").hexdigest()
_PAIR = ["policy", "scenario"]


@dataclass(frozen=True)
class Baseline:
    """The policy that others are compared with, if there is one; `note` says what is unusual."""

    policy: str | None
    note: str = ""


def choose_baseline(frame: Frame, asked: str) -> Baseline:
    """The policy asked for; else the only one whose layers are all absent; else none.

    Records name a policy by id and digest, and the digest tells whether it has layers.
    """
    digests = dict(frame.groupby("policy", sort=False)["policy_sha256"].first().items())
    if asked in digests:
        if digests[asked] in {"", NO_LAYERS_SHA256}:
            return Baseline(asked)
        return Baseline(asked, f"The baseline {asked} has security layers of its own, so overhead "
                        "is relative to them.")
    bare = [str(policy) for policy, digest in digests.items() if digest == NO_LAYERS_SHA256]
    if len(bare) == 1:
        return Baseline(bare[0], f"There are no records of {asked}; {bare[0]}, which has no "
                        "layers, is the baseline.")
    return Baseline(None, f"No overhead: there are no records of the baseline {asked}. Measure it "
                    "in the same run.")


def differences(good: Frame, metric: str, baseline: str) -> dict[tuple[str, str], Sample]:
    """Baseline minus policy per block, of every cell whose scenario has the baseline; in bit/s.

    `good` holds good repetitions only. A cell without a block in common has an empty array.
    """
    blocks = {(str(key[0]), str(key[1])): _by_block(part, metric)
              for key, part in good.groupby(_PAIR, sort=False)}
    return {(policy, scenario): paired_differences(blocks[baseline, scenario], values)
            for (policy, scenario), values in blocks.items()
            if (baseline, scenario) in blocks}


def _by_block(part: Frame, metric: str) -> Mapping[int, float]:
    values = part[metric].to_numpy(dtype=np.float64)
    repetitions = part["repetition"].to_numpy(dtype=np.int64)
    there = np.isfinite(values)
    return dict(zip(repetitions[there].tolist(), values[there].tolist(), strict=True))
