"""Fit the costs of a Sun 3/50 to the paper: `python3 -m studies.adp1987.fit`.

Four costs are fitted to the six throughputs of Table 3, through the model, by least squares of the
logarithms. Then the cost of the DES routine is fitted to ALL's 50 kB/s in Table 5. The device files
have the printed results, rounded. No other value of the paper is used.
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
    """Return the costs (s) from the parameters of the search.

    The parameters are in ms, ms, ms and microseconds per byte.
    """
    adp, user, des, byte = map(abs, parameters)
    return ModelCosts(user_send=user / 1e3, adp_send=adp / 1e3, adp_receive=_RECEIVE_S[0],
                      user_receive=_RECEIVE_S[1], des=des / 1e3, des_byte=byte / 1e6)


def model_throughput(each: ModelCosts, scope: str, *, queue: bool) -> float:
    """Return the model's throughput of the ALL trace (bytes/s)."""
    setting = ModelSetting(scope, queue)
    return fmean(model.run_model(generate_trace("ALL", _MESSAGES, seed), each, setting,
                                 saturated=True).throughput for seed in _SEEDS)


def fit_table_3() -> ModelCosts:
    """Return the costs with which the model comes nearest to Table 3."""
    printed = published.load_values().tables["3"]

    def misses(parameters: Sequence[float]) -> list[float]:
        each = costs_from_parameters(parameters)
        return [math.log(model_throughput(each, scope, queue=queue == "ON")
                         / printed[T, *scope_ids("ALL", scope, queue)])
                for scope in _SCOPES for queue in QUEUES]

    return costs_from_parameters(optimize.least_squares(misses, _START, diff_step=1e-3).x)


def fit_des_routine(chip: ModelCosts) -> float:
    """Return the time of the DES routine for a trailer (s)."""
    printed = published.load_values().tables["5"]
    [slow] = [value for key, value in printed.items()
              if key[0] == T and key[1] == "ALL" and key[5] == "SW"]

    def miss(seconds: float) -> float:
        return model_throughput(replace(chip, des=seconds, des_byte=0.0), "PE", queue=True) - slow

    return float(optimize.brentq(miss, 0.001, 1.0, xtol=1e-5))


def main() -> int:
    """Print the fitted costs of both devices."""
    chip = fit_table_3()
    sys.stdout.write(f"adp-message-send: {chip.adp_send:.6f} s\n"
                     f"user-message-send: {chip.user_send:.6f} s\n"
                     f"des-operation: {chip.des:.6f} s\ndes: {1 / chip.des_byte:.0f} bytes/s\n"
                     f"des-operation of the routine: {fit_des_routine(chip):.4f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
