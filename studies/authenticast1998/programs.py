"""Configurations of the protocol's programs, from a task and the nodes' devices.

Runs inside the machine: standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.authenticast1998 import unheeding

#: Frames of the video that ships.
TRACE = Path(__file__).parent / "mpeg1.csv"
PORTS = CONTROL_PORT, DATA_PORT, SERVER_PORT = 4000, 4001, 5000
#: The negative control that the workload does in the machine, on the air.
AROUND_THE_TUNNEL = "around-the-tunnel"
#: The one whose programs heed no user's range; and the programs, by their module.
UNHEEDING = "unheeded-range"
_PROGRAMS = {"serve": "protocols.authenticast.serve:run",
             "receive": "protocols.authenticast.receive:run"}
#: The controllers of 1998, which have a LIMIT.
LIMITED = ("blend-1998", "delayed-first-1998")
FRAMES_PER_S = 29.97
#: What the kernel counts for a datagram of the stream's size in a socket's buffer (one page's half
#: and its descriptor); it takes twice what SO_RCVBUF says.
TRUESIZE_BYTES = 2304
#: In virtual time, programs act every millisecond. A burst of half of what the wire carries in one
#: is at a client before the next begins, two hops of 0.1 ms away.
STEP_NS, BURST_BYTES = 1_000_000, 8_000
#: A stream begins in 1998 there, whatever the date: so the same seed makes the same files.
BEGIN_1998_NS = 883_612_800_000_000_000
#: The paper's keys; the library refuses them, so that real ones of 1024 bits are charged as these.
CHARGED_AS = {"DSA": "dsa-512", "RSA": "rsa-512"}


def places(fault: str) -> Mapping[str, str]:
    """The programs by name, as `MODULE:FUNCTION`."""
    return {name: f"{unheeding.__name__}:{name}" for name in _PROGRAMS} \
        if fault == UNHEEDING else _PROGRAMS


def costs(device: Mapping[str, Any], **further: float) -> dict[str, Any]:
    """Seconds of each operation on a device; `further` by name, with `_` for `-`.

    What the paper's protocol does not have (key agreement, the clients' own signatures) costs
    nothing.
    """
    work = device["work"]
    per_byte = 1 / work["sha1"]["bytes_per_s"]
    made: dict[str, Any] = {
        "hash": [0, per_byte], "hmac": [0, per_byte], "x25519": 0,
        "ed25519-256-sign": 0, "ed25519-256-verify": 0,
        "dsa-512-sign": work["dsa-512-sign"]["seconds"],
        "dsa-512-verify": work["dsa-512-verify"]["seconds"]}
    # RSA where the device says what it takes: the other algorithm to change to.
    rsa = {"rsa-512-sign": "rsa-512-private", "rsa-512-verify": "rsa-512-public"}
    made |= {kind: work[name]["seconds"] for kind, name in rsa.items() if name in work}
    return made | {name.replace("_", "-"): seconds for name, seconds in further.items()}


def without_security(made: Mapping[str, Any]) -> dict[str, Any]:
    """The same processor where security operations take no time."""
    return {kind: value if kind == "packet" else 0 for kind, value in made.items()}


def server(task: Mapping[str, Any], device: Mapping[str, Any], *, address: str, keys: Path,
           trace: Path, clients: list[str], seed: int) -> dict[str, Any]:
    """The server's configuration."""
    asked = task["asked"]
    further = {"dsa_512_sign": asked["precomputed_ms"] / 1e3} \
        if asked["signing"] == "precomputed" else {}
    charged = costs(device, **further)
    return {
        "name": "server", "address": address, "port": SERVER_PORT,
        "keys": [str(keys / "server.pem")],
        "clients": [{"name": name, "keys": [str(keys / f"{name}.pub.pem")],
                     "weight": task["load"].get("weight", 1.0) if name == clients[0] else 1.0}
                    for name in clients],
        "source": _source(task, trace, seed),
        "controller": _controller(task), "start_with": len(clients), "seed": seed,
        "delay_bound_s": asked["delay_bound_ms"] / 1e3,
        "device": {"count": device.get("processors", 1), "charged_as": CHARGED_AS,
                   "costs": charged if task["load"]["has_security"] else
                   without_security(charged)}}


