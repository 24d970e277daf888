"""Comparison with the paper on its devices: the phases in which authentication times differ."""

from __future__ import annotations

from collections.abc import Iterator

from studies.qop2007.metrics import AUTHENTICATION
from studies.qop2007.report.basis import Basis, Kind
from studies.qop2007.report.phase_names import component_label

#: Authentication times that the paper prints (s), in its abstract and sections 5.1 and 6.
_PRINTED: tuple[tuple[str, Kind, float], ...] = (
    ("P1", "home", 0.11), ("P3", "home", 1.4), ("P3", "roaming", 2.8), ("P8", "roaming", 4.96),
    ("P12", "roaming", 6.28))
_COMPONENTS = ("eap_home", "ike_home", "mip_registration_home", "mip_registration_foreign")


def describe_devices(basis: Basis) -> str:
    """Describe the times on devices, here and in print by phase ("": no devices)."""
    if not basis.devices:
        return ""
    times = "; ".join(_describe_times(basis))
    said = f" Seconds here, as printed, and by phase: {times}." if times else ""
    return f"Nodes compute on {', '.join(basis.devices)}, with the daemons of today.{said}"


def _describe_times(basis: Basis) -> Iterator[str]:
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
