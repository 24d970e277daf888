"""Evaluate a repetition's captures and return all checks of its policy, for any study.

The captures are decrypted with the run's keys. Each authentication is evaluated by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from measure import (
    challenges,
    counting,
    decryption,
    evidence,
    following,
    hidden,
    inside,
    management,
    mobility,
    observed,
    pcap,
    wireguard_in_force,
)
from measure.challenges import Challenged
from measure.dissect import Packet
from measure.inside import Inside
from measure.management import Management
from measure.observed import Check, Observed
from measure.points import AUTH, MOVE, TRAFFIC
from policies import Layers, Policy
from policies.dot1x import BY_CARD, TUNNELS
from policies.layers import MOBILE_IP
from topologies.model import ACCESS_POINT, Scenario


def verify(policy: Policy, repetition: Observed) -> list[Check]:
    """Return all checks of a policy, at home and away."""
    tunnel = wireguard_in_force.verify(repetition) if policy.uses_wireguard else ()
    server = _check_radsec(repetition) if policy.uses_radsec else ()
    wires = _check_macsec(policy, repetition) if policy.uses_macsec else ()
    name = [hidden.verify(repetition)] if hidden.hides_ssid(policy) else ()
    return [*evidence.verify_layers(policy, repetition), *name, *server, *wires, *tunnel,
            *counting.verify(repetition),
            *(following.verify(repetition) if repetition.tunnel_follows else
              mobility.verify(policy.layers.ipsec is not None, repetition))]


def _check_radsec(repetition: Observed) -> Iterable[Check]:
    # Imported here: the container image lacks the TLS library, and judges all other policies.
    from measure import radsec

    return radsec.verify(repetition)


def _check_macsec(policy: Policy, repetition: Observed) -> Iterable[Check]:
    # Imported here: the decryption needs that library, too.
    from measure import macsec

    assert policy.layers.wire is not None
    return macsec.verify(policy.layers.wire, repetition)


@dataclass(frozen=True)
class Dissected:
    """A repetition of a policy in a scenario: raw values, and packets by capture."""

    scenario: Scenario
    out: Path
    raw: Mapping[str, Any]
    packets: Mapping[str, Sequence[Packet]]
    secrets: Mapping[str, Mapping[str, str]]
    layers: Layers
    #: Keys that decrypt frames on the air, None if they cannot be known.
    keys: Sequence[str] | None

    def last_authentication(self) -> Observed:
        """Return the authentication before the traffic, including a later move."""
        packets = dict(self.packets)
        for name in [name for name in packets if name.startswith(f"{MOVE}-")]:
            of_home = AUTH + name.removeprefix(MOVE)
            packets[of_home] = [*packets.get(of_home, ()), *packets.pop(name)]
        return self._with_keys(observed.observe(self.scenario, self.raw, packets), [AUTH, MOVE])

    def earlier_authentication(self, name: str) -> Observed:
        """Return an earlier authentication, which is a part with its own raw values.

        The part is at home, unless it states a move.
        """
        its_own = replace(self.scenario, roams_to=self.raw["parts"][name].get("roams_to"))
        return self._with_keys(observed.observe_part(its_own, self.raw, name, self.packets), [name])

    def _with_keys(self, repetition: Observed, parts: Sequence[str]) -> Observed:
        """Return the results with the run's keys for judging them."""
        repetition = replace(
            repetition, has_link_keys=self.keys is not None, link_keys=self.keys or (),
            wires_key=bytes.fromhex(self.secrets.get("wires", {}).get("cak", "")),
            roaming=repetition.raw.get("roaming", ""), folder=self.out,
            management=self._management_frames(parts), inside=self._inner_frames(repetition, parts),
            challenges=self._recomputed_challenges(parts))
        if self.layers.mobility != MOBILE_IP:
            visit = self.scenario.visit if repetition.moves else None
            return repetition.with_visit(visit.ip if visit else "", self.layers.mobility)
        key = self.secrets.get("mobile_ip", {}).get("key_hex")
        if not key:
            return repetition
        files = [self.out / f"{part}-mn.pcap" for part in parts]
        passed = [message for file in files if file.exists()
                  for message in pcap.udp_payloads(file, mobility.PORT)]
        return replace(repetition, registration_key=bytes.fromhex(key),
                       registrations=[message for message in passed if message[1]])


    def _management_frames(self, parts: Sequence[str]) -> list[Management]:
        """Return the management frames, if the link is negotiated by them.

        Beacons of the stream are included if the policy protects them.
        """
        link = self.layers.link
        if link is None or link.is_wep:
            return []
        frames = [frame for part in parts if (file := self.out / f"{part}-air.pcap").exists()
                  for frame in management.read_frames(file, self.keys or ())]
        streaming = self.out / f"{TRAFFIC}-air.pcap"
        if AUTH in parts and link.beacon_protection and streaming.exists():
            frames += management.read_frames(streaming, subtype=management.BEACON)
        return frames

    def _inner_frames(self, repetition: Observed, parts: Sequence[str]) -> list[Inside]:
        """Return the EAP conversation inside TLS, if the policy states something about it."""
        dot1x = self.layers.dot1x
        if dot1x is None or (dot1x.tls is None and dot1x.eap not in TUNNELS):
            return []
        return [frame for part in parts if (file := self.out / f"{part}-mn.pcap").exists()
                for frame in inside.read_frames(file, repetition.raw.get("tls_keys", ()))]

    def _recomputed_challenges(self, parts: Sequence[str]) -> list[Challenged]:
        """Return the card's recomputed authentications, if the policy uses a card."""
        if self.layers.dot1x is None or self.layers.dot1x.eap not in BY_CARD:
            return []
        stations, wires = ([file for part in parts for point in points if (
            file := self.out / f"{part}-{point}.pcap").exists()]
            for points in (["mn"], decryption.WIRES))
        return challenges.recompute_all(stations, wires, self.secrets)


