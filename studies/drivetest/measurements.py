"""Define the measured values of a drive, as the JSON record of a measurement stores them."""

from __future__ import annotations

from pydantic import Field

from measure.records.record import RecordPart

#: Names of the checks, which negative controls refer to.
PLACES = "received signals follow from the positions"
VISITS = "roams where the signal demands it"
THRESHOLD = "leaves below its threshold"
STRONGER = "moves to a stronger access point"
CONNECTED = "roams while connected"
EXCHANGE = "each roam negotiates keys as the policy says"
PROTECTED = "protected as the policy says"
TRAFFIC = "traffic goes on after each roam"
#: Names of the checks of 802.11k and 802.11v. The first and the third are those of
#: `measure.checks.key_management`.
REPORTS_SUPPORTED = "neighbor reports supported"
REPORTS = "neighbor reports name the neighbors"
TRANSITION_SUPPORTED = "BSS transition supported"
REQUESTS = "BSS transition requests name the neighbors"
ACCEPTED = "BSS transition requests are accepted"
SCANS_NAMED = "scans the named channels only"
ROAMS_NAMED = "roams to a named access point"


class RoamRecord(RecordPart):
    """A roam of the station, by captured frames. Times are in s since the start of the drive.

    - `from_ap`, `to_ap`: names of the access points
    - `begin_s`, `end_s`: first authentication frame, and last frame before data may pass
    - `left_dbm`, `joined_dbm`: signal of the last beacon or probe response from each before it
    - `is_reassociation`: the station was still connected with the access point that it names
    - `fast`: the authentication was that of fast transition (FT)
    - `eapol_frames`, `eap_frames`: EAPOL frames of the roam, and those of them with EAP
    - `gap_down_s`, `gap_up_s`: longest time between two arrivals of probe packets during the roam,
      None if no packet arrived afterwards
    - `lost_down`, `lost_up`: probe packets lost during the roam
    - `weak_s`: first time on this access point when its signal was below the threshold, None if
      it never was
    - `probed_mhz`: frequencies of the station's probe requests on this access point
    """

    from_ap: str
    to_ap: str
    begin_s: float
    end_s: float
    left_dbm: float
    joined_dbm: float
    is_reassociation: bool
    fast: bool
    eapol_frames: int
    eap_frames: int
    gap_down_s: float | None
    gap_up_s: float | None
    lost_down: int
    lost_up: int
    weak_s: float | None = None
    probed_mhz: list[int] = Field(default_factory=list)


class DriveMeasurements(RecordPart):
    """Measured values of a repetition.

    - `roams`: all roams in order
    - `home`: access point at the start of the drive
    - `positions`: time (s since the start of the drive), x and y (m) of each step of the drive
    - `heard_dbm`: by access point, time and signal of its frames at the station, two a second
    - `lost_packets`: probe packets that never arrived, both directions, roams and the rest
    """

    roams: list[RoamRecord]
    home: str
    positions: list[tuple[float, float, float]]
    heard_dbm: dict[str, list[tuple[float, float]]]
    lost_packets: int
