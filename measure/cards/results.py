"""Make the record of logins and roams that were measured with an 802.11 card.

`make_samples` takes the attempts of a station and the explanation of its capture. It yields a
`Sample` for each attempt. `CardRecord` is the whole record. It has the properties in which real
radios differ from emulated radios: channels, regulatory domain, rates and retries. `write_record`
and `read_record` write and read its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from measure.agent.errors import MeasureError
from measure.cards.station import Attempt, to_channel
from measure.explain.messages import AUTHENTICATION, FOUR_WAY, POLICY_FIELDS
from measure.records.document import DIGEST_FIELD, matches_digest, seal_text
from measure.records.record import RecordPart, describe_validation_error, read_document

#: File of the record in a results folder, and folder of its captures.
FILE, CAPTURES = "measurement.json", "captures/card"
#: Beginnings of AKM suites whose keys come from EAP, and frames of open authentication, to which
#: SAE adds some.
_EAP_AKMS, _OPEN_PACKETS = ("802.1X", "FT-802.1X", "Suite-B"), 2
#: Time by which a capture's clock and that of wpa_supplicant's events may differ, in s.
_MARGIN_S = 0.05
#: What a capture at the station itself does not have.
MISSING_WITHOUT_MONITOR = ("scan", "authentication", "association", "retries of 802.11",
                           "roam times", "whether data frames are encrypted as agreed")


class Phase(RecordPart):
    """A phase of a login or roam: its start after the first message, duration (s) and packets."""

    name: str
    start_s: float
    duration_s: float
    packets: int


class Sample(RecordPart):
    """A login to a network, or a roam between two of its access points.

    - `reason`: why the login or roam failed, "" after a success
    - `duration_s`: time from the command to wpa_supplicant's event CTRL-EVENT-CONNECTED, or to the
      failure
    - `joining_s`: time from the first message to the last key message in the capture, None if the
      capture has no successful negotiation
    - `roam_times_s`: roam times by the definitions of `qop explain`, None for a login
    - `policy`, `policy_fields`: the policy that the capture shows, as text and by field, such as
      `akm`
    - `way`: source of the station's keys, such as `EAP`, `fast transition` or `cached key`
    - `link_retries`: messages that the 802.11 link sent again, with the Retry bit and an equal
      sequence number
    - `attempts`: negotiations during the login or roam
    - `link`: rates, signal and frame counters that the driver reports after the login or roam
    """

    kind: Literal["login", "roam"]
    number: int
    reason: str
    start_s: float
    duration_s: float
    joining_s: float | None
    bssid: str
    previous: str
    channel: int
    policy: str
    policy_fields: dict[str, str]
    way: str
    phases: list[Phase]
    waited_for_s: dict[str, float]
    roam_times_s: dict[str, float | None] | None
    link_retries: int
    attempts: int
    link: dict[str, Any]

    @property
    def group_key(self) -> tuple[str, str, str]:
        """Return kind, policy and source of keys, which samples of one mean share."""
        return self.kind, self.policy, self.way

    @property
    def phases_s(self) -> dict[str, float]:
        """Return the duration of each phase, in s."""
        return {phase.name: phase.duration_s for phase in self.phases}


class AccessPointRecord(RecordPart):
    """An access point of the network, as the station heard it."""

    bssid: str
    frequency_mhz: int
    channel: int
    signal_dbm: int


class CardRecord(RecordPart):
    """The record of a measurement with a card.

    - `medium`: `air`
    - `monitor_missing`: why there was no monitor interface, so that only the station's EAPOL frames
      were captured. "" if a monitor captured the 802.11 frames
    - `not_checked`: properties that a capture without a monitor cannot show
    - `regulatory_domain`: country code of the rules that applied, "00" for the world regulatory
      domain
    - `driver`: driver, version, firmware and bus of the card
    - `regulatory_rules`: its rules, as text
    - `dropped_frames`: frames that dumpcap dropped
    """

    schema_: Literal[1] = 1
    medium: Literal["air"] = "air"
    clock: Literal["real"] = "real"
    ssid: str
    card: str
    address: str
    driver: dict[str, str]
    programs: dict[str, str]
    regulatory_domain: str
    access_points: list[AccessPointRecord]
    monitor_missing: str
    not_checked: list[str]
    dropped_frames: int
    measured_at_s: float
    samples: list[Sample]
    regulatory_rules: tuple[str, ...] = ()
    content_sha256: str = ""


def make_samples(attempts: Sequence[Attempt], negotiations: Sequence[Mapping[str, Any]],
                 address: str) -> Iterator[Sample]:
    """Yield a sample for each attempt, with the phases of its negotiations in the capture.

    Args:
        attempts: Logins and roams in order of time.
        negotiations: Negotiations in the document of `qop explain`.
        address: MAC address of the station.
    """
    own = [each for each in negotiations if each["station"] == address]
    for attempt in attempts:
        inside = [each for each in own if attempt.start_s - _MARGIN_S <= each["start"]["time_s"]
                  <= attempt.end_s + _MARGIN_S]
        done = [each for each in inside if each["outcome"] == "success"]
        yield _make_sample(attempt, done[-1] if done else None, len(inside))


def _make_sample(attempt: Attempt, negotiation: Mapping[str, Any] | None, count: int) -> Sample:
    is_roam = attempt.kind == "roam"
    shown: dict[str, Any] = {
        "joining_s": None, "policy": "", "policy_fields": {}, "way": "", "phases": [],
        "waited_for_s": {}, "roam_times_s": None, "link_retries": 0}
    if negotiation:
        shown |= {"joining_s": negotiation["duration_s"],
                  "policy": negotiation["policy"]["title"], "way": describe_way(negotiation),
                  "policy_fields": {name: negotiation["policy"][name] for name in POLICY_FIELDS},
                  "phases": [Phase(**phase) for phase in negotiation["phases"]],
                  "waited_for_s": dict(negotiation["waited_for_s"]),
                  "roam_times_s": negotiation["roam_times_s"] if is_roam else None,
                  "link_retries": sum(each["is_link"] for each in negotiation["repeated"])}
    return Sample(
        kind="roam" if is_roam else "login", number=attempt.number, reason=attempt.reason,
        start_s=attempt.start_s, duration_s=round(attempt.duration_s, 6), bssid=attempt.bssid,
        previous=attempt.previous, channel=to_channel(attempt.frequency_mhz), attempts=count,
        link=dict(attempt.link), **shown)


def describe_way(negotiation: Mapping[str, Any]) -> str:
    """Return the source of a station's keys: fast transition, EAP or a cached key.

    The result is "" for other negotiations, such as a four-way handshake with a passphrase.
    """
    packets = {phase["name"]: phase["packets"] for phase in negotiation["phases"]}
    akm, session = negotiation["policy"]["akm"], negotiation["policy"]["session"]
    if akm.startswith("FT") and FOUR_WAY not in packets:
        return "fast transition"
    if negotiation["policy"]["eap"]:
        return f"EAP, {session} session" if session else "EAP"
    has_cached_key = akm.endswith("SAE") and packets.get(AUTHENTICATION, 0) <= _OPEN_PACKETS
    return "cached key" if has_cached_key or akm.startswith(_EAP_AKMS) else ""


def write_record(record: CardRecord, folder: Path) -> Path:
    """Write the record into a results folder, and return its path."""
    path = folder / FILE
    plain = record.model_copy(update={DIGEST_FIELD: ""})
    temporary = folder / f".{FILE}"
    temporary.write_text(seal_text(plain.model_dump_json(indent=1) + "\n"), encoding="utf-8")
    temporary.replace(path)
    return path


def read_record(folder: Path) -> CardRecord:
    """Read the record of a results folder.

    Raises:
        MeasureError: There is none, or it was altered or damaged.
    """
    path = folder / FILE
    try:
        text = read_document(path)
        if not matches_digest(text):
            raise MeasureError("data", f"{path}: is not what was written, by its {DIGEST_FIELD}; "
                               "measure again")
        return CardRecord.model_validate_json(text)
    except ValidationError as error:
        raise MeasureError("data", f"{path}: {describe_validation_error(error)}; no record of a "
                           "measurement with a card") from None
    except OSError as error:
        raise MeasureError("data", f"{path}: cannot be read ({error.strerror or error}); give a "
                           "folder of './qop measure'") from None
