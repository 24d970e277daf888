"""Every check of the study has a control that fails it, or the documentation says why it has none.

What checks are called is read from the source: one that is added without a control is found out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, cast, get_args

import pytest

from conftest import PROJECT
from measure.agent.errors import MeasureError
from measure.capture.tcpdump import HEADERS, CapturePoint
from measure.checks.computed_packets import describe_login
from measure.packets.eap_radius_sizes import compute_packets
from policies import Policy, load_named, load_policy, policy_ids
from policies.alternatives import CHECKS
from policies.dot1x import InnerMethod
from policies.eap_methods import EapMethod
from policies.link import Cipher
from studies.qop2007 import fault_injection
from studies.qop2007.faults import FAULTS
from studies.study import Fault
from topologies.phy_rates import HE, HT, VHT

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

PAGE = (PROJECT / "docs" / "proof.md").read_text()
#: Modules that make checks of what others call them by, or for reports without a measurement.
OTHERS = {"measure/records/judgement.py", "studies/qop2007/synthetic_outcomes.py"}
#: What names that are put together may come to, by the expression in the source.
COMPOSED = {
    "measure/checks/layer_checks.py": {
        "f'{layer.cipher} on every data frame'":
            [f"{cipher} on every data frame" for cipher in get_args(Cipher)],
        "f'EAP method {layer.eap}'": [f"EAP method {method}" for method in get_args(EapMethod)]},
    "measure/checks/eap_tunnel.py": {
        "'mutual authentication' if is_mutual else 'server shows its certificate'":
            ["mutual authentication", "server shows its certificate"],
        "f'TLS {version}'": ["TLS 1.2", "TLS 1.3"],
        "INNER_USER_CHECK": ["user inside the tunnel has the realm"],
        "f'inner method {name}'": [f"inner method {inner}" for inner in get_args(InnerMethod)]},
    "measure/checks/alternatives.py": {"name": sorted(set(CHECKS.values()))},
    "measure/checks/key_management.py": {"HIDDEN_NETWORK_CHECK": ["hidden network"]},
    "measure/checks/network_services.py": {
        "AUTHENTICATOR_CHECK": ["server requires Message-Authenticator"],
        "FORWARDING_CHECK": ["server of the realm decides"]},
    "measure/checks/physical_layer.py": {
        "'association uses no HT' if phy.is_non_ht else f'association uses {phy.format}'":
            ["association uses no HT", *(f"association uses {name}" for name in (HT, VHT, HE))]},
    "measure/checks/macsec.py": {
        "'MACsec encrypts' if layer.is_encrypted else 'MACsec leaves frames in clear'":
            ["MACsec encrypts", "MACsec leaves frames in clear"]},
    "measure/checks/mobility.py": {
        "name": ["registered at home", "registered with the foreign agent",
                 "registered after the move"],
        "f'{kind} between the agents'": ["ESP between the agents", "IP-in-IP between the agents"]},
    "studies/qop2007/checks.py": {
        # Of any check that is here; of one authentication after the other.
        "f'{name} (earlier authentications)'": ["IKE proposal (earlier authentications)"]},
}


def names() -> Iterator[str]:
    """What the study's checks may be called, read from the modules that make them."""
    for folder in ("measure", "studies/qop2007"):
        for path in sorted((PROJECT / folder).rglob("*.py")):
            module = path.relative_to(PROJECT).as_posix()
            for node in ast.walk(ast.parse(path.read_text())) if module not in OTHERS else ():
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "Check":
                    said = node.args[0]
                    made = [said.value] if isinstance(said, ast.Constant) \
                        else COMPOSED[module][ast.unparse(said)]
                    yield from (f"WireGuard: {name}" if path.stem == "wireguard" else name
                                for name in made)


NAMES = sorted(set(names()))
_, _, TABLE = PAGE.partition("### qop2007: what each check is failed by")
ROWS = {columns[1].strip(): columns[3].strip() for line in TABLE.partition("\n###")[0].splitlines()
        if len(columns := line.split("|")) == 5}
_, _, WITHOUT = PAGE.partition("## What no control has failed yet")


