"""Define the study drivetest: a station is driven past access points and roams by its signal.

`DriveTest` tells the measuring program what to vary (factors: policy and scenario) and what to
measure (metrics). It names the code that runs and evaluates a measurement, and the faults to
inject.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from measure.records.manifest import LevelRecord
from policies import Policy
from studies import policy_factors
from studies.drivetest import measurements, neighbors, path
from studies.drivetest.measurements import DriveMeasurements
from studies.drivetest.settings import DriveSettings
from studies.policy_factors import change_layer, control_cell, remove_layer
from studies.study import (
    Cell,
    Clock,
    ExpectedCost,
    Factor,
    Fault,
    Judgement,
    LabDefaults,
    Level,
    Metric,
    Repetition,
    Settings,
    Study,
    StudyError,
)
from studies.study import TestbedSpec as Spec
from topologies.loader import to_json
from topologies.model import DCF, Medium, Scenario

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results

POLICIES, SCENARIOS = ("M2", "M2-ft"), ("D1", "D2")
#: Fewest access points that a station visits in a drive with a roam.
_LEAST_VISITS = 2
#: Settings that no check of a drive covers, by layer.
_NOT_PROVEN: Mapping[str, Sequence[str]] = {
    "link": ("group_cipher", "passphrases", "owe_transition", "offered", "accepted",
             "station_pmf", "station_groups", "access_point_groups", "anti_clogging",
             "ft_over_ds"),
    "dot1x": ("message_authenticator", "accounting")}


def _refusal_reason(policy: Policy) -> str:
    """Return why the study cannot measure a policy, or "" if it can."""
    for layer, tunnel in (("ipsec", "IPsec"), ("wireguard", "WireGuard")):
        if getattr(policy.layers, layer):
            return f"{tunnel} is not measured here; leave layers.{layer} out, or run qop2007"
    link = policy.layers.link
    if policy.layers.dot1x and link is None:
        return ("802.1X without encryption is not measured here; add layers.link, or run qop2007")
    if link and link.is_wep:
        return "WEP is not measured here; write CCMP or GCMP, or run qop2007"
    if link and link.roaming in ("pmksa", "fils"):
        return (f"link.roaming {link.roaming} is not proven here; write ft or okc, or run qop2007")
    for layer, names in _NOT_PROVEN.items():
        for name in names:
            if getattr(getattr(policy.layers, layer), name, None):
                return f"{layer}.{name} is not proven here; leave it out, or run qop2007"
    return ("access points ask by UDP here; leave dot1x.transport out, or run qop2007"
            if policy.uses_radsec else "")


def _read_scenarios(names: Sequence[str], files: Sequence[Any]) -> list[Level]:
    return policy_factors.read_scenarios(names or (() if files else SCENARIOS), files, drives=True)


_ON = control_cell("M2", "D1")
#: Cells of controls for neighbor reports and for BSS transition requests.
_REPORTS = control_cell("examples/wpa2-psk-neighbor-report.yml", "D2")
_REQUESTS = control_cell("examples/wpa2-psk-bss-transition.yml", "D2")
_ALL_ROAMS = [measurements.VISITS, measurements.THRESHOLD, measurements.STRONGER,
              measurements.CONNECTED, measurements.EXCHANGE]


class DriveTest(Study):
    """The study of a station that is driven past access points and roams by its signal."""

    id: ClassVar[str] = "drivetest"
    title: ClassVar[str] = "A drive past access points"
    factors: ClassVar[tuple[Factor, ...]] = (
        Factor("policy", "Policy",
               policy_factors.PolicyReader(POLICIES, refusal=_refusal_reason),
               plural="policies", option="--policies", file_option="--policy",
               help="Protect the station's traffic by these policies without IPsec, names or "
               f".yml files (default: from the profile, else {', '.join(POLICIES)}).",
               file_help="Measure a policy file of your own (may be repeated)."),
        Factor("scenario", "Scenario", _read_scenarios, option="--scenarios",
               help="Measure these drives, names or .yml files (default: from the profile, else "
               f"{', '.join(SCENARIOS)})."))
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("roam_count", "roams", unit=""),
        Metric("roam_time_s", "roam", unit="ms", scale=1e3, better="lower", stops=True),
        Metric("roam_delay_s", "below the threshold until the roam", unit="s", better="lower"),
        Metric("probed_channels", "channels probed before a roam", unit="", better="lower"),
        Metric("leaving_signal_dbm", "signal when leaving", unit="dBm", better="higher",
               signed=True),
        Metric("joining_signal_dbm", "signal of the new access point", unit="dBm",
               signed=True),
        Metric("interruption_mean_s", "interruption, mean", unit="ms", scale=1e3, better="lower"),
        Metric("interruption_worst_s", "interruption, worst", unit="ms", scale=1e3, better="lower"),
        Metric("probe_losses", "lost probe packets", unit="", better="lower"))
    distributions: ClassVar[tuple[Metric, ...]] = (
        Metric("roam_times_s", "roams, each", unit="ms", scale=1e3),
        Metric("interruptions_s", "interruptions, each roam and direction", unit="ms", scale=1e3))
    faults: ClassVar[Mapping[str, Fault | str]] = {
        "drive-no-scans": Fault(
            "the station makes no background scans, and stays until it hears no beacon",
            on=_ON, fails=[measurements.VISITS, measurements.CONNECTED]),
        "drive-not-moved": Fault(
            "the kernel is not told that the station moves", on=_ON,
            fails=[measurements.PLACES, *_ALL_ROAMS]),
        "drive-commanded": Fault(
            "the harness commands a roam to an access point that is still far", on=_ON,
            fails=[measurements.VISITS, measurements.THRESHOLD, measurements.STRONGER]),
        "drive-cut-off": Fault(
            "the gateway drops what goes to the station in the second half of the drive", on=_ON,
            fails=[measurements.TRAFFIC]),
        "drive-without-ft": Fault(
            "access points and station have no fast transition", on=control_cell("M2-ft", "D1"),
            policy=change_layer("link", roaming=None), fails=[measurements.EXCHANGE]),
        "drive-without-reports": Fault(
            "access points have no neighbor reports, and the station scans all channels",
            on=_REPORTS, policy=change_layer("link", neighbor_report=0),
            fails=[measurements.REPORTS_SUPPORTED, measurements.REPORTS,
                   measurements.SCANS_NAMED, measurements.ROAMS_NAMED]),
        "drive-no-neighbors": Fault(
            "access points answer with an empty neighbor report", on=_REPORTS,
            fails=[measurements.REPORTS, measurements.SCANS_NAMED, measurements.ROAMS_NAMED]),
        "drive-other-neighbors": Fault(
            "access points name others, which do not exist, on the same channels", on=_REPORTS,
            fails=[measurements.REPORTS, measurements.ROAMS_NAMED]),
        "drive-report-ignored": Fault(
            "the station asks for a neighbor report, and scans all channels", on=_REPORTS,
            fails=[measurements.SCANS_NAMED]),
        "drive-without-transition": Fault(
            "access points have no BSS transition management, and the station scans by itself",
            on=_REQUESTS, policy=change_layer("link", bss_transition=0),
            fails=[measurements.TRANSITION_SUPPORTED, measurements.REQUESTS,
                   measurements.ACCEPTED, measurements.SCANS_NAMED, measurements.ROAMS_NAMED]),
        "drive-request-ignored": Fault(
            "the station takes no BSS transition requests, and scans by itself", on=_REQUESTS,
            fails=[measurements.TRANSITION_SUPPORTED, measurements.ACCEPTED,
                   measurements.SCANS_NAMED]),
        "drive-no-candidates": Fault(
            "access points ask the station to move, and name no candidate", on=_REQUESTS,
            fails=[measurements.VISITS, measurements.CONNECTED, measurements.REQUESTS,
                   measurements.ACCEPTED, measurements.SCANS_NAMED, measurements.ROAMS_NAMED]),
        "drive-in-clear": Fault(
            "no frame has the link's protection", on=_ON, policy=remove_layer("link"),
            fails=[measurements.EXCHANGE, measurements.PROTECTED])}
    judged_with: ClassVar[Sequence[str]] = policy_factors.JUDGED_WITH
    lab: ClassVar[LabDefaults] = LabDefaults(
        levels={"policy": "M2", "scenario": "D1"},
        node=lambda cell: str(cell.value("scenario").mobile_node))
    clock: ClassVar[Clock] = "virtual"
    settings_type: ClassVar[type[DriveSettings]] = DriveSettings
    measurements_type: ClassVar[type[DriveMeasurements]] = DriveMeasurements
    workload_module: ClassVar[str] = "studies.drivetest.workload"

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Restore a policy or a scenario from its content in a stored plan."""
        return policy_factors.restore_level(factor.name, name, entry)

    def testbed(self, cell: Cell, settings: Settings) -> Spec:
        """Describe the test network: the scenario's, with a policy.

        Raises:
            StudyError: the medium has no signal, or the drive leads to no roam.
        """
        assert isinstance(settings, DriveSettings)
        scenario: Scenario = cell.value("scenario")
        medium = _find_medium(settings.medium)
        policy_factors.load_scenario_medium(scenario, settings.medium, cell.value("policy"))
        visits = path.expected_visits(scenario, medium)
        if len(visits) < _LEAST_VISITS:
            raise StudyError(f"scenario {scenario.id}: on medium {medium.name} its station has no "
                             f"reason to leave {visits[0]}; drive farther, or raise threshold_dbm")
        link = cell.value("policy").layers.link
        if link and link.bss_transition and (
                why := neighbors.find_weak_candidate(scenario, medium)):
            raise StudyError(f"scenario {scenario.id}: a station takes each candidate above "
                             f"{neighbors.LEAST_CANDIDATE_DBM:.0f} dBm with link.bss_transition; "
                             f"{why}; lower threshold_dbm, or leave bss_transition out")
        # Only the guest's radios report a signal by position.
        return Spec(network=scenario.network, policy=cell.value("policy"), medium=medium,
                    clocks=("virtual", "processor"))

    def task(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:
        """Return the instructions for one repetition, with the scenario and hints for roaming."""
        assert isinstance(settings, DriveSettings)
        scenario, link = cell.value("scenario"), cell.value("policy").layers.link
        listed = neighbors.list_neighbors(scenario, _find_medium(settings.medium))
        return {**super().task(cell, settings), "scenario": to_json(scenario), "hints": {
            "neighbor_report": bool(link and link.neighbor_report),
            "bss_transition": bool(link and link.bss_transition),
            "neighbors": {name: [asdict(each) for each in others]
                          for name, others in listed.items()},
            "frequencies_mhz": sorted({each.frequency_mhz for others in listed.values()
                                       for each in others})}}

    def expected_cost(self, cell: Cell, settings: Settings) -> ExpectedCost:
        """Estimate the duration of a repetition: the drive, and the time around it."""
        length_s = _drive_s(cell)
        return ExpectedCost(duration_s=length_s / 4, processor_s=length_s / 4,
                            capture_bytes=60e3 * length_s)

    def deadline_s(self, cell: Cell, settings: Settings) -> float:
        """Return the longest time (s) that one repetition may take before it is aborted."""
        return 90.0 + 5 * _drive_s(cell)

    def check_clock(self, clock: Clock, settings: Settings) -> None:
        """Refuse a medium without a signal, because nothing would make the station roam."""
        assert isinstance(settings, DriveSettings)
        _find_medium(settings.medium)

    def judge(self, repetition: Repetition) -> Judgement:
        """Evaluate one repetition by captures of frames on the air and at the station."""
        from studies.drivetest import judge

        raw: dict[str, Any] = json.loads((repetition.out / "raw.json").read_text())
        return judge.judge_repetition(repetition, raw)

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return means over the roams of a repetition, and the number of lost packets."""
        roams, gaps_s = measured.roams, _gaps_s(measured)
        return {"roam_count": len(roams), "probe_losses": measured.lost_packets,
                "roam_delay_s": _mean_of([roam.begin_s - roam.weak_s for roam in roams
                                          if roam.weak_s is not None]),
                "probed_channels": _mean_of([len(roam.probed_mhz) for roam in roams]),
                "roam_time_s": _mean_of([roam.end_s - roam.begin_s for roam in roams]),
                "leaving_signal_dbm": _mean_of([roam.left_dbm for roam in roams]),
                "joining_signal_dbm": _mean_of([roam.joined_dbm for roam in roams]),
                "interruption_mean_s": _mean_of(gaps_s),
                "interruption_worst_s": max(gaps_s, default=None)}

    def samples(self, measured: Any) -> Mapping[str, Sequence[float]]:
        """Return the durations of the roams of a repetition, and its interruptions."""
        return {"roam_times_s": [roam.end_s - roam.begin_s for roam in measured.roams],
                "interruptions_s": _gaps_s(measured)}

    def series(self, measured: Any) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return the data for figures of a drive: positions, signals and roams over time."""
        from studies.drivetest import report

        return report.to_series(measured)

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Build the report with a drawing of each drive."""
        from studies.drivetest import report

        return report.build_report(self, results, options)


def _find_medium(name: str) -> Medium:
    """Read a medium on which radios know the signal of each other.

    Raises:
        StudyError: the medium is none of these.
    """
    medium = policy_factors.read_medium(name)
    if medium is None or medium.signal is None or not medium.management or medium.air != DCF:
        raise StudyError(f"setting medium: {name} has no signal by distance for management frames; "
                         "take 802.11b-positions, 802.11g-positions, or one with signal and "
                         "management")
    return medium


def _drive_s(cell: Cell) -> float:
    return float(cell.value("scenario").mobility.stop_s)


def _gaps_s(measured: DriveMeasurements) -> list[float]:
    return [gap_s for roam in measured.roams for gap_s in (roam.gap_down_s, roam.gap_up_s)
            if gap_s is not None]


def _mean_of(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


STUDY = DriveTest()
