"""Define the study releases: security policies with the daemons of several Debian releases.

`Releases` tells the measuring program what to vary (factors: release, policy, scenario) and what to
measure (metrics). It names the code that runs and evaluates a measurement, and builds the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from measure.checks import release
from measure.records.manifest import LevelRecord
from studies import policy_factors
from studies.release_factor import RELEASE_LEVELS, make_release_factor
from studies.releases.measurements import AUTHENTICATION, TITLES, ReleaseMeasurements
from studies.releases.settings import ReleaseSettings
from studies.study import (
    Cell,
    Clock,
    ExpectedCost,
    Factor,
    Fault,
    Judgement,
    Level,
    Metric,
    Repetition,
    Settings,
    Study,
)
from studies.study import TestbedSpec as Spec
from topologies.loader import to_json

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results

#: Those that are measured if the user names none. Testing is another one every day.
_STABLE = ("bookworm", "trixie")
#: Names of the packages in packages.yml with ML-KEM for IKE, and with QUIC's library.
MLKEM, QUIC = "mlkem", "quic"
#: Policies of 2007 and of today that a profile without policies measures.
_POLICIES = ("P1", "P2", "P8", "P12", "M2", "M3", "M4", "M5", "M6", "M13")


class Releases(Study):
    """The study of security policies on releases: what works, and what authentication takes."""

    id: ClassVar[str] = "releases"
    title: ClassVar[str] = "What an upgrade of Debian changes"
    factors: ClassVar[tuple[Factor, ...]] = (
        make_release_factor(_STABLE),
        Factor("policy", "Policy", policy_factors.PolicyReader(
            _POLICIES, beside=("P1",), has_mlkem=True, has_quic=True, has_mptcp=True,
            has_macsec=True, has_sessions=True),
               plural="policies", option="--policies", file_option="--policy",
               help="Measure these policies, names or .yml files (default: from the profile, else "
               f"{', '.join(_POLICIES)}).",
               file_help="Measure a policy file of your own (may be repeated)."),
        Factor("scenario", "Scenario", lambda names, files: policy_factors.read_scenarios(
            names or (() if files else ("N2",)), files), option="--scenarios",
            help="Measure in these scenarios, names or .yml files (default: N2)."))
    metrics: ClassVar[tuple[Metric, ...]] = (
        AUTHENTICATION,
        Metric("eap_packets", "EAP packets", unit="", better="lower"),
        Metric("eap_bytes", "EAP", unit="B", better="lower"),
        Metric("ike_packets", "IKE packets", unit="", better="lower"),
        Metric("round_trip_s", "round trip", unit="ms", scale=1e3, better="lower"))
    baseline: ClassVar[Mapping[str, str]] = {"release": "bookworm"}
    judged_with: ClassVar[Sequence[str]] = policy_factors.JUDGED_WITH
    judges_claims: ClassVar[bool] = True
    faults: ClassVar[Mapping[str, Fault | str]] = {"old-daemon": Fault(
        "hostapd of Debian 12 runs on a later release", daemons={"hostapd": "bookworm"},
        on={"release": "trixie", "policy": "M2", "scenario": "N2"}, fails=(release.NAME,))}
    settings_type: ClassVar[type[ReleaseSettings]] = ReleaseSettings
    measurements_type: ClassVar[type[ReleaseMeasurements]] = ReleaseMeasurements
    workload_module: ClassVar[str] = "studies.releases.workload"

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Restore a policy or scenario from its content in a stored plan."""
        return super().level(factor, name, entry) if factor.name == "release" \
            else policy_factors.restore_level(factor.name, name, entry)

    def testbed(self, cell: Cell, settings: Settings) -> Spec:
        """Describe the test network: a scenario's, on guests of a release.

        Raises:
            StudyError: the policy does not fit the scenario, such as MACsec without a wire.
        """
        assert isinstance(settings, ReleaseSettings)
        policy, scenario = cell.value("policy"), cell.value("scenario")
        policy_factors.check_sessions(policy, scenario)
        policy_factors.check_wires(policy, scenario)
        return Spec(network=scenario.network, policy=policy,
                    medium=policy_factors.load_scenario_medium(scenario, settings.medium, policy),
                    packages=MLKEM if policy.needs_mlkem else QUIC if policy.uses_quic else "",
                    release=cell.ids["release"])

    def task(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:
        """Return the instructions for the workload: the scenario and properties of the policy."""
        policy = cell.value("policy")
        return {**super().task(cell, settings), "scenario": to_json(cell.value("scenario")),
                "has_port": policy.uses_eap, "resumes": policy.resumes_sessions}

    def expected_cost(self, cell: Cell, settings: Settings) -> ExpectedCost:
        """Estimate the duration of a repetition: joining, and the echo requests."""
        return ExpectedCost(duration_s=3.0, processor_s=2.0, capture_bytes=60e3)

    def deadline_s(self, cell: Cell, settings: Settings) -> float:
        """Return the longest time (s) that one repetition may take before it is aborted."""
        return 240.0

    def check_clock(self, clock: Clock, settings: Settings) -> None:
        """Accept every clock: no stream waits by computing here."""

    def judge(self, repetition: Repetition) -> Judgement:
        """Evaluate one repetition by captures and kernel state."""
        from studies.releases import judge

        return judge.judge_repetition(repetition)

    def required_metrics(self, cell: Cell, settings: Settings,
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics that a repetition must have.

        Without a negotiation there is no authentication time.
        """
        layers = cell.value("policy").layers
        has_any = cell.value("policy").has_handshake or any((
            layers.ipsec, layers.wireguard, layers.quic, layers.mptcp))
        return [metric for metric in self.metrics if has_any or metric is not AUTHENTICATION]

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the metrics of a repetition, and each fact with its frames as text."""
        facts = measured.facts
        return {**{metric.name: getattr(measured, metric.name) for metric in self.metrics},
                **{name: facts[name].value if name in facts else "" for name in TITLES},
                **{f"{name}_frames": facts[name].describe_frames() if name in facts else ""
                   for name in TITLES}}

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Return the standard report with the tables of changes and findings."""
        from analysis.cells import Cells
        from analysis.reporting import release_changes, significance, standard_report
        from studies.releases.changes import make_finding_table
        from studies.releases.claims import judge_claims

        cells = Cells(results, options.get("baseline", "") or _choose_first_release(results))
        decisions = significance.decide_differences(cells)
        changes = release_changes.list_changes(cells, decisions, [AUTHENTICATION])
        changed = release_changes.make_change_table(cells, changes, [AUTHENTICATION],
                                                    "eap_packets", "EAP packets")
        return standard_report.make_standard_report(
            cells, self.run_table(cells),
            standard_report.ReportAdditions(
                tables=[changed, make_finding_table(cells)],
                prints=True, claims=judge_claims(cells), claimant="Köder et al.'s"), decisions)


def _choose_first_release(results: Results) -> str:
    """Return the choice of the first release as baseline, "" if the usual one was measured.

    With a single release there is nothing to compare.
    """
    measured = [level.id for level in RELEASE_LEVELS if level.id in set(results.frame["release"])]
    usual = results.baseline_levels.get("release")
    return f"release={measured[0]}" if len(measured) > 1 and usual not in measured else ""


STUDY = Releases()
