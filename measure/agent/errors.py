"""Describe why a measurement failed, with the cause that daemons' logs state (hostapd and others).

A `MeasureError` names the stage that was reached (such as dot1x or ike) and what failed there.
`find_cause` takes the lines of a daemon's log and returns those that say why. `describe_error`
returns the reason for the record, and `hide_secrets` removes keys and passwords from a text.
Standard library only: this runs inside the guest (the network's virtual machine) and outside.
"""

from __future__ import annotations

import json
import re
import subprocess
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


class MeasureError(RuntimeError):
    """An error: an emulated network could not be built, or a repetition not be measured.

    The text names node, event and log. `stage` states how far the repetition got: `testbed`,
    `link`, `dot1x`, `dhcp`, `slaac`, `registration`, `ike`, `data` or `stream`. `cause` is the
    cause from the daemons' logs, and ends the reason.
    """

    def __init__(self, stage: str, reason: str, cause: str = "") -> None:
        # Pass all arguments to the base class: pickling restores the error from them.
        super().__init__(stage, reason, cause)
        self.stage = stage
        self.reason = f"{reason}; {cause}" if cause else reason
        self.cause = cause

    def __str__(self) -> str:
        return self.reason


# --- Causes in daemons' logs ---
# Each program has lines that never state a cause, and lines that only hint at one.

_CODE = Path(__file__).parents[2]
#: Longest cause in characters, and most lines: more would hide the message itself.
_LONGEST, _MOST = 240, 2
#: Words that mark a line about a failure, in any program's log.
_TELLING = re.compile(
    r"fail|invalid|mismatch|refus|reject|denied|did not|not (found|allowed|supported|recogni[sz]ed"
    r"|permitted|trusted)|unknown|incorrect|unable|cannot|could not|\bno \w+( \w+)* found|error"
    r"|timed? ?out|expired|no such|unmet|already in use|exceed|inacceptable|no response|missing"
    r"|unexpected|forbidden|duplicate|out of range|unreachable", re.IGNORECASE)
#: Prefixes of a line's text: date and level, thread and connection, or interface.
_BEGINNINGS = (
    re.compile(r"^\w{3} \w{3} +\d+ [\d:]+ \d{4} : (?:\w+: )?"),
    re.compile(r"^\d+\[[A-Z]+\] (?:<[^>]*> ?)? *"),
    re.compile(r"^\(\d+\) +"),
    re.compile(r"^<\d>"),
    re.compile(r"^\S+: (?=STA |CTRL-EVENT|RSN: |WPA: |SME: |IEEE 802|AP-|interface state)"),
    re.compile(r"^STA (?:[0-9a-f]{2}:){5}[0-9a-f]{2} "))
#: The client and its number of requests say nothing about the cause.
_ENDING = re.compile(r"(: \[[^\]]*\])? \(from client .*$")
#: FreeRADIUS adds this to a rejection if it has no module to proxy to.
_IRRELEVANT = re.compile(r" \(Cannot proxy packets unless [^)]*\)")
_ERRNO = re.compile(r"\[Errno \d+\] ")
#: Lines of ansible-playbook's output.
_TASK = re.compile(r"^(?:TASK|RUNNING HANDLER) \[(.*)\] \**$")
_FATAL = re.compile(r"^(?:fatal|failed): \[([^\]]*)\].*?=> (\{.*)$")
_ANSIBLE_ERROR = re.compile(r"(?:\[ERROR\]: |ERROR! )(.*)")
_ANSIBLE_PREFIX = re.compile(r"^(?:Task failed: |Action failed: |Module failed: )+")
_NAMES_SECRET = re.compile(
    r"((?:\w*pass\w*|\w*psk|\w*secret\w*|wep_key\d|\w*pin)\b[^'\"]{0,20})(['\"]).*\2",
    re.IGNORECASE)
#: Least length of a value that no message may show.
_SECRET_LENGTH = 8


@dataclass(frozen=True)
class LogWords:
    """Patterns that tell which lines of a program's log state the cause of a failure.

    Lines with `noise` never state a cause. Lines with `weak` state that something failed, but not
    why: they count only if no other line does.
    """

    noise: re.Pattern[str]
    weak: re.Pattern[str]


def _join_patterns(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts) or r"(?!)")


_WPA = LogWords(
    noise=_join_patterns(
        "CTRL_IFACE: Detach monitor", "CTRL-EVENT-TERMINATING", "CTRL-EVENT-DSCP", "PMKSA-CACHE",
        "nl80211: deinit", "CTRL-EVENT-EAP-PEER", "CTRL-EVENT-EAP-METHOD",
        "Authentication succeeded", "CTRL-EVENT-EAP-STARTED", "TLV Result",
        "CTRL-EVENT-EAP-FAILURE"),
    weak=_join_patterns(
        "errors found in configuration", "Failed to set up interface", "Failed to initialize",
        "hostapd_free_hapd_data", "Unable to setup interface", "driver initialization failed",
        "Failed to read or parse", "failed to parse network block",
        "CTRL-EVENT-SSID-TEMP-DISABLED", "CTRL-EVENT-AUTH-REJECT", "CTRL-EVENT-ASSOC-REJECT",
        "CTRL-EVENT-EAP-TLS-CERT-ERROR", "SSL: SSL3 alert", "authentication failed - EAP type",
        "Driver does not support authentication/association", "CTRL-EVENT-DISCONNECTED",
        "kernel reports: key addition failed", "NL80211_ATTR_STA_VLAN"))