def _kernel_keys(raw: Mapping[str, Any], of: str = "link_keys") -> list[str]:
    """Return the keys that kernels showed, for all authentications."""
    return list(dict.fromkeys(key for each in (*raw.get("parts", {}).values(), raw)
                              for key in each.get(of, ())))


def _tls_keys(raw: Mapping[str, Any]) -> list[str]:
    """Return the keys that servers logged, for permanent connections and all authentications."""
    return [*raw.get("radsec_keys", ()), *(
        key for each in (*raw.get("parts", {}).values(), raw) for key in each.get("tls_keys", ()))]


def dissect_repetition(policy: Policy, scenario: Scenario, out: Path, raw: dict[str, Any],
                       secrets: Mapping[str, Mapping[str, str]]) -> Dissected:
    """Dissect a repetition's captures with the keys of its policy.

    Frames that the network's static WEP key does not decrypt stay encrypted.

    Args:
        policy: The policy of the cell.
        scenario: The scenario of the cell.
        out: The repetition's folder.
        raw: The raw values; `wep_key` is set for a static WEP key.
        secrets: The run's secrets.

    Raises:
        MeasureError: A capture cannot be read.
        OSError: A file is missing.
    """
    link, network = policy.layers.link, scenario.network
    if link is not None and link.keys == "static":
        raw["wep_key"] = "static"
    ssids = [network.nodes[name].ssid or "" for name in network.of_duty(ACCESS_POINT)]
    keys = decryption.keys_in_force(
        link, secrets["network"], out, parts=[*raw.get("parts", {}), AUTH, MOVE],
        ssids=list(dict.fromkeys(ssids)), kernel_keys=_kernel_keys(raw),
        tls_keys=_tls_keys(raw) if policy.uses_radsec else ()) if link else None
    if keys is not None and link is not None and link.keys != "static":
        # Companions authenticated before any capture, so their keys cannot be derived.
        keys += [f"{'wep' if link.is_wep else 'tk'}:{key}"
                 for key in _kernel_keys(raw, "companion_keys")]
    return Dissected(scenario, out, raw, observed.read_captures(raw, out, keys or ()), secrets,
                     policy.layers, keys)
