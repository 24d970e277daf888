"""Decide whether a load exceeds the capacity of the server's device or of the generator."""

from __future__ import annotations

from collections.abc import Mapping

from measure.charging.device import costs_s
from measure.load.generator import IN_FLIGHT
from studies.eapload2004.asked import Asked
from studies.eapload2004.design import ALL_PERCENT
from studies.study import StudyError
from topologies.loader import load_device

#: Memory of a waiting authentication at server and generator together (kB). With 1000 to 2000 of
#: them, 165 to 190 kB were measured.
_WAITING_KB = 200
#: Share of the capacity from which on a server that falls behind may not catch up: clients
#: retransmit, and the server answers some in vain.
_NEAR_CAPACITY = 0.8


def capacity_per_s(ids: Mapping[str, str], settings: Asked) -> float | None:
    """Return the capacity of the server's device (1/s), None if it charges nothing."""
    device = load_device(settings.server_device)
    if device.is_neutral:
        return None
    costs = costs_s({kind: vars(work) for kind, work in device.work.items()}, ids["key"])
    # The server signs once, and verifies the station's chain and signature.
    demand_s = costs["sign"] + (int(ids["chain"]) + 1) * costs["verify"]
    if ids["sessions"] == "resumed":
        demand_s *= 1 - settings.resumed_share
    return device.processors / demand_s if demand_s else None


def rate_per_s(ids: Mapping[str, str], capacity: float) -> float:
    """Return the load that a cell requests of a server with this capacity (1/s)."""
    return float(ids["load"]) + capacity * float(ids["share"]) / ALL_PERCENT


def is_overloaded(ids: Mapping[str, str], settings: Asked) -> bool:
    """Return whether the load exceeds the capacity of the server.

    Overload is a result, and such cells have checks of their own.
    """
    if float(ids["share"]):
        return float(ids["share"]) >= ALL_PERCENT
    capacity = capacity_per_s(ids, settings)
    return capacity is not None and float(ids["load"]) >= capacity


def memory_mb(ids: Mapping[str, str], settings: Asked) -> int:
    """Return the guest memory for authentications that wait for a busy server (MB)."""
    capacity = capacity_per_s(ids, settings)
    share = float(ids["share"]) / ALL_PERCENT or (
        float(ids["load"]) / capacity if capacity else 0.0)
    return IN_FLIGHT * _WAITING_KB // 1000 if share >= _NEAR_CAPACITY else 0


def check_offered(ids: Mapping[str, str], settings: Asked) -> None:
    """Check that the generator can have enough authentications on the way.

    Raises:
        StudyError: An overload would need more than the generator's limit.
    """
    capacity = capacity_per_s(ids, settings)
    if capacity is None or not is_overloaded(ids, settings):
        return
    rate = rate_per_s(ids, capacity)
    waiting = (rate - capacity) * (settings.steady_s + settings.overload_s)
    if waiting > IN_FLIGHT:
        raise StudyError(
            f"load: {rate:.3g}/s at {capacity:.3g}/s that {settings.server_device} takes cannot be "
            f"offered: {waiting:.0f} authentications would be under way in the end, and the load "
            f"generator has room for {IN_FLIGHT}; choose a lower load, a faster --server-device, "
            "or a shorter --set overload_s=")
