"""Describe how qop2007 measures a combination of security policy and scenario.

A combination is called a cell. `testbed_spec` describes its test network, `build_task` lists what
one measurement (repetition) does, and `estimate_costs` estimates its duration. The `check_`
functions refuse combinations that cannot be measured. Policies and scenarios are those of the 2007
paper or files of the user. The paper is Agarwal and Wang (2007). `studies.qop2007` lists the terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure.agent.time_limits import TimeLimits
from measure.agent.workload import HANDOFF_FULL, HANDOFF_PMKSA
from policies import AaaLayer, Policy, policy_ids
from policies.alternatives import list_tried_alternatives
from policies.eap_methods import USIM_METHODS
from policies.layers import MOBIKE, MOBILE_IP, WIREGUARD
from policies.loader import PAPER_IDS
from studies import policy_factors
from studies.qop2007.settings import STREAM_CAPTURES, Settings, parse_devices
from studies.study import Cell, ExpectedCost, Factor, Level, StudyError
from studies.study import TestbedSpec as Spec
from topologies.loader import scenario_ids, to_json
from topologies.model import ACCESS_POINT, LONGEST_WITH_VLAN, Medium, Scenario

# --- Factors: policies and scenarios, the paper's own and the user's ---

#: Scenarios of the paper, which are measured by default.
PAPER_SCENARIOS = ("N1", "N2", "N3", "R1", "R2")
#: Policy that a user's own policies are compared with by default.
BASELINE = "P1"


def _find_refusal(policy: Policy) -> str:
    """Return why this study cannot run a policy's EAP method or AAA server, or "" if it can."""
    aaa, dot1x = policy.layers.aaa, policy.layers.dot1x
    if dot1x is None:
        return ""
    if aaa is None or (dot1x.eap in USIM_METHODS and dot1x.tls is None
                       and aaa == AaaLayer(server="hostapd")):
        return ""
    return ("layers.aaa is for a card here, asked by its own network: with eap: AKA or AKA', and "
            "server: hostapd alone; leave out the rest, or choose the study eapload2004")


def _read_scenarios(names: Sequence[str], files: Sequence[Path]) -> Sequence[Level]:
    """Return scenarios by name or file, by default the five scenarios of the 2007 paper."""
    return policy_factors.read_scenarios(names or (() if files else PAPER_SCENARIOS), files,
                                         has_nat=True, has_ipv6=True)


FACTORS = (
    Factor("policy", "Policy",
           policy_factors.PolicyReader(PAPER_IDS, beside=[BASELINE], has_mlkem=True, has_quic=True,
                                       has_mptcp=True, has_macsec=True, has_sessions=True,
                                       has_server_tests=True, has_vlans=True, runs=["aaa"],
                                       refusal=_find_refusal),
           plural="policies", option="--policies", file_option="--policy",
           help="Measure these policies, separated by commas; './qop studies qop2007' lists them "
           "(default: from the profile, else P1 to P12).",
           file_help="Measure a policy file of your own beside P1 (may be repeated).",
           other_names=[name for name in policy_ids() if name not in PAPER_IDS]),
    Factor("scenario", "Scenario", _read_scenarios, option="--scenarios",
           help="Measure these scenarios, names or .yml files (default: from the profile, else "
           f"{', '.join(PAPER_SCENARIOS)}).",
           other_names=[name for name in scenario_ids()
                        if name not in (*PAPER_SCENARIOS, *policy_factors.DRIVES)]),
)


# --- Testbed, task and expected cost of a cell ---

#: Name of the strongSwan with ML-KEM in packages.yml.
MLKEM = "mlkem"
#: Name of the packages in packages.yml with QUIC's library.
QUIC = "quic"
#: Headers of IPv6 and UDP.
_IPV6_UDP_BYTES = 48
#: First security parameter index that RFC 5944 leaves to users.
SPI = 256
#: Time (s) of each further authentication or move on a busy machine.
_SLOWEST_FURTHER_S = 3.0
#: Ratio of UDP's offered rate to the medium's capacity, and its rate without a medium (bit/s).
_OVERLOAD, _UNLIMITED_OFFER_BPS = 1.1, 500e6
#: Time (s) to get on the network and to start and end captures and streams, and time of a move.
_FIXED_S, _MOVE_S = 1.0, 0.6
#: Rate of streams without a medium (bit/s), limited by kernel and processor.
_UNLIMITED_BPS = 300e6
#: Time (s), processor seconds and bytes of compressed captures of a further authentication.
_AUTHENTICATION_S, _AUTHENTICATION_PROCESSOR_S, _AUTHENTICATION_BYTES = 0.4, 0.25, 18e3
#: Idle time behind NAT beyond the router's time limit (s), and in periods of the policy's timers.
#: WireGuard answers data with a keepalive after 10 s.
_IDLE_MARGIN_S, _TIMERS_EXPIRE = 15.0, 2.5
#: Echo requests behind NAT that may stay without an answer until their time limit.
_PROBES_OF_NAT = 10
#: Processor seconds of a repetition, and of each megabyte each time that it is on the air.
_PROCESSOR_S, _PROCESSOR_S_PER_MB = 1.2, 0.09
#: Bytes of compressed captures: of an authentication, and per byte of a stream each time that it is
#: on the air.
_FIXED_BYTES, _SHARE_OF_STREAM = 60e3, 0.25


