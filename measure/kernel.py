"""Read kernel state that proves a policy: station flags, IPsec SAs and processor time."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import nl80211, routing, xfrm

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
#: debugfs folder of mac80211, present in kernels built with it, as qop's guest.
_RADIOS = Path("/sys/kernel/debug/ieee80211")


def station_flags(testbed: Testbed, node: str, interface: str) -> dict[str, dict[str, str]]:
    """Return the flags of each station in an access point's kernel, by MAC address."""
    return nl80211.station_flags(testbed.node(node).pid, interface)


def is_authorized(testbed: Testbed, node: str, interface: str, mac: str,
                  root: Path = _RADIOS) -> bool:
    """Return whether an access point's kernel lets a station's frames pass.

    Callers wait for the answer, so the fastest source comes first: a file of debugfs, if it exists.
    """
    for device in root.glob(f"*/netdev:{interface}"):
        try:
            return "AUTHORIZED" in (device / "stations" / mac / "flags").read_text().split()
        except FileNotFoundError:
            return False
    flags = station_flags(testbed, node, interface)
    return flags.get(mac, {}).get("authorized") == "yes"


def link_keys(mac: str, root: Path = _RADIOS) -> list[str]:
    """Return the pairwise keys that access points' kernels have for a station, in hex.

    The list is empty if the kernel does not show keys.
    """
    keys = []
    for folder in sorted(root.glob("*/keys/*")):
        station = folder / "station"
        if station.is_symlink() and station.readlink().name == mac:
            keys.append((folder / "key").read_text().strip())
    return keys


def xfrm_states(testbed: Testbed, node: str) -> list[dict[str, Any]]:
    """Return the node's IPsec SAs, with key sizes instead of keys."""
    return xfrm.read_states(testbed.node(node).pid)


def xfrm_keys(testbed: Testbed, node: str) -> list[dict[str, str]]:
    """Return the keys of the node's ESP SAs, as `parse_xfrm_keys` does."""
    return parse_xfrm_keys(testbed.run_command(node, ["ip", "xfrm", "state", "list"]))


def parse_xfrm_keys(text: str) -> list[dict[str, str]]:
    """Parse `ip xfrm state`: a dict for each ESP SA.

    The dict has spi, mode, enc and enc_key, auth and auth_key, with keys in hex. `auth_bits` is the
    length of the truncated ICV.
    """
    keys: list[dict[str, str]] = []
    for words in map(str.split, text.splitlines()):
        if words[:2] == ["proto", "esp"]:
            keys.append({name: words[words.index(name) + 1] for name in ("spi", "mode")})
        elif keys and words[:1] in (["enc"], ["aead"]):
            # Null encryption has no key.
            keys[-1] |= {"enc": words[1], "enc_key": "".join(words[2:3]).removeprefix("0x")}
        elif keys and words[:1] == ["auth-trunc"]:
            keys[-1] |= {"auth": words[1], "auth_key": words[2].removeprefix("0x"),
                         "auth_bits": words[3]}
    return keys


def is_tunnelled(testbed: Testbed, agent: str, address: str) -> bool:
    """Return whether an agent's kernel sends a mobile node's packets through a tunnel."""
    return routing.output_device(testbed.node(agent).pid, address).startswith("mip")


def received_bytes(testbed: Testbed, node: str, port: int) -> dict[str, int]:
    """Return the bytes that a server's TCP connections have received, by client address:port."""
    return parse_sockets(testbed.run_command(node, ["ss", "-Htni", "state", "established",
                                                    f"sport = :{port}"]))


def parse_sockets(text: str) -> dict[str, int]:
    """Parse `ss -Htni` into bytes received by the peer's address:port."""
    received: dict[str, int] = {}
    peer = ""
    for line in text.splitlines():
        if line[:1].strip():
            # A dual-stack socket shows IPv4 addresses as IPv4-mapped IPv6 addresses.
            peer = line.split()[-1].replace("[::ffff:", "").replace("]", "")
            received[peer] = 0
        match = re.search(r"\bbytes_received:(\d+)", line)
        if match and peer:
            received[peer] = int(match[1])
    return received


def processor_seconds(stat: str | None = None) -> dict[str, float]:
    """Return processor time since boot by use, in s (first line of /proc/stat)."""
    line = (stat if stat is not None else Path("/proc/stat").read_text()).splitlines()[0]
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    return {name: int(ticks) / 100 for name, ticks in zip(names, line.split()[1:], strict=False)}


def processor_seconds_of(pid: int) -> tuple[float, float]:
    """Return the user and system time of a process and its threads, in s."""
    # The process name, in brackets, may contain blanks and brackets; count fields after it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) * _TICK_S, int(fields[12]) * _TICK_S


def harness_work(net: Path = Path("/proc/net")) -> dict[str, int]:
    """Return the work that the processor clock charges to no node: the harness's own.

    The dict has nanoseconds of work (`work_ns`), system calls (`entries`) and page faults
    (`faults`). It is empty under other clocks.
    """
    file = net / "processor"
    if not _exists(file):
        return {}
    counted = dict(line.split() for line in file.read_text().splitlines())
    return {"work_ns": sum(int(value) for name, value in counted.items()
                           if name.startswith("work_")),
            "entries": int(counted["entries"]), "faults": int(counted["faults"])}


@functools.cache  # looked up once, not while something is timed
def _exists(file: Path) -> bool:
    return file.exists()


def processor_clock() -> dict[str, str]:
    """Return the state of the processor clock, empty under other clocks.

    Keys are those of the guest's kernel: `counter`, `calibration_ns`, `work_total_ns`, ...
    """
    try:
        text = Path("/proc/processor_clock").read_text()
    except OSError:
        return {}
    return dict(line.split(None, 1) for line in text.splitlines() if " " in line.strip())
