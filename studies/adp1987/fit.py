"""Fit the times of operations on a Sun 3/50 workstation to throughputs of the 1987 paper.

The paper (Anderson, Ferrari, Rangan and Sartirana) prints throughputs of ADP, but no times of
operations. The study adp1987 imitates its computers, and needs these times for its device files.
`fit_table_3` fits four times to the six throughputs of Table 3 through a model (`model.py`), by
least squares of the logarithms. `fit_des_routine` fits the time of the DES routine to one
throughput of Table 5. No other value of the paper is used. The command `python3 -m
studies.adp1987.fit` prints the times. The device files have them, rounded.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from scipy import optimize

from studies.adp1987 import model, published
from studies.adp1987.model import ModelCosts, ModelSetting
from studies.adp1987.published import QUEUES, T, scope_ids
from studies.adp1987.traces import generate_trace

_MESSAGES, _SEEDS = 4000, (1, 2)
_SCOPES = ("NE", "PE", "FE")
#: Start of the search: ms, ms, ms, microseconds per byte.
_START = (2.0, 0.3, 0.1, 1.5)
_RECEIVE_S = (0.0003, 0.00002)


def costs_from_parameters(parameters: Sequence[float]) -> ModelCosts:
    """Convert the parameters of the search to times of operations (s).

    The parameters are in ms, ms, ms and microseconds per byte.
    """
    adp, user, des, byte = map(abs, parameters)
    return ModelCosts(user_send=user / 1e3, adp_send=adp / 1e3, adp_receive=_RECEIVE_S[0],
                      user_receive=_RECEIVE_S[1], des=des / 1e3, des_byte=byte / 1e6)


def model_throughput(each: ModelCosts, scope: str, *, queue: bool) -> float:
    """Return the throughput (bytes/s) that the model computes for the trace ALL.

    `queue` says whether messages that are not urgent wait.
    """
    setting = ModelSetting(scope, queue)
    return fmean(model.run_model(generate_trace("ALL", _MESSAGES, seed), each, setting,
                                 saturated=True).throughput for seed in _SEEDS)


def fit_table_3() -> ModelCosts:
    """Return the times of operations with which the model comes nearest to Table 3."""
    printed = published.load_values().tables["3"]

    def misses(parameters: Sequence[float]) -> list[float]:
        each = costs_from_parameters(parameters)
        return [math.log(model_throughput(each, scope, queue=queue == "ON")
                         / printed[T, *scope_ids("ALL", scope, queue)])
                for scope in _SCOPES for queue in QUEUES]

    return costs_from_parameters(optimize.least_squares(misses, _START, diff_step=1e-3).x)


def fit_des_routine(chip: ModelCosts) -> float:
    """Return the time (s) in which the DES routine encrypts a trailer."""
    printed = published.load_values().tables["5"]
    [slow] = [value for key, value in printed.items()
              if key[0] == T and key[1] == "ALL" and key[5] == "SW"]

    def miss(seconds: float) -> float:
        return model_throughput(replace(chip, des=seconds, des_byte=0.0), "PE", queue=True) - slow

    return float(optimize.brentq(miss, 0.001, 1.0, xtol=1e-5))


def main() -> int:
    """Print the fitted times for both ways to encrypt, DES chip and DES routine."""
    chip = fit_table_3()
    sys.stdout.write(f"adp-message-send: {chip.adp_send:.6f} s\n"
                     f"user-message-send: {chip.user_send:.6f} s\n"
                     f"des-operation: {chip.des:.6f} s\ndes: {1 / chip.des_byte:.0f} bytes/s\n"
                     f"des-operation of the routine: {fit_des_routine(chip):.4f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
