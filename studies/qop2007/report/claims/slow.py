"""Nodes on the paper's devices: in which phase authentication still differs from the paper's."""

from __future__ import annotations

from studies.qop2007.report.basis import Basis

#: A phase's title, its component, the policy that shows it, and seconds there at home by what the
#: paper prints: P1 takes 0.11 s, P3 1.4 s (section 5.1) and P8 4.96 s (section 6); less P1's.
_PRINTED = (("Mobile IP", "mip_home", "P1", 0.11), ("IKE", "ike_home", "P3", 1.4 - 0.11),
            ("EAP-TLS", "eap_home", "P8", 4.96 - 0.11))


def on_devices(basis: Basis) -> str:
    """What takes how long here and there, by phase; "" where nodes compute as this machine."""
    if not basis.devices:
        return ""
    phases = []
    for title, component, policy, printed_s in _PRINTED:
        metric = f"component_{component}_s"
        places = basis.measured_places(metric, basis.of_kind("home"))
        here_s = basis.mean(metric, policy, places) if places else None
        if here_s is not None:
            phases.append(f"{title} {here_s:.2f} s (printed: {printed_s:.2f} s)")
    by_phase = f" By phase, at home: {', '.join(phases)}." if phases else ""
    return f"Nodes compute on {', '.join(basis.devices)}, with the daemons of today.{by_phase}"
