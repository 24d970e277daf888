"""What the study makes of networks with DHCP, a distant RADIUS server, and no Mobile IP."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

import studies
from conftest import PROJECT
from policies import DaemonOptions, Policy, load_named, load_policy
from studies import policy_factors
from studies.qop2007 import cells, measurements, phases
from studies.qop2007.measurements import AuthenticationRecord, Measurements, PhaseRecord
from studies.qop2007.study import STUDY
from studies.study import Cell, Level, StudyError
from topologies.loader import load_scenario


def test_no_registration_counts_without_a_home_agent() -> None:
    """An open network has nothing to add up, and EAP counts alone."""
    for policy, expected in (("P1", ()), ("M4", ("eap_home",)), ("M3", ("sae_home", "eap_home")),
                             ("P12", ("eap_home", "ike_home"))):
        assert phases.summed_components(load_named(policy), roaming=False,
                                        has_home_agent=False) == expected
    assert phases.authentication_time_s({}, ()) == 0.0
    assert phases.summed_components(load_named("M4"), roaming=False)[0] == "mip_registration_home"


def test_802_1x_needs_a_server() -> None:
    """A network without one serves other policies."""
    scenario = load_scenario("campus-0ms")
    nodes = {name: replace(node, radius_server=None)
             for name, node in scenario.network.nodes.items()}
    alone = replace(scenario, network=replace(scenario.network, nodes=nodes))
    with pytest.raises(StudyError, match=r"802.1X needs a RADIUS server, and ap-1 has none"):
        cells.check_radius_server(load_named("M4"), alone)
    cells.check_radius_server(load_named("M3"), alone)
    for name in ("N2", "R1", "campus-80ms"):
        cells.check_radius_server(load_named("M4"), load_scenario(name))


def with_server_name(option: str, value: str) -> Policy:
    """M4 whose station checks the server's name."""
    policy = load_named("M4")
    dot1x = policy.layers.dot1x.model_copy(update={"options": DaemonOptions(
        wpa_supplicant={option: value})})
    return policy.model_copy(update={"layers": policy.layers.model_copy(update={"dot1x": dot1x})})


@pytest.mark.parametrize(("option", "value", "scenario", "is_there"), [
    ("domain_match", "ha-a", "N2", True), ("domain_match", "HA-A", "E1", True),
    ("domain_match", "ha-a", "R1", False), ("domain_match", "ha-a;ha-b", "R1", True),
    ("domain_match", "ha-a", "campus-0ms", False), ("domain_match", "radius", "campus-0ms", True),
    ("domain_suffix_match", "a", "N2", False), ("domain_suffix_match", "ha-a", "N2", True)])
def test_name_of_a_server_is_one_of_the_scenario(option: str, value: str, scenario: str, *,
                                                 is_there: bool) -> None:
    """A station that expects another name would refuse the certificate, after minutes."""
    with nullcontext() if is_there else pytest.raises(
            StudyError, match=f"in scenario {scenario}: {option} is {value}, and the RADIUS "
            "server of .* is called"):
        cells.check_server_name(with_server_name(option, value), load_scenario(scenario))


def test_users_without_a_realm_do_not_pass_a_proxy() -> None:
    """A proxy forwards by the realm, and would authenticate others itself."""
    scenario = load_scenario(str(PROJECT / "examples/scenarios/radius-proxy.yml"))
    with pytest.raises(StudyError, match=r"the RADIUS server of ap forwards requests to home by "
                       r"realm, and users have none"):
        cells.check_realm(load_named("M4"), scenario)
    for name in ("eduroam", "wpa2-eap-realm", "wpa2-ttls-realm", "wpa2-psk"):
        cells.check_realm(load_policy(PROJECT / f"examples/{name}.yml"), scenario)
    cells.check_realm(load_named("M4"), load_scenario("campus-0ms"))


def test_reports_do_not_go_to_a_server_that_is_down() -> None:
    """hostapd sends accounting to the first server alone here."""
    scenario = load_scenario(str(PROJECT / "examples/scenarios/radius-failover.yml"))
    reporting = load_policy(PROJECT / "examples/wpa2-eap-accounting.yml")
    with pytest.raises(StudyError, match=r"dot1x.accounting has one server, and the first of"):
        cells.check_radius_server(reporting, scenario)
    cells.check_radius_server(load_named("M4"), scenario)


@pytest.mark.parametrize("study", ["adp1987", "authenticast1998", "kerberos2002", "krb5today",
                                   "releases"])
def test_studies_without_requests_of_their_own_refuse_what_these_prove(study: str) -> None:
    """A server that insists on Message-Authenticators is proven by two requests."""
    [policies] = [factor for factor in studies.load_study(study).factors
                  if factor.name == "policy"]
    with pytest.raises(StudyError, match="message_authenticator is proven by requests"):
        policies.read([], [PROJECT / "examples/wpa2-eap-message-authenticator.yml"])


