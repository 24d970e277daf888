"""What a policy has in force in the mobile world is read from a repetition's files, for any study.

The captures are opened with the run's keys, each authentication is seen by itself, and every check
that the policy calls for is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from measure import counting, decryption, evidence, mobility, observed, pcap
from measure.dissect import Packet
from measure.observed import Check, Observed
from measure.points import AUTH, MOVE
from policies import Policy
from topologies.model import ACCESS_POINT, Scenario


def verify(policy: Policy, seen: Observed) -> list[Check]:
    """Every check that a policy calls for, at home and away."""
    return [*evidence.layers(policy, seen), *counting.verify(seen),
            *mobility.verify(policy.layers.ipsec is not None, seen)]


@dataclass(frozen=True)
class Dissected:
    """A repetition of a policy in a scenario: raw values, and packets by capture."""

    scenario: Scenario
    out: Path
    raw: Mapping[str, Any]
    packets: Mapping[str, Sequence[Packet]]
    secrets: Mapping[str, Mapping[str, str]]
    has_link_keys: bool

    def last(self) -> Observed:
        """The authentication after which traffic was sent; with what is of a move meanwhile."""
        packets = dict(self.packets)
        for name in [name for name in packets if name.startswith(f"{MOVE}-")]:
            of_home = AUTH + name.removeprefix(MOVE)
            packets[of_home] = [*packets.get(of_home, ()), *packets.pop(name)]
        return self._known(observed.observe(self.scenario, self.raw, packets), [AUTH, MOVE])

    def earlier(self, name: str) -> Observed:
        """One before it, which is a part of its own, and at home wherever the node goes then."""
        at_home = replace(self.scenario, roams_to=None)
        return self._known(observed.observe_part(at_home, self.raw, name, self.packets), [name])

    def _known(self, seen: Observed, parts: Sequence[str]) -> Observed:
        """What was seen, with the run's keys to judge it by."""
        seen = replace(seen, has_link_keys=self.has_link_keys)
        key = self.secrets.get("mobile_ip", {}).get("key_hex")
        if not key:
            return seen
        files = [self.out / f"{part}-mn.pcap" for part in parts]
        passed = [message for file in files if file.exists()
                  for message in pcap.udp_payloads(file, mobility.PORT)]
        return replace(seen, registration_key=bytes.fromhex(key),
                       registrations=[message for message in passed if message[1]])


def dissected(policy: Policy, scenario: Scenario, out: Path, raw: dict[str, Any],
              secrets: Mapping[str, Mapping[str, str]]) -> Dissected:
    """A repetition's captures with the keys in force. Raises MeasureError, OSError.

    Frames that the network's static WEP key does not decrypt show as such.
    """
    link, network = policy.layers.link, scenario.network
    if link is not None and link.keys == "static":
        raw["wep_key"] = "static"
    ssids = [network.nodes[name].ssid or "" for name in network.of_duty(ACCESS_POINT)]
    keys = decryption.keys_in_force(
        link, secrets["network"], out, parts=[*raw.get("parts", {}), AUTH, MOVE],
        ssids=list(dict.fromkeys(ssids))) if link else None
    return Dissected(scenario, out, raw, observed.captures(raw, out, keys or ()), secrets,
                     keys is not None)