def test_names_are_found() -> None:
    """The reading is not of nothing: checks of each layer are among them."""
    assert len(NAMES) > 80
    assert {"captures are complete", "no 802.1X", "WireGuard: carried", "SAE group",
            "evil twin cannot read traffic", "MOBIKE"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_check_has_a_control_or_a_reason(name: str) -> None:
    """Its row names controls that there are, which say that they fail it; or it is explained."""
    under = re.findall(r"`([^`]+)`", ROWS.get(name, ""))
    if under:
        assert all(name in FAULTS[control].fails for control in under)
    else:
        assert f"*{name}*" in " ".join(WITHOUT.split()), "neither a control nor a reason"


def test_each_control_that_fails_a_check_is_in_its_row() -> None:
    """By control its checks, by check its controls: both tables of the page say the same."""
    for control, fault in FAULTS.items():
        for name in fault.fails if fault.on else ():
            assert f"`{control}`" in ROWS[name], f"{name} does not name {control}"


def packets_of(policy: Policy) -> dict[str, Sequence[object]]:
    """Return the computed packets of a policy's authentication by check, none if not computed."""
    tls = policy.layers.dot1x and policy.layers.dot1x.tls
    login = describe_login(policy.layers, server="home", user="mobile-node", node="mn",
                           release="trixie" if tls and tls.is_post_quantum else "bookworm")
    packets = login and compute_packets(login)
    return {"EAP packets as computed": packets.eap, "RADIUS packets as computed": packets.radius} \
        if packets else {}


def load_policy_of(fault: Fault) -> Policy:
    """Return the policy of the cell that shows a control."""
    name = fault.on["policy"]
    return load_named(name) if name in policy_ids() else load_policy(PROJECT / name)


#: Controls whose change is not in the computed packets: an attribute, and the way of the packets.
UNCOMPUTED = ("further-attribute", "radius-by-udp")
#: Controls whose policy differs in a layer.
CHANGING = [name for name, fault in FAULTS.items() if fault.policy and fault.on
            and packets_of(load_policy_of(fault)) and fault.fails and name not in UNCOMPUTED]


@pytest.mark.parametrize("name", CHANGING)
def test_control_fails_the_checks_of_packets_that_it_changes(name: str) -> None:
    """What a control does to packets follows from its policy, as what a policy does."""
    fault = FAULTS[name]
    policy = load_policy_of(fault)
    assert fault.policy is not None
    expected, of_fault = packets_of(policy), packets_of(fault.policy(policy))
    changed = {check for check, packets in expected.items() if of_fault.get(check) != packets}
    assert changed == {*fault.fails} & {*expected}


class Tunnels:
    """A testbed whose nodes have these IPsec policies."""

    def __init__(self, policies: str) -> None:
        self.policies = policies
        self.deleted: list[list[str]] = []

    def run_command(self, _node: str, argv: list[str]) -> str:
        """Answer `ip xfrm policy list`, and note what is deleted."""
        if "delete" in argv:
            self.deleted.append(argv)
        return self.policies


_TUNNEL = """src 10.1.0.12/32 dst 0.0.0.0/0
\tdir out priority 375423 ptype main
\ttmpl src 10.1.0.12 dst 10.1.0.1
\t\tproto esp reqid 1 mode tunnel
"""
_HELD = "src 10.1.0.12/32 dst 0.0.0.0/0\n\tdir out action block priority 399999 ptype main\n"


def test_control_deletes_the_policies_of_a_tunnel() -> None:
    testbed = Tunnels(_TUNNEL + _HELD)
    fault_injection._delete_policies(cast("Testbed", testbed), "a2", {"10.1.0.12"})
    assert len(testbed.deleted) == 2


@pytest.mark.parametrize("policies", ["", _HELD, _TUNNEL.replace("10.1.0.12", "10.1.0.13")])
def test_control_without_a_tunnel_to_delete_is_refused(policies: str) -> None:
    with pytest.raises(MeasureError, match="a2 has no IPsec policy with a tunnel"):
        fault_injection._delete_policies(cast("Testbed", Tunnels(policies)), "a2", {"10.1.0.12"})


def test_lossy_capture_without_a_capture_on_the_wire_is_refused() -> None:
    with (pytest.raises(MeasureError, match="needs a capture on the wire"),
          fault_injection.capturing_streams(fault_injection.LOSSY, nullcontext,
                                            [CapturePoint("air", None, "hwsim0")],
                                            HEADERS)):
        pytest.fail("nothing may run")