@pytest.mark.parametrize("study", ["adp1987", "authenticast1998", "kerberos2002", "krb5today",
                                   "drivetest", "lecturehall", "releases"])
@pytest.mark.parametrize("example", ["wpa2-eap-tls-crl", "wpa2-eap-tls-ocsp"])
def test_studies_that_try_no_revoked_certificate_refuse_revocation(study: str,
                                                                   example: str) -> None:
    """Each repetition would end as not proven."""
    [policies] = [factor for factor in studies.load_study(study).factors
                  if factor.name == "policy"]
    with pytest.raises(StudyError, match="revocation is proven by a revoked certificate"):
        policies.read([], [PROJECT / "examples" / f"{example}.yml"])


@pytest.mark.parametrize("study", ["adp1987", "authenticast1998", "kerberos2002", "krb5today",
                                   "drivetest", "lecturehall", "releases"])
@pytest.mark.parametrize(("example", "field"), [("wpa2-peap-server-name", "server_name"),
                                                ("wpa2-eap-tls-server-domain", "server_domain")])
def test_studies_that_show_no_other_name_refuse_the_servers(study: str, example: str,
                                                            field: str) -> None:
    """Each repetition would end as not proven."""
    [policies] = [factor for factor in studies.load_study(study).factors
                  if factor.name == "policy"]
    with pytest.raises(StudyError, match=f"{field} is proven by a server with another name"):
        policies.read([], [PROJECT / "examples" / f"{example}.yml"])


def test_tunnels_that_need_an_address_at_once_are_refused() -> None:
    """WireGuard and MOBIKE; other tunnels wait for the lease."""
    scenario = load_scenario("campus-0ms")
    for policy in ("M10", "M10-mip", "M11"):
        with pytest.raises(StudyError, match="needs the address of laptop from the beginning"):
            cells.check_lease(load_named(policy), scenario)
        cells.check_lease(load_named(policy), load_scenario("E1"))
    for policy in ("P3", "P12", "M11-mip", "M12", "P1"):
        cells.check_lease(load_named(policy), scenario)


def test_a_session_is_resumed_between_subnets_of_one_server() -> None:
    """What counts is the server, and not the agent."""
    scenario = load_scenario("R1")
    tls = load_policy(PROJECT / "examples" / "wpa2-eap-tls.yml")
    layers = tls.layers.model_copy(update={"dot1x": tls.layers.dot1x.model_copy(update={
        "tls": tls.layers.dot1x.tls.model_copy(update={"sessions": "resumed"})})})
    resumed = tls.model_copy(update={"layers": layers})
    with pytest.raises(StudyError, match="have a RADIUS server each"):
        policy_factors.check_sessions(resumed, scenario)
    nodes = {name: replace(node, radius_server="cn-a") if name.startswith("ap-") else node
             for name, node in scenario.network.nodes.items()}
    network = replace(scenario.network, nodes=nodes)
    policy_factors.check_sessions(resumed, replace(scenario, network=network))


def test_connection_time_is_asked_for_with_dhcp() -> None:
    """It is a metric of such cells, and missing from others."""
    def required(scenario: str) -> set[str]:
        policy, place = load_named("M4"), load_scenario(scenario)
        cell = Cell({"policy": Level("M4", value=policy), "scenario": Level(scenario, value=place)})
        return {metric.name for metric in STUDY.required_metrics(cell, STUDY.settings_type(), None)}
    assert required("campus-0ms") - required("E1") == {"connection_time_s"}


def phase(name: str, start_s: float, duration_s: float) -> PhaseRecord:
    """A phase with some packets."""
    return PhaseRecord(name=name, start_s=start_s, duration_s=duration_s, packets=2)


def test_connection_time_ends_with_the_first_answer_at_home() -> None:
    """From the order to connect on, as a mean over the authentications."""
    def body(*stays: list[PhaseRecord]) -> Measurements:
        return Measurements(
            schema=2, authentication_time_s=0.0, authentication_sum=[], handoff=[], tcp=None,
            udp=None, authentications=[AuthenticationRecord(components_s={}, phases=each)
                                       for each in stays])
    leased = [phase("scan", 0.1, 0.1), phase("dhcp", 0.3, 0.01), phase("first_packet", 0.31, 0.02),
              phase("foreign_first_packet", 0.9, 0.1)]
    later = [phase("dhcp", 0.3, 0.01), phase("first_packet", 0.31, 0.04)]
    row = measurements.row_from_body(body(leased, later))
    assert row["connection_time_s"] == pytest.approx(0.34)
    assert measurements.row_from_body(body(leased[2:]))["connection_time_s"] is None
