"""Queueing models: the behaviour of a network of stations under load.

Results are computed or simulated:

    model = load("model.yml")
    solution = solve(model.network)                       # means by chain, station and class
    answer = find_answer(model.network, rng)              # of any network, simulated if necessary
    faster = apply(model.network, {"radius.speed": 10})   # what if
    capacity(model.network, parse_bound("p95 < 150 ms"), rng=rng).sentence()
    calibrated = calibrate(model.network, alone_s=0.0091, saturation_per_s=115)
    assess(calibrated, measurements, rng=rng)             # predictions with measurements

The package is a pure toolkit. From the rest of this project it imports only `topologies.numbers`
and `topologies.wording`, for the YAML file of a model. docs/queueing.md explains the package.
"""

from analysis.queueing.answers import NetworkAnswer, find_answer
from analysis.queueing.bounds import Bounds, asymptotic_bounds, balanced_job_bounds
from analysis.queueing.calibrate import calibrate_network
from analysis.queueing.capacity import Bound, Capacity, find_capacity, parse_bound
from analysis.queueing.chains import aggregate_classes, visit_ratios
from analysis.queueing.errors import QueueingError
from analysis.queueing.intervals import Interval
from analysis.queueing.model_file import Model, load_model
from analysis.queueing.network import Chain, CustomerClass, QueueingNetwork, QueueingStation, Visit
from analysis.queueing.prediction import (
    Assessment,
    Bottleneck,
    ComparedValue,
    Measurement,
    Prediction,
    assess_model,
    find_bottleneck,
)
from analysis.queueing.response import ResponseTime, find_response
from analysis.queueing.simulate import Simulation, simulate_network
from analysis.queueing.solve import Solution, solve_network
from analysis.queueing.whatif import apply_settings, parse_setting

__all__ = [
    "Assessment",
    "Bottleneck",
    "Bound",
    "Bounds",
    "Capacity",
    "Chain",
    "ComparedValue",
    "CustomerClass",
    "Interval",
    "Measurement",
    "Model",
    "NetworkAnswer",
    "Prediction",
    "QueueingError",
    "QueueingNetwork",
    "QueueingStation",
    "ResponseTime",
    "Simulation",
    "Solution",
    "Visit",
    "aggregate_classes",
    "apply_settings",
    "assess_model",
    "asymptotic_bounds",
    "balanced_job_bounds",
    "calibrate_network",
    "find_answer",
    "find_bottleneck",
    "find_capacity",
    "find_response",
    "load_model",
    "parse_bound",
    "parse_setting",
    "simulate_network",
    "solve_network",
    "visit_ratios",
]
