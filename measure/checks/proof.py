"""Prove from the captures of a repetition that its policy was applied.

A repetition is one measurement of a policy. A check is a statement that holds or fails, such as
"EAP-Success". `verify_policy` collects the checks of all modules of this package. Every study
that measures a policy over the air needs them:

- A study of authentications calls `dissect_repetition`, which decrypts the captures. For each
  authentication it then calls `verify_policy`.
- A study whose own programs communicate over the air calls `verify_repetition`, which does both and
  returns records (`CheckRecord`). If it needs the decrypted data itself, it calls
  `build_air_observation` and then `make_check_records`.

The inputs are the policy, the scenario, the captures, the run's secrets and the raw values. Raw
values are what was stored in the guest (`raw.json`), such as time stamps and kernel state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from measure.capture import pcap, tcpdump
from measure.capture.tcpdump import AUTH, MOVE, TRAFFIC
from measure.capture.tshark import Packet
from measure.checks import (
    address_translation,
    alternatives,
    ipv6,
    key_management,
    layer_checks,
    mobility,
    mptcp,
    network_services,
    observation,
    packet_counts,
    quic,
    revocation,
    server_name,
    vlans,
)
from measure.checks.computed_packets import describe_login
from measure.checks.observation import Check, Observation
from measure.checks.release import find_daemon_release
from measure.packets import decryption_keys, eap, management_frames
from measure.packets.eap import AkaAuthentication, InnerEapFrame
from measure.packets.eap_tls_sizes import EapLogin
from measure.packets.management_frames import ManagementFrame
from measure.records import judgement
from measure.records.record import CheckRecord
from measure.services.other_releases import OPENSSL
from policies import Layers, Policy
from policies.eap_methods import TUNNELS, USIM_METHODS
from policies.layers import MOBILE_IP
from topologies.model import ACCESS_POINT, STATION, Scenario


def verify_policy(policy: Policy, repetition: Observation) -> list[Check]:
    """Return all checks of a policy on one authentication, with the traffic and move after it.

    Args:
        policy: The policy of the cell.
        repetition: Raw values and decrypted packets of the authentication
            (`DissectedRepetition.last_authentication` or `earlier_authentication`).
    """
    wireguard = policy.layers.wireguard
    tunnel = mobility.check_wireguard(wireguard, repetition) if wireguard else \
        quic.check_quic(policy.layers.quic, repetition) if policy.layers.quic else \
        mptcp.check_mptcp(repetition) if policy.layers.mptcp else ()
    server = _check_radsec(policy, repetition) if policy.uses_radsec else ()
    wires = _check_macsec(policy, repetition) if policy.uses_macsec else ()
    name = [key_management.check_hidden_network(repetition)] if key_management.hides_ssid(
        policy) else ()
    forwarded = [network_services.check_forwarding(
        policy.user_realm, repetition)] if policy.user_realm and repetition.forwards_to else ()
    accounted = [
        network_services.check_accounting(repetition)] if policy.has_accounting else ()
    authentic = [network_services.check_message_authenticator(
        repetition)] if policy.requires_message_authenticator else ()
    link = policy.layers.link
    tagged = vlans.check_vlan(link, repetition) if link and link.vlan else ()
    revoked = revocation.check_revocation(
        policy.revocation_method, repetition) if policy.revocation_method else ()
    tls = policy.server_name_tls
    named = [server_name.check_server_name(tls, repetition)] if tls else ()
    # An authentication without traffic does not idle behind the router.
    translated = address_translation.check_translation(
        policy.layers, repetition) if repetition.translated and not repetition.part else ()
    # The study that makes these attempts has them in its raw values, whatever came of them.
    further = alternatives.check_alternatives(
        policy, repetition) if "alternatives" in repetition.raw else ()
    return [*layer_checks.verify_layers(policy, repetition), *name, *server, *authentic, *revoked,
            *named, *further, *accounted, *forwarded, *tagged, *translated, *wires, *tunnel,
            *packet_counts.check_packet_counts(repetition),
            *network_services.check_services(policy.uses_eap, repetition),
            *(ipv6.check_ipv6(repetition) if repetition.ipv6_ends else ()),
            *(mobility.check_mobility(policy.layers.ipsec is not None, repetition)
              if repetition.has_mobile_ip else mobility.check_no_mobile_ip(repetition))]


#: Checks whose evidence has no frame on the air: captures at the mobile node's interface and on
#: wires, logs and kernel state.
WITHOUT_AIR = frozenset({
    "captures are complete", "station is associated", "EAP-Success", "mutual authentication",
    "EAP packets as computed", "RADIUS packets as computed", "identity is hidden",
    "TLS certificate keys", "TLS certificate chain", "TLS fragments", "TLS group",
    "post-quantum certificates",
    "registered at home", "registration is authentic", "authentications",
    "each authentication starts without earlier state"})
#: Beginnings of further ones, which name what a policy has.
_WITHOUT_AIR_BEGINNINGS = ("EAP method ", "inner method", "TLS 1.")
_EARLIER = " (earlier authentications)"


def split_without_air(checks: Sequence[Check]) -> tuple[list[Check], list[str]]:
    """Split the checks of a repetition without a capture of the air.

    A check that is not known to have other evidence is not made: without frames, it might hold.

    Returns:
        The checks that have evidence, and the names of the checks that cannot be made.
    """
    verified_checks = [check for check in checks if (
        name := check.check.removesuffix(_EARLIER)) in WITHOUT_AIR
            or name.startswith(_WITHOUT_AIR_BEGINNINGS)]
    return verified_checks, [check.check for check in checks if check not in verified_checks]


def _check_radsec(policy: Policy, repetition: Observation) -> Iterable[Check]:
    # Imported here: the container image lacks the TLS library, and judges all other policies.
    from measure.checks import radsec

    tls = policy.layers.dot1x.tls if policy.layers.dot1x else None
    return radsec.check_radsec(repetition, (tls.group if tls else None) or "")


def _check_macsec(policy: Policy, repetition: Observation) -> Iterable[Check]:
    # Imported here: the decryption needs that library, too.
    from measure.checks import macsec

    assert policy.layers.wire is not None
    return macsec.check_macsec(policy.layers.wire, repetition)


#: Daemons that decide the sizes of EAP packets, and the one that adds attributes of RADIUS.
_COMPUTED_DAEMONS = frozenset(("wpa_supplicant", "freeradius"))
_ACCESS_POINT_DAEMON = "hostapd"


@dataclass(frozen=True)
class DissectedRepetition:
    """The data of one repetition for its checks: raw values, and packets by capture.

    - `scenario`, `layers`: the repetition's scenario, and the layers of its policy
    - `out`: folder of the repetition
    - `secrets`: secrets of the run, by place and name
    """

    scenario: Scenario
    out: Path
    raw: Mapping[str, Any]
    packets: Mapping[str, Sequence[Packet]]
    secrets: Mapping[str, Mapping[str, str]]
    layers: Layers
    #: Keys that decrypt frames on the air, None if they cannot be known.
    keys: Sequence[str] | None

    def last_authentication(self) -> Observation:
        """Return the results of the last authentication before the traffic, and of a later move."""
        packets = dict(self.packets)
        for name in [name for name in packets if name.startswith(f"{MOVE}-")]:
            of_home = AUTH + name.removeprefix(MOVE)
            packets[of_home] = [*packets.get(of_home, ()), *packets.pop(name)]
        return self._with_keys(observation.build_observation(self.scenario, self.raw, packets),
                               self.scenario, [AUTH, MOVE])

    def earlier_authentication(self, name: str) -> Observation:
        """Return the results of an earlier authentication, which has its own raw values.

        The mobile node is at home then, unless these values state a move.
        """
        its_own = replace(self.scenario, roams_to=self.raw["parts"][name].get("roams_to"))
        return self._with_keys(observation.build_part_observation(its_own, self.raw, name,
                                                                  self.packets), its_own, [name])

    def _with_keys(self, repetition: Observation, scenario: Scenario,
                   parts: Sequence[str]) -> Observation:
        """Return the results together with the run's keys, which checks need.

        Args:
            repetition: The results of these parts.
            scenario: The repetition's scenario, with the move that these parts have, if any.
            parts: Names of the parts, with which the names of captures begin.
        """
        repetition = replace(
            repetition, has_link_keys=self.keys is not None, link_keys=self.keys or (),
            passphrase=self.secrets.get("network", {}).get("passphrase", ""),
            sae_keys=self.secrets.get("network", {}).get("sae_pk", ""),
            ssids=tuple(self.scenario.network.nodes[name].ssid or "" for name
                        in self.scenario.network.of_duty(ACCESS_POINT)),
            radius_secret=self.secrets.get("network", {}).get("radius_secret", "").encode(),
            wires_key=bytes.fromhex(self.secrets.get("wires", {}).get("cak", "")),
            roaming=repetition.raw.get("roaming", ""), folder=self.out,
            management=self._management_frames(parts), inside=self._inner_frames(repetition, parts),
            challenges=self._recomputed_challenges(parts), logins=self._read_logins(parts),
            radius_logins=self._read_radius(repetition.mac, parts),
            has_computed_radius=_ACCESS_POINT_DAEMON not in self.raw.get("own_programs", ()),
            computed_logins=self._compute_logins(scenario))
        if self.layers.dot1x is not None and self.layers.dot1x.inner == "TLS":
            repetition = replace(repetition, nested=[
                eap.read_nested_eap_frames(stay, repetition.mac,
                                           repetition.raw.get("tls_keys", ()))
                for stay in repetition.split_by_attachment(repetition.inside)])
        if self.layers.mobility != MOBILE_IP:
            visit = self.scenario.visit if repetition.moves else None
            return repetition.with_visit(visit.ip if visit else "", self.layers.mobility,
                                         scenario.translated_address)
        key = self.secrets.get("mobile_ip", {}).get("key_hex")
        if not key:
            return repetition
        files = [self.out / f"{part}-mn.pcap" for part in parts]
        passed = [message for file in files if file.exists()
                  for message in pcap.udp_payloads(file, mobility.MOBILE_IP_PORT)]
        return replace(repetition, registration_key=bytes.fromhex(key),
                       registrations=[message for message in passed if message[1]])


    def _management_frames(self, parts: Sequence[str]) -> list[ManagementFrame]:
        """Return the management frames, if keys are negotiated by them.

        Beacons of the traffic capture are included if the policy protects them. They are also
        included in OWE transition mode, where an authentication may end before the hidden network's
        first beacon.
        """
        link = self.layers.link
        if link is None or link.is_wep:
            return []
        frames = [frame for part in parts if (file := self.out / f"{part}-air.pcap").exists()
                  for frame in management_frames.read_management_frames(file, self.keys or ())]
        streaming = self.out / f"{TRAFFIC}-air.pcap"
        if AUTH in parts and (link.beacon_protection or link.owe_transition) \
                and streaming.exists():
            frames += management_frames.read_management_frames(streaming,
                                                               subtype=management_frames.BEACON)
        return frames

    def _inner_frames(self, repetition: Observation, parts: Sequence[str]) -> list[InnerEapFrame]:
        """Return the EAP frames inside TLS.

        They are needed if the policy states a TLS version, a tunnelled method or an anonymous
        identity. For other policies, the result is empty.
        """
        dot1x = self.layers.dot1x
        if dot1x is None or not (dot1x.tls or dot1x.eap in TUNNELS
                                 or dot1x.identity == "anonymous"):
            return []
        return [frame for part in parts if (file := self.out / f"{part}-mn.pcap").exists()
                for frame in eap.read_inner_eap_frames(file, repetition.raw.get("tls_keys", ()))]

    def _read_logins(self, parts: Sequence[str]) -> list[tuple[float, list[bytes]]]:
        """Read each completed EAP authentication from the mobile node's captures.

        Returns:
            For each authentication, its end time and its EAP packets.
        """
        if self.layers.dot1x is None:
            return []
        return [login for part in parts if (file := self.out / f"{part}-mn.pcap").exists()
                for login in eap.split_authentications(pcap.eapol_frames(file))]

    def _read_radius(self, mac: str, parts: Sequence[str]) -> list[tuple[float, list[bytes]]]:
        """Read the RADIUS messages of each accepted authentication behind the access points.

        Returns:
            For each authentication of the mobile node, its end time and its messages.
        """
        if self.layers.dot1x is None:
            return []
        files = [file for part in parts for point in decryption_keys.WIRES
                 if (file := self.out / f"{part}-{point}.pcap").exists()]
        found: dict[tuple[bytes, ...], float] = {}  # two captures may show one wire
        for file in files:
            for ended_s, messages in eap.split_radius_logins(self._list_radius(file), mac):
                found.setdefault(tuple(messages), ended_s)
        return sorted((ended_s, list(messages)) for messages, ended_s in found.items())

    def _list_radius(self, file: Path) -> Iterable[tuple[float, bytes]]:
        """Return time and content of the RADIUS messages in a capture, also of those inside TLS."""
        assert self.layers.dot1x is not None
        if not self.layers.dot1x.uses_radsec:
            return pcap.udp_payloads(file, eap.RADIUS_PORT)
        # Imported here: the container image lacks the TLS library, and judges all other policies.
        from measure.checks import radsec

        records = radsec.read_tls_records(file, eap.RADSEC_PORT, _tls_keys(self.raw))
        return [(message.at_s, message.data) for message in radsec.parse_radius_messages(records)]

    def _compute_logins(self, scenario: Scenario) -> list[EapLogin]:
        """Return the inputs of an EAP authentication at each access point.

        The list is empty if both of two servers may answer, because their certificates have
        different names, and so different sizes. It is also empty if a daemon or package is the
        user's own, because its messages may have other sizes.
        """
        if self.raw.get("own_packages") or not _COMPUTED_DAEMONS.isdisjoint(
                self.raw.get("own_programs", ())):
            return []
        network, user = scenario.network, self.secrets.get("network", {}).get("eap_identity")
        points = [scenario.home, *([scenario.roams_to] if scenario.roams_to else [])]
        if not user or any(len(network.radius_servers_of(point)) > 1
                           and not network.fails_over(point) for point in points):
            return []
        # A server that forwards requests of a realm decides itself about users without one.
        forwards = self.layers.dot1x is not None and bool(self.layers.dot1x.realm_suffix)
        servers = {point: (scenario.deciding_servers.get(point) if forwards else "")
                   or network.radius_server_of(point) for point in points}
        return [login for point in points if (login := describe_login(
            self.layers, server=servers[point], user=user,
            node=scenario.mobile_node, access_point=point, ssid=network.nodes[point].ssid or "",
            release=find_daemon_release(self.raw, "freeradius"), openssl=(
                find_daemon_release(self.raw, f"freeradius{OPENSSL}"),
                find_daemon_release(self.raw, f"wpa_supplicant{OPENSSL}")))) is not None]

    def _recomputed_challenges(self, parts: Sequence[str]) -> list[AkaAuthentication]:
        """Return the EAP-AKA authentications, computed again, if the policy uses a SIM card."""
        if self.layers.dot1x is None or self.layers.dot1x.eap not in USIM_METHODS:
            return []
        stations, wires = ([file for part in parts for point in points if (
            file := self.out / f"{part}-{point}.pcap").exists()]
            for points in (["mn"], decryption_keys.WIRES))
        return eap.recompute_aka_authentications(stations, wires, self.secrets)


def _kernel_keys(raw: Mapping[str, Any], of: str = "link_keys") -> list[str]:
    """Return the keys that kernels showed during all authentications."""
    return list(dict.fromkeys(key for each in (*raw.get("parts", {}).values(), raw)
                              for key in each.get(of, ())))


def _tls_keys(raw: Mapping[str, Any]) -> list[str]:
    """Return the TLS keys that authentication servers logged, for all connections."""
    return [*raw.get("radsec_keys", ()), *(
        key for each in (*raw.get("parts", {}).values(), raw) for key in each.get("tls_keys", ()))]


def dissect_repetition(policy: Policy, scenario: Scenario, out: Path, raw: dict[str, Any],
                       secrets: Mapping[str, Mapping[str, str]]) -> DissectedRepetition:
    """Dissect and decrypt a repetition's captures with the keys of its policy.

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
    keys = decryption_keys.derive_decryption_keys(
        link, secrets["network"], out, parts=[*raw.get("parts", {}), AUTH, MOVE],
        ssids=list(dict.fromkeys(ssids)), kernel_keys=_kernel_keys(raw),
        tls_keys=_tls_keys(raw) if policy.uses_radsec else (),
        devices=[network.nodes[name].radio_mac for name in network.of_duty(STATION)],
    ) if link else None
    if keys is not None and link is not None and link.keys != "static":
        # Companions (further stations of the scenario) authenticated before any capture, so their
        # keys cannot be derived.
        keys += [f"{'wep' if link.is_wep else 'tk'}:{key}"
                 for key in _kernel_keys(raw, "companion_keys")]
    return DissectedRepetition(scenario, out, raw, observation.read_captures(raw, out, keys or ()),
                               secrets,
                               policy.layers, keys)


