"""Check the figures of wires, media and devices."""

from __future__ import annotations

import math
import re
from pathlib import Path

from topologies.device import KINDS, Device, Work
from topologies.errors import TopologyError
from topologies.model import Link, Medium, Wire
from topologies.source import YamlPlace, YamlSource

#: Identifiers of scenarios and devices, which are parts of file names.
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
# Operations of devices are words for people.
_OPERATION = re.compile(r"[a-z][a-z0-9-]*")
#: Bounds in bytes: every IPv4 host accepts packets of 576 bytes (RFC 791, 3.1). The kernel's wires
#: accept 65,535, of which MACsec needs 32.
_LEAST_MTU_BYTES, _MOST_MTU_BYTES = 576, 65_503
#: Bounds of a wire's rate in bit/s. Below, a packet of 1500 bytes takes 12 s or more, longer than
#: any daemon waits (and the kernel treats less than 8 bit/s as no limit). Above, the kernel's
#: arithmetic overflows.
_LEAST_RATE_BPS, _MOST_RATE_BPS = 1000, 10 ** 12
#: Largest delay in ms: a supplicant gives up an authentication, a dozen or more exchanges, after
#: 60 s.
_MOST_DELAY_MS = 10_000
_MOST_OVERHEAD_BYTES, _MOST_QUEUE_PACKETS = 65_535, 10 ** 6
_FIGURES = {
    "mtu_bytes": (_LEAST_MTU_BYTES, _MOST_MTU_BYTES), "rate_bps": (_LEAST_RATE_BPS, _MOST_RATE_BPS),
    "delay_ms": (0, _MOST_DELAY_MS), "overhead_bytes": (0, _MOST_OVERHEAD_BYTES),
    "queue_packets": (1, _MOST_QUEUE_PACKETS)}
#: Largest factor, seconds and bytes per second of a device's work.
_MOST_FACTOR, _MOST_WORK_S, _MOST_BYTES_PER_S = 1e6, 1e4, 1e12


def check_medium(medium: Medium, place: YamlSource | Path | str) -> None:
    """Refuse zero rates, negative times, and fields that have no effect without others."""
    source = YamlSource.to_source(place)
    for field, value in vars(medium).items():
        minimum = 1 if field.endswith("rate_bps") else 0
        if isinstance(value, int | float) and not minimum <= value < math.inf:
            raise TopologyError(f"{source.at(field)}: {value}; write {minimum} or more")
    idle = [field for field, needs in (
        ("aggregate_bytes", medium.aggregate > 1),
        ("retries", medium.air == "dcf" or medium.loss_percent > 0),
        ("beacon_interval_ms", medium.beacon_bytes > 0), *(
            (field, medium.air == "dcf") for field in (
                "cw_max", "basic_rate_bps", "eifs", "wait_difs", "cca_us")))
        if not needs and getattr(medium, field) != _field_default(Medium, field)]
    if idle:
        needed = {"retries": "loss_percent", "aggregate_bytes": "aggregate above 1",
                  "beacon_interval_ms": "beacon_bytes"}.get(idle[0], "air: dcf")
        raise TopologyError(f"{source.at(idle[0])}: has an effect with {needed} alone; leave it "
                            f"out, or add {needed}")
    if medium.difs_us < medium.sifs_us:
        raise TopologyError(f"{source.at('difs_us')}: {medium.difs_us:g} is less than sifs_us, so "
                            "that data would go before acknowledgements; write more")


def check_wire(wire: Wire | Link, place: YamlSource | Path | str, name: str = "") -> None:
    """Refuse impossible figures of a wire, fields without effect, and a preset without a source."""
    source = YamlSource.to_source(place)

    def at(field: str) -> YamlPlace:
        return source.at(field, name=f"{name}: {field}" if name else field)

    for field, (least, most) in _FIGURES.items():
        value = getattr(wire, field, None)
        if value is not None and not least <= value <= most:
            raise TopologyError(f"{at(field)}: {value:g}; write {least} to {most}")
    if not 0 <= wire.loss_percent < 100:
        raise TopologyError(f"{at('loss_percent')}: {wire.loss_percent:g}; write 0 to below 100")
    for field in ("overhead_bytes", "queue_packets"):
        if wire.rate_bps is None and getattr(wire, field) != _field_default(Wire, field):
            raise TopologyError(f"{at(field)}: has an effect with rate_bps alone; leave it out, or "
                                "add rate_bps")
    if isinstance(wire, Wire) and not wire.source.strip():
        raise TopologyError(f"{at('source')}: nothing; say where its figures are from")


def _field_default(cls: type, field: str) -> object:
    return getattr(cls, field, None)


def check_device(device: Device, place: YamlSource | Path | str) -> None:
    """Refuse figures without a source, without a value, or with one that is not positive."""
    source = YamlSource.to_source(place)
    if not ID.fullmatch(device.name):
        raise TopologyError(
            f"{source.at('name')}: {device.name!r}; write up to 40 letters, digits, "
                            "- and _")
    if device.processors < 1:
        raise TopologyError(f"{source.at('processors')}: {device.processors}; write 1 or more")
    if not device.work:
        raise TopologyError(f"{source.at('work')}: nothing; state at least one kind of work")
    for operation, work in device.work.items():
        _check_work(operation, work, source)


def _check_work(operation: str, work: Work, source: YamlSource) -> None:
    where = source.at("work", operation)
    if not work.source.strip():
        raise TopologyError(f"{where}: source: nothing; say where the figure is from")
    stated = {unit: value for unit in ("seconds", "bytes_per_s", "factor")
              if (value := getattr(work, unit)) is not None}
    if len(stated) != 1:
        raise TopologyError(f"{where}: {' and '.join(stated) or 'no value'}; write one of seconds, "
                            "bytes_per_s and factor")
    most = {"seconds": _MOST_WORK_S, "bytes_per_s": _MOST_BYTES_PER_S, "factor": _MOST_FACTOR}
    for unit, value in stated.items():
        if not value > 0:
            raise TopologyError(f"{where}: {unit}: {value:g}; write a number above 0")
        if value > most[unit]:
            raise TopologyError(f"{where}: {unit}: {value:g}; write {most[unit]:g} or less")
    if "factor" in stated and operation not in KINDS:
        raise TopologyError(f"{where}: factor: not for an operation; write it for one of "
                            f"{', '.join(KINDS)}, or seconds")
    if not _OPERATION.fullmatch(operation):
        raise TopologyError(f"{where}: no name for work; write lower case letters, digits and -")
