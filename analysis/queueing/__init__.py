"""Queueing models: response times and throughput of servers under load.

In a queueing network, customers (transactions, such as authentications) wait and are served at
stations (servers, such as a RADIUS server or a link). Results are computed or simulated:

    model = load_model("model.yml")
    solution = solve_network(model.network)          # means by chain, station and class
    means = estimate_network(model.network, rng)     # of any network, simulated if necessary
    faster = apply_settings(model.network, {"radius.speed": 10})   # what if
    find_capacity(model.network, parse_bound("p95 < 150 ms"), rng=rng).to_sentence()
    calibrated = calibrate_network(model.network, alone_s=0.0091, saturation_per_s=115)
    assess_model(calibrated, measurements, rng=rng)  # predictions with measurements

The package is a pure toolkit. From the rest of this project it imports only
`topologies.yaml_reader` and `topologies.errors`, for the YAML file of a model. docs/queueing.md
explains the package.
"""

from analysis.queueing.bounds import Bounds, asymptotic_bounds, balanced_job_bounds
from analysis.queueing.capacity import Capacity, ResponseTimeBound, find_capacity, parse_bound
from analysis.queueing.intervals import Interval
from analysis.queueing.model_file import Model, load_model
from analysis.queueing.network import (
    Chain,
    CustomerClass,
    QueueingError,
    QueueingNetwork,
    QueueingStation,
    Visit,
)
from analysis.queueing.prediction import (
    Assessment,
    Bottleneck,
    ComparedValue,
    Measurement,
    Prediction,
    assess_model,
    calibrate_network,
    find_bottleneck,
)
from analysis.queueing.response import ResponseTime, find_response
from analysis.queueing.routing import aggregate_classes, visit_ratios
from analysis.queueing.simulation import Simulation, simulate_network
from analysis.queueing.solution import NetworkEstimate, Solution, estimate_network, solve_network
from analysis.queueing.what_if import apply_settings, parse_setting

__all__ = [
    "Assessment",
    "Bottleneck",
    "Bounds",
    "Capacity",
    "Chain",
    "ComparedValue",
    "CustomerClass",
    "Interval",
    "Measurement",
    "Model",
    "NetworkEstimate",
    "Prediction",
    "QueueingError",
    "QueueingNetwork",
    "QueueingStation",
    "ResponseTime",
    "ResponseTimeBound",
    "Simulation",
    "Solution",
    "Visit",
    "aggregate_classes",
    "apply_settings",
    "assess_model",
    "asymptotic_bounds",
    "balanced_job_bounds",
    "calibrate_network",
    "estimate_network",
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