# --- Repetitions with a study's own programs on the air ---
# The programs ran within `WirelessAccess.attach_node` of `measure.mobile_node.attachment`. Raw
# values are those of the whole repetition.

def air_part_values(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the raw values of the part `air`, {} if the study used no wireless network."""
    values: dict[str, Any] = raw.get("parts", {}).get(tcpdump.AIR_PART, {})
    return values


def list_captures(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries of all captures: the study's own, and the wireless network's."""
    return [*raw.get("captures", ()), *air_part_values(raw).get("captures", ())]


def handoff_times(raw: Mapping[str, Any]) -> tuple[float, float]:
    """Return when the handoff started, and when the first packet was answered after it.

    Both are infinity without a handoff.
    """
    stamps = air_part_values(raw).get("stamps", {})
    never = (math.inf, math.inf)
    return (stamps["handoff"], stamps["foreign_first_packet"]) if "handoff" in stamps else never


def handoff_duration_s(raw: Mapping[str, Any]) -> float | None:
    """Return how long the handoff took in s, or None if there was none.

    The duration is rounded to 10 us. Reading the clock takes 5 us in virtual time, and times are
    written to a quarter of a microsecond. Smaller differences mean nothing, and would make two runs
    of a seed differ.
    """
    left_s, answered = handoff_times(raw)
    return None if math.isinf(left_s) else round(answered - left_s, 5)


def esp_keys(raw: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    """Return the keys of the IPsec SAs at both ends of the tunnel, empty without IPsec."""
    keys: Sequence[Mapping[str, str]] = air_part_values(raw).get("esp_keys", ())
    return keys


def build_air_observation(policy: Policy, scenario: Scenario, out: Path, raw: Mapping[str, Any],
                          secrets: Mapping[str, Mapping[str, str]]) -> Observation:
    """Decrypt what a repetition recorded of its wireless network, as input for checks.

    The result has the packets on the air and on wires, and the state of kernels.

    Raises:
        MeasureError: A capture cannot be read.
        OSError: A file is missing.
    """
    return dissect_repetition(policy, scenario, out, air_part_values(raw),
                              secrets).last_authentication()


def make_check_records(policy: Policy, repetition: Observation) -> list[CheckRecord]:
    """Return the checks of `verify_policy` in the form in which a record stores them."""
    return judgement.to_records(verify_policy(policy, repetition))


def verify_repetition(policy: Policy, scenario: Scenario, out: Path, raw: Mapping[str, Any],
                      secrets: Mapping[str, Mapping[str, str]]) -> list[CheckRecord]:
    """Decrypt a repetition's captures, and return all checks of its policy as records.

    Raises:
        MeasureError: A capture cannot be read.
        OSError: A file is missing.
    """
    return make_check_records(policy, build_air_observation(policy, scenario, out, raw, secrets))
