"""Try the values that an end of a link or tunnel accepts besides the agreed value.

A policy may list several key managements, SAE groups or IPsec proposals (`policies.alternatives`).
`try_alternatives` makes one attempt for each value that no measured authentication uses: the other
end gets only this value, and the mobile node joins. It returns raw values and captures, which
`measure.checks.alternatives` checks. It runs in the guest, once in a testbed. Standard library
only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.agent import kernel_state
from measure.agent.errors import MeasureError
from measure.attacks import sae_flood
from measure.capture import tcpdump
from measure.capture.tcpdump import AIR_INTERFACE, CapturePoint, capture_packets
from measure.services.hostap import Hostapd

if TYPE_CHECKING:
    from measure.mobile_node.access import NetworkAccess
    from topologies.model import Scenario

#: Fields of a policy by the end of the link or tunnel whose setting an attempt replaces. The other
#: end has to accept the value.
_ACCESS_POINTS = {"link.accepted": "wpa_key_mgmt", "link.station_groups": "sae_groups"}
_STATIONS = {"link.access_point_groups": "sae_groups"}
_GATEWAYS = {"ipsec.esp_offered": "esp_proposals"}
_NODES = {"ipsec.esp_accepted": "esp_proposals", "ipsec.ike_accepted": "proposals"}
_ANTI_CLOGGING = "link.anti_clogging"
#: Group of SAE without a setting (P-256).
_USUAL_GROUP = 19
#: Capture point of an attempt's frames on the air, or of its IKE messages at the mobile node.
POINT = "alternative{}"
_IKE = "udp port 500 or udp port 4500"


@dataclass
class AlternativeTrials:
    """The results of all attempts: raw values, and summary and content of each capture."""

    raw: list[dict[str, Any]] = field(default_factory=list)
    captures: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)


def try_alternatives(access: NetworkAccess, scenario: Scenario,
                     alternatives: Sequence[Sequence[str]], out: Path) -> AlternativeTrials:
    """Let the mobile node join once for each alternative, and return the results.

    Args:
        access: The daemons of the policy, and the mobile node.
        scenario: The scenario, with mobile node and access point.
        alternatives: Field and value of each alternative (`policies.alternatives.Alternative`).
        out: Folder for captures.
    """
    trials = AlternativeTrials()
    for number, (name, value) in enumerate(alternatives, 1):
        raw: dict[str, Any] = {"field": name, "value": value, "cause": ""}
        taken: list[dict[str, Any]] = []
        point = _capture_point(access, scenario, name, POINT.format(number))
        access.reset_mobile_node(scenario)
        with (_replaced_setting(access, scenario, name, value),
              capture_packets(access.site.testbed, [point], tcpdump.WHOLE, part="port", out=out,
                              logs=access.site.logs, summaries=taken)):
            try:
                if name == _ANTI_CLOGGING:
                    _clog_access_point(access, scenario, int(value))
                _join_network(access, scenario, raw, is_renewed=name == "ipsec.esp_proposal")
            except MeasureError as error:
                raw["cause"] = error.reason
            tcpdump.settle_captures(access.site.testbed, tcpdump.WHOLE)
            access.reset_mobile_node(scenario)
        trials.raw.append(raw)
        trials.captures.extend((each, (out / each["file"]).read_bytes()) for each in taken)
    for name in scenario.companions:  # a restarted access point has forgotten these stations
        access.dismiss_companion(name)
    return trials


def _capture_point(access: NetworkAccess, scenario: Scenario, name: str,
                   point: str) -> CapturePoint:
    """Return where an attempt is captured: on the air, or at the mobile node's interface.

    Args:
        access: The daemons of the policy, and the mobile node.
        scenario: The scenario.
        name: The policy's field. Attempts with fields of `ipsec` are captured at the interface.
        point: Name of the capture point.
    """
    station = access.get_station(scenario.mobile_node)
    if name.startswith("ipsec."):
        return CapturePoint(point, station.name, station.radio, _IKE)
    return CapturePoint(point, None, AIR_INTERFACE, "type mgt")


def _join_network(access: NetworkAccess, scenario: Scenario, raw: dict[str, Any], *,
                  is_renewed: bool) -> None:
    """Let the mobile node join, and store the states of the kernels and of charon in `raw`.

    If `is_renewed` is set, the ESP keys are renewed before the states are read.

    Raises:
        MeasureError: The mobile node cannot join, or build its tunnel.
    """
    home = scenario.home
    station = access.get_station(scenario.mobile_node)
    try:
        access.attach_station(station.name, home)
    finally:
        flags = kernel_state.station_flags(access.site.testbed, home,
                                           access.site.network.nodes[home].radio_interface)
        raw["authorized"] = flags.get(station.mac, {}).get("authorized", "unknown")
    if access.has_ipsec:
        if is_renewed:
            station.renew_child()
        raw["ike_sas"] = station.ike_sas
        raw["sas"] = access.ipsec_states(scenario)


@contextmanager
def _replaced_setting(access: NetworkAccess, scenario: Scenario, name: str,
                      value: str) -> Iterator[None]:
    """Give one end a single value of a setting inside the context."""
    if name in _ACCESS_POINTS:
        with access.replace_access_point_setting(scenario.home, _ACCESS_POINTS[name], value):
            yield
    elif name in _STATIONS:
        with access.replace_station_setting(scenario.mobile_node, _STATIONS[name], value):
            yield
    elif name in _GATEWAYS or name in _NODES:
        node = scenario.agent if name in _GATEWAYS else scenario.mobile_node
        with access.replace_proposals(node, {**_GATEWAYS, **_NODES}[name], value):
            yield
    elif name == _ANTI_CLOGGING:
        with access.forgetting_access_point(scenario.home):
            yield
    else:
        yield


def _clog_access_point(access: NetworkAccess, scenario: Scenario, count: int) -> None:
    """Send SAE commits of `count` stations that do not exist to the access point.

    An access point answers this number of commits without asking for a token. The mobile node joins
    before the commits are sent, and leaves afterwards.

    Raises:
        MeasureError: The mobile node cannot join.
    """
    access.attach_station(scenario.mobile_node, scenario.home)
    settings = (access.site.mount / scenario.home / Hostapd.file).read_text()
    group = re.search(r"^sae_groups=(\d+)", settings, re.MULTILINE)
    sae_flood.send_commits(access.site.testbed, scenario.mobile_node, scenario.home, count,
                           int(group[1]) if group else _USUAL_GROUP,
                           is_h2e="\nsae_pwe=1\n" in settings)
    access.reset_mobile_node(scenario)