def load_medium(cell: Cell, settings: Settings) -> Medium | None:
    """Return the radio medium (bit rate and contention on the air) of a cell.

    Returns:
        The medium that the settings name, as the cell's policy can use it. None if the settings say
        `none`: the air then costs no time.

    Raises:
        StudyError: there is no medium of this name, or its file is faulty.
    """
    return policy_factors.fit_medium(policy_factors.read_medium(settings.medium),
                                     cell.value("policy"))


def testbed_spec(cell: Cell, settings: Settings) -> Spec:
    """Describe the test network of a policy and scenario, with medium and devices."""
    policy: Policy = cell.value("policy")
    scenario: Scenario = cell.value("scenario")
    if scenario.uses_ipv6:
        _check_payload(policy, scenario, settings)
    return Spec(network=scenario.network, policy=policy,
                medium=policy_factors.load_scenario_medium(scenario, settings.medium, policy),
                options={"spi": SPI, "detection": settings.detection},
                devices=parse_devices(settings.devices), packages=MLKEM if policy.needs_mlkem
                else QUIC if policy.uses_quic else "")


def build_task(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Return the instructions for one repetition, as data for the workload in the guest.

    Returns:
        Scenario, number of authentications and of moves, way to roam, and the streams. Stream sizes
        are in bytes, the UDP rate is in bit/s, and `move_stream_ms` is an interval in ms.
    """
    scenario: Scenario = cell.value("scenario")
    policy: Policy = cell.value("policy")
    return {"resumes": policy.resumes_sessions, "resumes_once": policy.resumes_once,
            "scenario": to_json(scenario),
            "authentications": settings.authentications,
            "moves": settings.moves if scenario.roams_to else 1,
            "has_port": policy.uses_eap,
            "probes_server": policy.requires_message_authenticator,
            "revoked": describe_revoked(policy),
            "other_name": tls.other_name if (tls := policy.server_name_tls) else "",
            "alternatives": [[*each] for each in list_tried_alternatives(policy.layers)],
            "roaming": roaming_mode(policy, scenario),
            "over_ds": moves_over_ds(policy, scenario),
            "idle_s": idle_behind_nat_s(policy, scenario),
            "move_stream_ms": settings.move_stream_ms if scenario.roams_to else 0, "streams": {
        "tcp_bytes": settings.stream_bytes, "udp_bytes": settings.stream_bytes,
        "udp_payload_bytes": settings.udp_payload_bytes,
        "udp_rate_bps": _offered_bps(cell, settings),
        "one_in": STREAM_CAPTURES[settings.stream_captures]}}


def describe_revoked(policy: Policy) -> dict[str, str] | None:
    """Return how a revoked certificate is tried, or None if the policy knows none."""
    tls = policy.layers.dot1x.tls if policy.layers.dot1x else None
    return {"version": tls.version, "realm": tls.realm or ""} if tls and tls.revocation else None


def goes_abroad(cell: Cell) -> bool:
    """Return whether the mobile node moves to another subnet in the scenario."""
    scenario: Scenario = cell.value("scenario")
    return scenario.foreign_agent is not None


def roaming_mode(policy: Policy, scenario: Scenario) -> str:
    """Return the 802.11 handoff method of the mobile node, such as `ft` (fast transition).

    The result is "" if the node does not move, or if it leaves its network before it joins another.
    """
    if scenario.roams_to is None or not (scenario.moves_on or scenario.foreign_agent is None):
        return ""
    link = policy.layers.link
    return (link.roaming if link else None) or HANDOFF_FULL


def keeps_keys(policy: Policy, scenario: Scenario) -> bool:
    """Return whether the mobile node moves with its keys, without authenticating again."""
    return roaming_mode(policy, scenario) not in ("", HANDOFF_FULL)


def idle_behind_nat_s(policy: Policy, scenario: Scenario) -> float:
    """Return how long the mobile node idles behind a router with NAT (s), 0 without one.

    The router would delete an idle mapping meanwhile, and a timer of the policy expires twice.
    """
    if scenario.visited_nat is None:
        return 0.0
    ipsec, wireguard = policy.layers.ipsec, policy.layers.wireguard
    timers_s = [*((ipsec.dpd, ipsec.keepalive) if ipsec else ()),
                *((wireguard.keepalive,) if wireguard else ())]
    longest_s: int = max(timer_s or 0 for timer_s in timers_s)
    return max(scenario.visited_nat.udp_timeout_s + _IDLE_MARGIN_S, _TIMERS_EXPIRE * longest_s)


def check_nat(policy: Policy, scenario: Scenario) -> None:
    """Refuse policies whose tunnel is not proven behind a router with NAT, and settings for NAT.

    Raises:
        StudyError: the scenario has NAT and the policy no tunnel for it, or the reverse.
    """
    at, ipsec = f"policy {policy.id} in scenario {scenario.id}", policy.layers.ipsec
    if scenario.visited_nat is not None and policy.layers.mobility not in (MOBIKE, WIREGUARD):
        raise StudyError(f"{at}: {scenario.foreign_agent} translates addresses, and behind it "
                         "tunnels are measured with MOBIKE or WireGuard; write ipsec.mobike: 1 or "
                         "wireguard.roams: 1, or choose a scenario without nat")
    for field in ("dpd", "keepalive") if scenario.visited_nat is None else ():
        if ipsec and getattr(ipsec, field):
            raise StudyError(f"{at}: ipsec.{field} is measured behind a router with NAT, and there "
                             f"is none; leave it out, or choose a scenario with nat")


def moves_over_ds(policy: Policy, scenario: Scenario) -> bool:
    """Return whether the mobile node asks for fast transition over the DS, not over the air."""
    link = policy.layers.link
    return bool(roaming_mode(policy, scenario) and link and link.ft_over_ds)


def check_move(policy: Policy, scenario: Scenario) -> None:
    """Refuse a fast handoff (802.11r, OKC or FILS) between access points in different subnets.

    Such access points share keys over one Ethernet segment, and a router separates them.

    Raises:
        StudyError: the policy needs shared keys, and the scenario moves past a router.
    """
    link = policy.layers.link
    if link is None or not scenario.moves_on or scenario.foreign_agent is None:
        return
    if link.roaming in (None, HANDOFF_PMKSA) or link.keys == "psk":
        return  # With a passphrase, each access point derives the keys itself.
    raise StudyError(
        f"policy {policy.id} in scenario {scenario.id}: roaming: {link.roaming} has access points "
        f"share keys on one wire, and a router is between {scenario.home} and {scenario.roams_to}; "
        "leave out roaming, write keys: psk, or choose a scenario within one subnet")


def check_vlan(policy: Policy, scenario: Scenario) -> None:
    """Refuse a VLAN where wires, agents or DHCP of the scenario cannot carry it.

    Raises:
        StudyError: the policy has a VLAN, and the scenario cannot have one.
    """
    if not policy.station_vlan:
        return
    network, used = scenario.network, dict.fromkeys((scenario.home, scenario.access_point))
    names = [name for access_point in used for name in network.nodes[access_point].interfaces]
    ends = [network.wire_beyond(name)[0] for name in network.of_duty(ACCESS_POINT)]
    why = (f"{scenario.mobile_node} gets its address by DHCP, whose server has no VLANs here"
           if scenario.uses_dhcp else
           f"{scenario.mobile_node} moves on without leaving first" if roaming_mode(
               policy, scenario) else
           "two access points lead to one agent" if len(set(ends)) < len(ends) else
           "the tunnel goes by an address in a subnet without VLANs"
           if scenario.foreign_agent and policy.layers.mobility != MOBILE_IP else
           f"the interface {max(names, key=len)} has more than {LONGEST_WITH_VLAN} characters"
           if max(map(len, names)) > LONGEST_WITH_VLAN else "")
    link = policy.layers.link
    if link and link.further_vlans and not scenario.companions:
        raise StudyError(f"policy {policy.id} in scenario {scenario.id}: link.further_vlans: "
                         f"{scenario.mobile_node} is the only station; leave out further_vlans, or "
                         "choose a scenario with other stations, such as N1")
    if why:
        raise StudyError(f"policy {policy.id} in scenario {scenario.id}: link.vlan: {why}; leave "
                         "out vlan, or choose another scenario")


def check_radius_server(policy: Policy, scenario: Scenario) -> None:
    """Refuse 802.1X where an access point has no RADIUS server. Raises StudyError."""
    for name in (scenario.home, scenario.access_point) if policy.uses_eap else ():
        if not scenario.network.radius_server_of(name):
            raise StudyError(
                f"policy {policy.id} in scenario {scenario.id}: 802.1X needs a RADIUS server, and "
                f"{name} has none; give {name} a radius_server in the network, or leave out dot1x")
        what = ("dot1x.transport: radsec" if policy.uses_radsec else "layers.aaa"
                if policy.layers.aaa else "dot1x.accounting" if policy.has_accounting else "")
        if scenario.network.fails_over(name) and what:
            raise StudyError(
                f"policy {policy.id} in scenario {scenario.id}: {what} has one server, and the "
                f"first of {name} is down; leave it out, or leave is_down out of the network")


def check_realm(policy: Policy, scenario: Scenario) -> None:
    """Refuse users without a realm in a scenario whose RADIUS server is a proxy.

    A proxy forwards requests by the realm. It would authenticate users without a realm itself.
    Raises StudyError.
    """
    if policy.uses_eap and not policy.user_realm:
        for access_point, server in scenario.realm_servers.items():
            raise StudyError(
                f"policy {policy.id} in scenario {scenario.id}: the RADIUS server of "
                f"{access_point} forwards requests to {server} by realm, and users have none; "
                "write for example dot1x.tls: {realm: home.example}, or choose a scenario without "
                "a proxy")


def check_server_name(policy: Policy, scenario: Scenario) -> None:
    """Refuse wpa_supplicant's name of a server that no server of the scenario has.

    A server's certificate has the name of its node. Raises StudyError.
    """
    settings = {setting.name: setting.value for setting in policy.layers.option_settings()
                if setting.daemon == "wpa_supplicant"}
    for option, is_suffix in (("domain_match", False), ("domain_suffix_match", True)):
        names = [name.casefold() for name in str(settings.get(option, "")).split(";") if name]
        for access_point, server in scenario.deciding_servers.items():
            if names and not any(server.casefold() == name or (
                    is_suffix and server.casefold().endswith(f".{name}")) for name in names):
                raise StudyError(
                    f"policy {policy.id} in scenario {scenario.id}: {option} is "
                    f"{settings[option]}, and the RADIUS server of {access_point} is called "
                    f"{server}; write {server}, names with semicolons, or choose another scenario")


def check_lease(policy: Policy, scenario: Scenario) -> None:
    """Refuse tunnels that need the node's address before DHCP assigns it. Raises StudyError.

    The devices of WireGuard, QUIC and Multipath TCP have the address from the beginning. charon
    with MOBIKE announces each address that it sees to appear, in further messages.
    """
    ipsec = policy.layers.ipsec
    tunnels = {"ipsec": ("mobike: 1", bool(ipsec and ipsec.mobike)),
               "wireguard": ("WireGuard", policy.uses_wireguard),
               "quic": ("QUIC", policy.uses_quic),
               "mptcp": ("Multipath TCP", policy.uses_mptcp)}
    found = [(layer, needs) for layer, (needs, is_used) in tunnels.items() if is_used]
    if not scenario.uses_dhcp or not found:
        return
    layer, needs = found[0]
    raise StudyError(
        f"policy {policy.id} in scenario {scenario.id}: layers.{layer}: {needs} needs the address "
        f"of {scenario.mobile_node} from the beginning, and DHCP assigns it later; leave it out, "
        "or leave out dhcp in the network")


def check_ipv6(policy: Policy, scenario: Scenario) -> None:
    """Refuse layers that are configured for IPv4 in scenarios with IPv6. Raises StudyError.

    These are tunnels of WireGuard, QUIC, Multipath TCP and MOBIKE, transport mode, and VLANs,
    outside of which router advertisements are sent.
    """
    ipsec = policy.layers.ipsec
    layer = "wireguard" if policy.uses_wireguard else "quic" if policy.uses_quic else \
        "mptcp" if policy.uses_mptcp else "ipsec.mobike" if ipsec and ipsec.mobike else \
        "ipsec.mode: transport" if ipsec and ipsec.mode == "transport" else \
        "link.vlan" if policy.station_vlan else ""
    if scenario.uses_ipv6 and layer:
        raise StudyError(
            f"policy {policy.id} in scenario {scenario.id}: layers.{layer} is for IPv4 here, and "
            "the scenario has ip: 6; leave out one of them")


def _check_payload(policy: Policy, scenario: Scenario, settings: Settings) -> None:
    """Refuse datagrams that are fragmented in IPv6, which captures do not reassemble."""
    from studies.qop2007.report.throughput_bounds import stream_path

    longest = stream_path(policy, scenario).limit_bytes - _IPV6_UDP_BYTES
    if settings.udp_payload_bytes > longest:
        raise StudyError(
            f"policy {policy.id} in scenario {scenario.id}: ip: 6: datagrams with a payload of "
            f"{settings.udp_payload_bytes} bytes are fragments in IPv6; write --udp-payload "
            f"{longest} or less")


def check_transport_mode(policy: Policy, scenario: Scenario) -> None:
    """Refuse ESP transport mode if the streams do not end at the home agent.

    Raises:
        StudyError: the policy uses transport mode, and the peer is not the home agent.
    """
    ipsec = policy.layers.ipsec
    if ipsec is None or ipsec.mode != "transport":
        return
    if scenario.peer != scenario.agent or scenario.foreign_agent is not None:
        raise StudyError(
            f"policy {policy.id} in scenario {scenario.id}: mode: transport protects packets "
            f"between {scenario.mobile_node} and {scenario.agent} alone, and its stream goes to "
            f"{scenario.peer}; write mode: tunnel, or choose a scenario within one subnet whose "
            "peer is the agent")


def deadline_s(cell: Cell, settings: Settings) -> float:
    """Return the longest time (s) that one repetition may take before it is aborted.

    The time is enough for the slowest streams that are accepted, and for all authentications and
    moves.
    """
    scenario: Scenario = cell.value("scenario")
    limits = TimeLimits(scenario.network, load_medium(cell, settings))
    size = settings.stream_bytes
    path = limits.to_peer(scenario)
    arrivals = settings.authentications + (settings.moves if scenario.roams_to else 0)
    further = settings.authentications + settings.moves - 2
    return (limits.tcp_stream_s(path, size)
            + limits.udp_stream_s(path, size, _offered_bps(cell, settings))
            + arrivals * limits.getting_on_s(scenario) + further * _SLOWEST_FURTHER_S
            + 2 * idle_behind_nat_s(cell.value("policy"), scenario)
            + (_PROBES_OF_NAT * limits.data_s(scenario) if scenario.visited_nat else 0.0))


def estimate_costs(cell: Cell, settings: Settings) -> ExpectedCost:
    """Estimate duration, CPU time and capture size of one repetition, before anything is measured.

    The estimate uses the highest rates that the medium allows, so it is equal for all policies. UDP
    is sent at the rate that one transmission over the air can carry, on every path.
    """
    scenario: Scenario = cell.value("scenario")
    size, air = settings.stream_bytes, load_medium(cell, settings)
    crossings = _count_crossings(scenario)
    tcp_bps = air.tcp_ceiling_bps() if air else _UNLIMITED_BPS
    udp_bps = air.udp_ceiling_bps(settings.udp_payload_bytes) if air else _UNLIMITED_BPS
    moves = settings.moves if scenario.roams_to else 0
    # After each move except the last, the node comes home once more.
    further = settings.authentications - 1 + max(0, moves - 1)
    fixed_s = (_FIXED_S + further * _AUTHENTICATION_S + moves * _MOVE_S
               + 2 * idle_behind_nat_s(cell.value("policy"), scenario))
    return ExpectedCost(
        duration_s=fixed_s + size * 8 * crossings / tcp_bps + size * 8 / udp_bps,
        processor_s=_PROCESSOR_S + further * _AUTHENTICATION_PROCESSOR_S
        + _PROCESSOR_S_PER_MB * 2 * size / 1e6 * crossings,
        capture_bytes=_FIXED_BYTES + further * _AUTHENTICATION_BYTES
        + 2 * size * crossings * _SHARE_OF_STREAM / STREAM_CAPTURES[settings.stream_captures])


def _count_crossings(scenario: Scenario) -> int:
    """Count how often a packet is sent over the air between mobile node and peer: once or twice."""
    return 2 if scenario.network.nodes[scenario.peer].has_duty("station") else 1


def _offered_bps(cell: Cell, settings: Settings) -> float:
    air = load_medium(cell, settings)
    return _OVERLOAD * air.udp_ceiling_bps(
        settings.udp_payload_bytes) if air else _UNLIMITED_OFFER_BPS
