"""Runs inside a guest: starts a script of topologies/ and notes what the kernel has meanwhile.

    python3 observe_script.py MOBILE_NODE HOME_AGENT FOLDER -- COMMAND...

Into FOLDER go `said` (all that the script prints), `air.pcap` (all frames), `core.pcap` (the home
agent's wire to other subnets), `samples.json` and `after.json`; its exit status is the script's.
"""

import contextlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

INTERVAL_S = 0.25
RADIOS = Path("/sys/class/ieee80211")


def main() -> int:
    """Observe until the script has ended."""
    mobile, agent, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    # Somebody else's access point, as far as names go: it is to survive.
    bystander = subprocess.Popen(["/bin/sh", "-c", "sleep 600; : hostapd -B wpa_supplicant"])
    subprocess.run(["ip", "link", "set", "hwsim0", "up"], check=True)
    tcpdump = ["tcpdump", "--immediate-mode", "-U", "-w"]
    observers = [subprocess.Popen([*tcpdump, folder / "air.pcap", "-i", "hwsim0"])]
    with (folder / "said").open("w") as said:
        script = subprocess.Popen(sys.argv[5:], stdout=said, stderr=said,
                                  stdin=subprocess.DEVNULL)
    samples = []
    while script.poll() is None:
        time.sleep(INTERVAL_S)
        inside = node(agent) if len(observers) == 1 else None
        if inside and inside("ip", "link", "show", "core0"):
            observers.append(subprocess.Popen(inside.argv(
                *tcpdump, folder / "core.pcap", "-i", "core0")))
        samples.append({"at_s": time.time(), "link": link(mobile), "bindings": bindings(agent)})
    for observer in observers:
        observer.terminate()
        observer.wait()
    (folder / "samples.json").write_text(json.dumps(samples))
    (folder / "after.json").write_text(json.dumps({
        "bystander": bystander.poll() is None, "processes": processes(),
        "radios": [path.name for path in RADIOS.iterdir()] if RADIOS.exists() else []}))
    bystander.kill()
    return script.returncode


class Inside:
    """Runs commands in the network namespace of a process."""

    def __init__(self, pid: str) -> None:
        self.pid = pid

    def argv(self, *command: object) -> list[str]:
        """A command as it has to be started."""
        return ["mnexec", "-a", self.pid, *map(str, command)]

    def __call__(self, *command: object) -> str:
        """What a command prints; nothing if it fails."""
        return subprocess.run(self.argv(*command), capture_output=True, text=True,
                              check=False).stdout


def node(name: str) -> Inside | None:
    """A node of Mininet's, by the name that its shell bears; None as long as there is none."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"mininet:{name}\0" in (entry / "cmdline").read_text():
                return Inside(entry.name)
    return None


def link(name: str) -> dict[str, object]:
    """Access point and signal, as the station's kernel has them; empty without a link."""
    inside = node(name)
    said = inside("iw", "dev", f"{name}-wlan0", "link") if inside else ""
    found = re.search(r"Connected to (\S+).*signal: (-\d+) dBm", said, re.S)
    return {"bssid": found[1], "dbm": int(found[2])} if found else {}


def bindings(name: str) -> list[str]:
    """Home addresses that the kernel of a home agent routes into a tunnel."""
    inside = node(name)
    said = inside("ip", "route", "show", "table", "434") if inside else ""
    return re.findall(r"^(\S+) dev miph", said, re.M)


def processes() -> list[str]:
    """Daemons that are left, by their programs."""
    left = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_text().split("\0") if entry.name.isdigit() else [""]
            program = Path(line[0]).name
            if program in ("hostapd", "wpa_supplicant") or "mobile_ip" in " ".join(line):
                left.append(" ".join(line))
    return left


if __name__ == "__main__":
    sys.exit(main())
