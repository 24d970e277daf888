"""Log in to a network with an 802.11 card, and roam between its access points, with times.

`CardStation` starts wpa_supplicant and dumpcap on a borrowed card. `log_in` and `roam_to` return an
`Attempt` each, with the times of wpa_supplicant's events. `results` adds what the capture shows.
Standard library only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon
from measure.cards import wireless
from measure.cards.borrowing import BorrowedCard
from measure.services.hostap import ControlSocket, Event

#: File of the capture: of all frames of the station, or of its EAPOL frames alone.
CAPTURE = "air.pcapng"
#: Frames that a monitor keeps: those of the station, and beacons, whatever station they are for.
_AIR_FILTER = "wlan addr1 {mac} or wlan addr2 {mac} or type mgt subtype beacon"
_CARD_FILTER = "ether proto 0x888e"
_BUFFER_MB = 8
#: Times in s: until the capture has all frames, after leaving, for replies, between two looks.
_SETTLE_S, _PAUSE_S, _STOP_S, _POLL_S = 0.6, 0.3, 5.0, 0.02
#: Key management that suits a passphrase.
_PSK_AND_SAE = "WPA-PSK WPA-PSK-SHA256 FT-PSK SAE FT-SAE"
#: Settings that replace those of the user's file, so that each login begins without earlier state,
#: the address stays that of the card, and the file is not changed.
_SETTINGS = """ctrl_interface={control}
update_config=0
p2p_disabled=1
mac_addr=0
preassoc_mac_addr=0
fast_reauth=0
"""
#: EAPOL frames are seen at the interface only if they pass through it.
_VISIBLE_EAPOL = "driver_param=control_port=0\n"
_CONNECTED = "CTRL-EVENT-CONNECTED"
#: Events that end an attempt, and those that say why one gets nowhere.
_FINAL = frozenset({"CTRL-EVENT-SSID-TEMP-DISABLED", "CTRL-EVENT-EAP-FAILURE"})
_TELLING = {
    "CTRL-EVENT-EAP-TLS-CERT-ERROR": "the server's certificate is not accepted",
    "CTRL-EVENT-EAP-FAILURE": "the server refuses the EAP credentials",
    "CTRL-EVENT-SSID-TEMP-DISABLED": "the network refuses the station",
    "CTRL-EVENT-ASSOC-REJECT": "the access point refuses the association",
    "CTRL-EVENT-AUTH-REJECT": "the access point refuses the authentication",
    "CTRL-EVENT-NETWORK-NOT-FOUND": "no access point with this SSID and security is heard"}
_DETAILS = re.compile(r"\b(reason=[A-Z_]+|status_code=\d+|err='[^']*')")
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"e": b"\033"}
_COUNTS = re.compile(r"Packets received/dropped on interface .*?: (\d+)/(\d+)")


@dataclass(frozen=True)
class AccessPoint:
    """An access point that the station hears: BSSID, frequency (MHz) and signal (dBm)."""

    bssid: str
    frequency_mhz: int
    signal_dbm: int


@dataclass
class Attempt:
    """A login or roam with its times (s since 1970), and the driver's data on the link.

    - `kind`: `login` or `roam`
    - `start_s`, `end_s`: time of the command, and of wpa_supplicant's event CTRL-EVENT-CONNECTED or
      of the failure
    - `bssid`, `frequency_mhz`: the access point
    - `previous`: BSSID of the access point before a roam
    - `reason`: why the login or roam failed, "" after a success
    - `link`: rates, signal and frame counters of the driver
    """

    kind: str
    number: int
    start_s: float
    end_s: float = 0.0
    bssid: str = ""
    frequency_mhz: int = 0
    previous: str = ""
    reason: str = ""
    link: Mapping[str, Any] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        """Return the time from the command to the event, in s."""
        return self.end_s - self.start_s


def to_channel(frequency_mhz: int) -> int:
    """Return the number of the channel with a centre frequency, 0 for an unknown one."""
    if frequency_mhz == 2484:
        return 14
    for first, last, base in ((2412, 2472, 2407), (5955, 7115, 5950), (5160, 5885, 5000)):
        if first <= frequency_mhz <= last:
            return (frequency_mhz - base) // 5
    return 0


def format_network(ssid: str, passphrase: str) -> str:
    """Return the configuration of a network for wpa_supplicant, open without a passphrase."""
    keys = (f'key_mgmt={_PSK_AND_SAE}\npsk="{passphrase}"\nieee80211w=1' if passphrase
            else "key_mgmt=NONE")
    return f"network={{\nssid={os.fsencode(ssid).hex()}\nscan_ssid=1\n{keys}\n}}\n"


def decode_ssid(text: str) -> str:
    """Return an SSID that wpa_supplicant shows with escapes."""
    return os.fsdecode(_ESCAPE.sub(
        lambda match: bytes([int(match[1], 16)]) if match[1] else _ESCAPES.get(match[2], match[2]),
        text.encode()))


@dataclass
class CardStation:
    """A station of a network, on a borrowed card.

    - `config`: configuration file of wpa_supplicant with the network
    - `logs`: folder for logs
    - `timeout_s`: longest time for a login or roam
    - `dropped_frames`: frames that dumpcap dropped
    """

    card: BorrowedCard
    ssid: str
    config: Path
    logs: Path
    timeout_s: float
    dropped_frames: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)

    def read_version(self) -> str:
        """Return the version of wpa_supplicant."""
        done = subprocess.run(["wpa_supplicant", "-v"], capture_output=True, text=True,
                              check=False)
        return done.stdout.partition("\n")[0].removeprefix("wpa_supplicant ").strip()

    @contextmanager
    def run_programs(self) -> Iterator[CardStation]:
        """Run wpa_supplicant, and a capture if one is started, until the context ends.

        Raises:
            MeasureError: wpa_supplicant cannot use the card or its configuration.
        """
        with self._stack:
            self._start_supplicant()
            yield self

    def _start_supplicant(self) -> None:
        folder, name = self.card.folder, self.card.card_name
        control = folder / "control"
        settings = folder / "settings.conf"
        settings.write_text(_SETTINGS.format(control=control)
                            + _VISIBLE_EAPOL * (not self.card.monitor))
        daemon = self._start_daemon("wpa_supplicant", [
            "wpa_supplicant", "-i", name, "-D", "nl80211", "-c", str(self.config),
            "-I", str(settings)], r"Successfully initialized wpa_supplicant")
        until = time.monotonic() + _STOP_S
        while not (control / name).exists():
            if daemon.process.poll() is not None or time.monotonic() > until:
                raise MeasureError("testbed", f"wpa_supplicant does not take {name}: "
                                   f"{daemon.find_cause()} (log: {daemon.log})")
            time.sleep(_POLL_S)
        self._control = self._stack.enter_context(
            ControlSocket(control / name, f"wpa_supplicant on {name}"))
        self._control.send_command("DISCONNECT")
        self._network = self._find_network()
        # A user's file may change the address for this network.
        self._control.request(f"SET_NETWORK {self._network} mac_addr 0")

    def _start_daemon(self, name: str, command: Sequence[str], ready: str) -> Daemon:
        def start_program(output: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
            # The card's lock is held until all programs that use the card have ended.
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                    stderr=errors, pass_fds=[self.card.lock])

        try:
            daemon = self._stack.enter_context(
                Daemon(name, start_program, self.logs / f"{name}.log", ready))
        except FileNotFoundError:
            raise MeasureError("testbed", f"{name}: is not installed; install it") from None
        return daemon.wait_ready()

    def _find_network(self) -> str:
        names: dict[str, str] = {}
        for line in self._control.request("LIST_NETWORKS").splitlines()[1:]:
            number, name, *_ = line.split("\t")
            names.setdefault(decode_ssid(name), number)
        if self.ssid not in names:
            raise MeasureError("testbed", f"{self.config}: has no network with the SSID "
                               f"{self.ssid}; it has {', '.join(names) or 'none'}")
        return names[self.ssid]

    def start_capture(self) -> None:
        """Start to capture: all frames of the station with a monitor, else its EAPOL frames."""
        address = wireless.read_card(self.card.card_name).address
        expression = (_AIR_FILTER.format(mac=address) if self.card.monitor else _CARD_FILTER)
        # dumpcap gives up root's permission to write into folders of others.
        self._target = self.card.folder / CAPTURE
        self._capture = self._start_daemon("dumpcap", [
            "dumpcap", "-i", self.card.monitor or self.card.card_name, "-f", expression,
            "-B", str(_BUFFER_MB), "-w", str(self._target)], r"^File: ")

    def end_capture(self, capture: Path) -> None:
        """Wait until the capture has all frames, end it, and move it to a file."""
        time.sleep(_SETTLE_S)
        self._capture.stop()
        shutil.move(self._target, capture)
        counts = _COUNTS.search("\n".join(self._capture.last_lines()))
        self.dropped_frames = int(counts[2]) if counts else 0

    def log_in(self, number: int) -> Attempt:
        """Log in to the network, without scan results and cached keys of earlier logins."""
        self.leave_network()
        self._control.drop_events()
        attempt = Attempt("login", number, time.time())
        self._control.send_command(f"SELECT_NETWORK {self._network}")
        return self._await_connection(attempt)

    def roam_to(self, number: int, access_point: AccessPoint) -> Attempt:
        """Roam to an access point of the network."""
        self._control.drop_events()
        attempt = Attempt("roam", number, time.time(),
                          previous=self._control.read_status().get("bssid", ""))
        attempt.start_s = time.time()
        self._control.send_command(f"ROAM {access_point.bssid}")
        self._await_connection(attempt, access_point.bssid)
        if not attempt.reason and attempt.bssid != access_point.bssid:
            attempt.reason = f"the station is at {attempt.bssid}, not {access_point.bssid}"
        return attempt

    def leave_network(self) -> None:
        """Leave the network, and delete access points and cached keys."""
        self._control.send_command("DISABLE_NETWORK all")
        until = time.monotonic() + _STOP_S
        while self._control.read_status().get("wpa_state") not in {"DISCONNECTED", "INACTIVE"}:
            if time.monotonic() > until:
                raise MeasureError("link", f"{self.card.card_name}: wpa_supplicant does not leave "
                                   "the network; see its log in the results folder")
            time.sleep(_POLL_S)
        self._control.send_command("BSS_FLUSH 0")
        self._control.send_command("PMKSA_FLUSH")
        time.sleep(_PAUSE_S)

    def _await_connection(self, attempt: Attempt, bssid: str = "") -> Attempt:
        deadline_s = time.monotonic() + self.timeout_s
        connected = None
        while event := self._control.wait_event({_CONNECTED, *_FINAL}, deadline_s):
            if event.name in _FINAL:
                break
            if not bssid or bssid in event.text:
                connected = event
                break
        attempt.end_s = connected.at_s if connected else time.time()
        if connected is None:
            attempt.reason = _describe_failure(self._control.history, self.timeout_s)
            return attempt
        time.sleep(_PAUSE_S)
        status = self._control.read_status()
        attempt.bssid = status.get("bssid", "")
        attempt.frequency_mhz = int(status.get("freq", "0"))
        attempt.link = wireless.read_link(self.card.card_name)
        return attempt

    def list_access_points(self) -> list[AccessPoint]:
        """Return the network's access points in the scan results, the strongest signal first."""
        found = [AccessPoint(entry["bssid"], int(entry["freq"]), int(entry.get("level", 0)))
                 for entry in self._read_scan() if decode_ssid(entry.get("ssid", "")) == self.ssid]
        return sorted(found, key=lambda each: (-each.signal_dbm, each.bssid))

    def _read_scan(self) -> Iterator[dict[str, str]]:
        text = self._control.request("BSS FIRST")
        while "bssid=" in text:
            entry = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
            yield entry
            text = self._control.request(f"BSS NEXT-{entry['id']}")


def _describe_failure(events: Sequence[Event], timeout_s: float) -> str:
    """Return why an attempt failed, by the last event of wpa_supplicant that says it."""
    for event in sorted(events, key=lambda each: list(_TELLING).index(each.name)
                        if each.name in _TELLING else len(_TELLING)):
        if event.name in _TELLING:
            details = _DETAILS.search(event.text)
            return _TELLING[event.name] + (f" ({details[1]})" if details else "")
    return f"no connection within {timeout_s:g} s"
