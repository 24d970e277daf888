"""Records of the profile campus made up with noise, from its means as docs/campus.md has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fabricated import make, write_all
from measure.records.record import Record
from policies import load_named

#: Times to connect and to move (ms) with the RADIUS server at 0, 20 and 80 ms of round trip.
WAITS = {"M4": ((192, 31), (369, 203), (913, 747)), "M13": ((195, 28), (316, 150), (675, 506)),
         "M5": ((195, 29), (337, 167), (758, 592)), "M8": ((195, 9), (337, 11), (760, 10)),
         "M8-okc": ((198, 12), (339, 14), (759, 11))}
SCENARIOS = ("campus-0ms", "campus-20ms", "campus-80ms")
OWN = [load_named(name) for name in WAITS]
#: Standard deviations of times, TCP and UDP goodput, as shares of their means.
_NOISE = (0.03, 0.01, 0.003)


def campus_records(seed: int, repetitions: int = 3) -> list[Record]:
    """All policies in all scenarios. Their goodput differs by noise alone."""
    rng, records = np.random.default_rng(seed), []
    for policy in OWN:
        for scenario, (connection_ms, handoff_ms) in zip(SCENARIOS, WAITS[policy.id], strict=True):
            for repetition in range(1, repetitions + 1):
                eap, move, tcp, udp = 1 + rng.normal(size=4) * (_NOISE[0], *_NOISE)
                eap_s = eap * (connection_ms - 165) / 1e3
                phases = {"scan": (0.15, 3), "dot1x": (eap_s, 17), "dhcp": (0.003, 4),
                          "first_packet": (0.002, 2)}
                records.append(make(
                    policy.id, repetition, scenario=scenario, phases=phases, tcp=tcp * 5.45e6,
                    udp=udp * 6.4e6, handoff_s=move * handoff_ms / 1e3, authentication_time_s=eap_s,
                    components_s={"eap": eap_s}, authentication_sum=["eap"],
                    digests={"policy": policy.digest()}))
    return records


def write_campus(folder: Path, seed: int, repetitions: int = 3) -> Path:
    """A results folder of such a run, whose baseline is that of the profile; the folder."""
    return write_all(campus_records(seed, repetitions), folder, OWN, baseline={"policy": "M4"})