_RADIUS = LogWords(
    noise=_join_patterns("Info: ", "Login OK", "Debugger not attached"),
    weak=_join_patterns(
        "previously rejected", r"Login incorrect( \(Cannot proxy|:|$)",
        "Instantiation failed for module",
        "Failed initializing SSL context", "Failed to initialise", "Errors reading or parsing",
        "Failed parsing configuration item", "Error binding to port", "Alert read",
        "Alert write:fatal:internal error", "Error in error", "Failed reading from OpenSSL"))
_IKE = LogWords(
    noise=_join_patterns(r"^\d+\[(ENC|NET)\]", "opening directory"),
    weak=_join_patterns(
        "abort initialization", "invalid config file", "initialization failed", "aborting charon",
        "critical plugin features", "failed to load, "))
_ANY = LogWords(noise=_join_patterns(), weak=_join_patterns())
_WORDS = {"hostapd": _WPA, "wpa_supplicant": _WPA, "macsec": _WPA, "eap-server": _WPA,
          "eap_server": _WPA, "freeradius": _RADIUS, "radius_proxy": _RADIUS, "charon": _IKE,
          "swanctl": _IKE}


def find_cause(program: str, lines: Iterable[str], *, most: int = _MOST,
               takes_weak: bool = True) -> str:
    """Return the cause of a failure that a program's log states, or "".

    Args:
        program: The program, or its service.
        lines: Lines since the program last worked, oldest first.
        most: Upper limit of lines in the result; equal lines count once.
        takes_weak: Whether lines count that state a failure without its cause.
    """
    words = _WORDS.get(program, _ANY)
    telling = [line.strip() for line in lines
               if _TELLING.search(line) and not words.noise.search(line)]
    strong = [line for line in telling if not words.weak.search(line)]
    texts = dict.fromkeys(filter(None, map(_to_text, strong or telling * takes_weak)))
    return "; ".join([*texts][:most])


def find_ansible_cause(lines: Sequence[str]) -> str:
    """Return host, name and cause of the first failed task of ansible-playbook."""
    task = ""
    for line in lines:
        if match := _TASK.match(line):
            task = match[1]
        elif match := _FATAL.match(line):
            return f"{match[1]}: {task}: {_task_cause(match[2])}"
    errors = [match[1] for line in lines if (match := _ANSIBLE_ERROR.search(line))]
    return _to_text(errors[0]) if errors else last_line(lines)


def _task_cause(result: str) -> str:
    """Return the cause of a failure from the JSON result of an Ansible task."""
    try:
        parsed = json.loads(result)
    except ValueError:
        return _to_text(result)
    reasons = parsed.get("argument_errors") or [parsed.get("msg")]
    texts = [str(reason) for reason in reasons if reason] or ["no reason given"]
    if (ends := str(parsed.get("stderr") or parsed.get("module_stderr") or "").strip()) and (
            "MODULE FAILURE" in texts[0] or "non-zero return code" in texts[0]):
        texts = [ends.splitlines()[-1]]
    return _to_text("; ".join(_ANSIBLE_PREFIX.sub("", text) for text in texts[:_MOST]))


def last_line(lines: Sequence[str]) -> str:
    """Return the last line that is not empty, for failures without a known cause."""
    return next((_to_text(line) for line in reversed(lines) if line.strip()), "no output")


# --- Texts of errors, without secrets ---

def describe_error(error: BaseException) -> str:
    """Return the text that a record shows about an error in the guest."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if Path(frame.filename).is_relative_to(_CODE)]
    place = f"{Path(frames[-1].filename).relative_to(_CODE)}:{frames[-1].lineno}" if frames else \
        "the worker"
    return " ".join(f"the machine could not go on: {_error_text(error)} (at {place}; "
                    "console.log has the whole)".split())


def _error_text(error: BaseException) -> str:
    """Return the text of an error, with its class name only if the text alone is unclear."""
    if isinstance(error, subprocess.CalledProcessError):
        output = error.stderr or error.stdout or b""
        text = output.decode("utf-8", "replace") if isinstance(output, bytes) else str(output)
        program = error.cmd[0] if isinstance(error.cmd, list) else error.cmd
        return f"{program} ended with status {error.returncode}: {last_line(text.splitlines())}"
    if isinstance(error, OSError) and error.strerror:
        of = f" ({error.filename})" if error.filename else ""
        return f"the kernel says {error.strerror.lower()!r}{of}"
    output = str(error)[:400]
    return output if output and type(error) is RuntimeError else \
        f"{type(error).__name__} {output}".strip()


def hide_secrets(text: str, secrets: Collection[str]) -> str:
    """Replace secrets in a text: the given ones, and quoted values after a secret's name."""
    for secret in secrets:
        if len(secret) >= _SECRET_LENGTH:
            text = text.replace(secret, "(secret)")
    return _NAMES_SECRET.sub(r"\1(secret)", text)


def secret_values(places: Iterable[dict[str, str]]) -> Iterator[str]:
    """Yield the secrets of a run that are long hexadecimal strings."""
    for place in places:
        yield from (value for value in place.values() if re.fullmatch(r"[0-9a-f]{16,}", value))


def _to_text(line: str) -> str:
    text = line.strip()
    for beginning in _BEGINNINGS:
        text = beginning.sub("", text)
    for pattern in (_ENDING, _IRRELEVANT, _ERRNO):
        text = pattern.sub("", text)
    text = "".join(char if char.isprintable() else "?" for char in text).strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST - 3]}..."