def client(task: Mapping[str, Any], device: Mapping[str, Any], *, name: str, address: str,
           server_address: str, keys: Path, series: Path, seed: int) -> dict[str, Any]:
    """A client's configuration."""
    asked, load = task["asked"], task["load"]
    charged = costs(device, packet=asked["packet_ms"] / 1e3)
    stolen = [{"from_s": asked["load_from_s"], "to_s": asked["load_to_s"],
               "share": load["share"]}] if load["share"] else []
    return {
        "name": name, "address": address, "port": CONTROL_PORT, "data_port": DATA_PORT,
        "identity": str(keys / f"{name}.pem"), "algorithm": "DSA", **task["heuristic"]["wish"],
        "server": {"name": "server", "address": server_address, "port": SERVER_PORT,
                   "keys": [str(keys / "server.pub.pem")]},
        "receive_buffer_bytes": asked["buffer_packets"] * TRUESIZE_BYTES // 2,
        "series": str(series), "seed": seed,
        "device": {"count": device.get("processors", 1), "charged_as": CHARGED_AS, "steal": stolen,
                   "costs": charged if load["has_security"] else without_security(charged)}}


def in_steps(begin_ns: int) -> dict[str, int]:
    """A program's clock for virtual time, whose first step begins then by the machine's own."""
    return {"step_ns": STEP_NS, "burst_bytes": BURST_BYTES, "start_ns": BEGIN_1998_NS,
            "origin_ns": time.time_ns() - time.monotonic_ns() + begin_ns}


def sign_with(documents: Mapping[str, dict[str, Any]], keys: Path, names: Sequence[str]) -> None:
    """Have the server sign by these keys, the first of which names it; clients know all."""
    for name, document in documents.items():
        if name == "server":
            document["keys"] = [str(keys / f"{key}.pem") for key in names]
        else:
            document["server"]["keys"] = [str(keys / f"{key}.pub.pem") for key in names]


def _source(task: Mapping[str, Any], trace: Path, seed: int) -> dict[str, Any]:
    """The video's trace, or for as long a constant rate."""
    asked, rate_pps = task["asked"], task["load"].get("rate_pps", 0.0)
    shared = {"payload_bytes": asked["payload_bytes"], "seed": seed}
    if not rate_pps:
        return {"kind": "frames", "file": str(trace), "frames_per_s": FRAMES_PER_S, **shared}
    return {"kind": "constant", "packets_per_s": rate_pps, **shared,
            "packets": round(rate_pps * asked["frames"] / FRAMES_PER_S)}


def lasts_s(task: Mapping[str, Any], lines: Sequence[str]) -> float:
    """Return how long a stream of these frames of the trace lasts (s)."""
    if task["load"].get("rate_pps", 0.0):
        return float(task["asked"]["frames"]) / FRAMES_PER_S
    frames = (line.split(",") for line in lines)
    return sum(int(frame[2]) / 1e6 if len(frame) > 2 else 1 / FRAMES_PER_S for frame in frames)


def _controller(task: Mapping[str, Any]) -> dict[str, Any]:
    """A heuristic's controller; those of 1998 have the study's LIMIT unless they vary it."""
    given = dict(task["heuristic"]["controller"])
    if given["kind"] in LIMITED:
        given.setdefault("limit", task["asked"]["limit"])
    return given


def rotated(trace: list[str], frames: int, seed: int) -> list[str]:
    """So many frames of the trace, from an I frame that the seed chooses, over and over."""
    begins = [number for number, line in enumerate(trace) if line.startswith("I")]
    first = begins[seed * 7 % len(begins)]
    return [trace[(first + number) % len(trace)] for number in range(frames)]
