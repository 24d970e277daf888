"""Build the configuration files of Authenticast's server and clients for one measurement.

`server_configuration` and `client_configuration` take the instructions of the measurement (task),
keys and device models (times of a slow processor). They return the documents that the programs
read. The module runs inside the guest (virtual machine) and uses the standard library only. The
paper is Schneck and Schwan (1998).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.authenticast1998 import fault_injection

#: Trace of the frames of the video that ships with the study.
TRACE = Path(__file__).parent / "mpeg1.csv"
PORTS = CONTROL_PORT, DATA_PORT, SERVER_PORT = 4000, 4001, 5000
#: Negative control on the air that the workload carries out in the guest.
AROUND_THE_TUNNEL = "around-the-tunnel"
#: Negative control whose programs ignore the user's range, and the programs as module and function.
IGNORED_RANGE = "unheeded-range"
_PROGRAMS = {"serve": "protocols.authenticast.server_program:run",
             "receive": "protocols.authenticast.client_program:run"}
#: Controllers of 1998, which have a LIMIT.
LIMITED = ("blend-1998", "delayed-first-1998")
FRAMES_PER_S = 29.97
#: Bytes that the kernel counts for a datagram of the stream's size in a socket's buffer: half a
#: page and a descriptor. The kernel allows twice the value of SO_RCVBUF.
TRUESIZE_BYTES = 2304
#: Step (ns) in which programs act in virtual time, and burst (bytes). A burst of half of the wire's
#: capacity in a step reaches a client before the next step, over two hops of 0.1 ms.
STEP_NS, BURST_BYTES = 1_000_000, 8_000
#: Date (ns since 1970) at which a stream begins in virtual time: 1 January 1998. A fixed date makes
#: the files of a seed equal.
BEGIN_1998_NS = 883_612_800_000_000_000
#: Names of the paper's keys. The library refuses 512 bits, so real keys of 1024 bits are used and
#: charged as these.
CHARGED_AS = {"DSA": "dsa-512", "RSA": "rsa-512"}


def programs_of(fault: str) -> Mapping[str, str]:
    """Return which programs a repetition runs, as `MODULE:FUNCTION`, given its injected fault."""
    return {name: f"{fault_injection.__name__}:{name}" for name in _PROGRAMS} \
        if fault == IGNORED_RANGE else _PROGRAMS


def operation_costs(device: Mapping[str, Any], **further: float) -> dict[str, Any]:
    """Return the seconds that each cryptographic operation takes on a device model.

    `further` adds operations by name, with `_` for `-`. Operations that the paper's protocol does
    not have (key agreement, the clients' own signatures) cost nothing.
    """
    work = device["work"]
    per_byte = 1 / work["sha1"]["bytes_per_s"]
    costs: dict[str, Any] = {
        "hash": [0, per_byte], "hmac": [0, per_byte], "x25519": 0,
        "ed25519-256-sign": 0, "ed25519-256-verify": 0,
        "dsa-512-sign": work["dsa-512-sign"]["seconds"],
        "dsa-512-verify": work["dsa-512-verify"]["seconds"]}
    # RSA, the other algorithm to change to, is included where the device states its costs.
    rsa = {"rsa-512-sign": "rsa-512-private", "rsa-512-verify": "rsa-512-public"}
    costs |= {kind: work[name]["seconds"] for kind, name in rsa.items() if name in work}
    return costs | {name.replace("_", "-"): seconds for name, seconds in further.items()}


def without_security(seconds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same costs with 0 seconds for all security operations."""
    return {kind: value if kind == "packet" else 0 for kind, value in seconds.items()}


def server_configuration(task: Mapping[str, Any], device: Mapping[str, Any], *, address: str,
                         keys: Path,
                         trace: Path, clients: list[str], seed: int) -> dict[str, Any]:
    """Build the configuration of the server program.

    Args:
        task: combination of factors and settings, as `Authenticast1998.task` returns them.
        device: the server's device model.
        address: IP address of the server.
        keys: folder of key files.
        trace: file with the frames of the video.
        clients: names of the clients.
        seed: seed of all random bytes of the program.
    """
    settings = task["asked"]
    further = {"dsa_512_sign": settings["precomputed_ms"] / 1e3} \
        if settings["signing"] == "precomputed" else {}
    charged = operation_costs(device, **further)
    return {
        "name": "server", "address": address, "port": SERVER_PORT,
        "keys": [str(keys / "server.pem")],
        "clients": [{"name": name, "keys": [str(keys / f"{name}.pub.pem")],
                     "weight": task["load"].get("weight", 1.0) if name == clients[0] else 1.0}
                    for name in clients],
        "source": _source_configuration(task, trace, seed),
        "controller": _controller_configuration(task), "start_with": len(clients), "seed": seed,
        "delay_bound_s": settings["delay_bound_ms"] / 1e3,
        "device": {"count": device.get("processors", 1), "charged_as": CHARGED_AS,
                   "costs": charged if task["load"]["has_security"] else
                   without_security(charged)}}


def client_configuration(task: Mapping[str, Any], device: Mapping[str, Any], *, name: str,
                         address: str,
                         server_address: str, keys: Path, series: Path,
                         seed: int) -> dict[str, Any]:
    """Build the configuration of a client program.

    Args:
        task: combination of factors and settings, as `Authenticast1998.task` returns them.
        device: the client's device model.
        name: name of the client.
        address: IP address of the client.
        server_address: IP address of the server.
        keys: folder of key files.
        series: file for the list of the client's packets.
        seed: seed of all random bytes of the program.
    """
    settings, load = task["asked"], task["load"]
    charged = operation_costs(device, packet=settings["packet_ms"] / 1e3)
    stolen = [{"from_s": settings["load_from_s"], "to_s": settings["load_to_s"],
               "share": load["share"]}] if load["share"] else []
    return {
        "name": name, "address": address, "port": CONTROL_PORT, "data_port": DATA_PORT,
        "identity": str(keys / f"{name}.pem"), "algorithm": "DSA", **task["heuristic"]["wish"],
        "server": {"name": "server", "address": server_address, "port": SERVER_PORT,
                   "keys": [str(keys / "server.pub.pem")]},
        "receive_buffer_bytes": settings["buffer_packets"] * TRUESIZE_BYTES // 2,
        "series": str(series), "seed": seed,
        "device": {"count": device.get("processors", 1), "charged_as": CHARGED_AS, "steal": stolen,
                   "costs": charged if load["has_security"] else without_security(charged)}}


def virtual_clock(begin_ns: int) -> dict[str, int]:
    """Return the configuration of a program's clock in virtual time, where waiting is skipped.

    Its first step is at `begin_ns` of the guest's monotonic clock.
    """
    return {"step_ns": STEP_NS, "burst_bytes": BURST_BYTES, "start_ns": BEGIN_1998_NS,
            "origin_ns": time.time_ns() - time.monotonic_ns() + begin_ns}


def set_signing_keys(documents: Mapping[str, dict[str, Any]], keys: Path,
                     names: Sequence[str]) -> None:
    """Enter the server's signing keys into all configurations. The first key identifies it."""
    for name, document in documents.items():
        if name == "server":
            document["keys"] = [str(keys / f"{key}.pem") for key in names]
        else:
            document["server"]["keys"] = [str(keys / f"{key}.pub.pem") for key in names]


def _source_configuration(task: Mapping[str, Any], trace: Path, seed: int) -> dict[str, Any]:
    """Configure the server's source of packets: the frames of the video, or a constant rate.

    A source of constant rate lasts as long as the video.
    """
    settings, rate_pps = task["asked"], task["load"].get("rate_pps", 0.0)
    shared = {"payload_bytes": settings["payload_bytes"], "seed": seed}
    if not rate_pps:
        return {"kind": "frames", "file": str(trace), "frames_per_s": FRAMES_PER_S, **shared}
    return {"kind": "constant", "packets_per_s": rate_pps, **shared,
            "packets": round(rate_pps * settings["frames"] / FRAMES_PER_S)}


def duration_s(task: Mapping[str, Any], lines: Sequence[str]) -> float:
    """Return the duration (s) of a stream of these video frames."""
    if task["load"].get("rate_pps", 0.0):
        return float(task["asked"]["frames"]) / FRAMES_PER_S
    frames = (line.split(",") for line in lines)
    return sum(int(frame[2]) / 1e6 if len(frame) > 2 else 1 / FRAMES_PER_S for frame in frames)


def _controller_configuration(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the controller of a stream, with the study's LIMIT for the controllers of 1998.

    LIMIT is the number of unread packets above which a controller reacts.
    """
    given = dict(task["heuristic"]["controller"])
    if given["kind"] in LIMITED:
        given.setdefault("limit", task["asked"]["limit"])
    return given


def rotate_trace(trace: list[str], frames: int, seed: int) -> list[str]:
    """Return `frames` frames of the video, from an I frame that the seed chooses, cyclically."""
    begins = [number for number, line in enumerate(trace) if line.startswith("I")]
    first = begins[seed * 7 % len(begins)]
    return [trace[(first + number) % len(trace)] for number in range(frames)]
