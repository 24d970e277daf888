"""Check the values that an end of a link or tunnel accepts besides the agreed value.

Once in a testbed, the mobile node joins for each such value, while the other end has only this
value (`measure.mobile_node.alternatives`). `check_alternatives` takes a policy and the results of a
repetition (one measurement of a policy). Frames on the air show key management and SAE groups. The
kernels have the ESP SAs, and the first IKE messages show the IKE proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from measure.attacks.sae_flood import STRANGER
from measure.capture import pcap, tshark
from measure.checks.key_management import AKM_SUITES
from measure.checks.observation import Check, Observation
from measure.mobile_node.alternatives import POINT
from measure.packets import ike, management_frames
from policies import Policy
from policies.alternatives import (
    ACCEPTED,
    ACCESS_POINT_GROUPS,
    ANTI_CLOGGING,
    CHECKS,
    ESP_ACCEPTED,
    ESP_GROUP,
    ESP_OFFERED,
    IKE_ACCEPTED,
    STATION_GROUPS,
    Alternative,
    list_tried_alternatives,
)

_COMMIT, _CONFIRM = 1, 2
#: Statuses of SAE commits (IEEE 802.11-2020, table 9-50).
_TOKEN_REQUIRED, _GROUP_REFUSED, _HASH_TO_ELEMENT = management_frames.SAE_STATUSES
#: SAs of a tunnel in the kernels of both ends, one for each direction.
_SAS_OF_BOTH_ENDS = 4
#: Types of IKE messages that negotiate new keys of ESP (RFC 7296, 3.1; RFC 2409, 5.5).
_RENEWALS = {1: 32, 2: 36}
#: What precedes a message of IKE where ESP has the same port.
_NO_ESP = bytes(4)
#: Bytes of a public key, by group (RFC 3526, 5903 and 8031).
_KEY_BYTES = {"modp1024": 128, "modp1536": 192, "modp2048": 256, "modp3072": 384, "modp4096": 512,
              "ecp256": 64, "ecp384": 96, "ecp521": 132, "curve25519": 32}
#: Bytes of the shortest message that renews keys without a group: header, initialisation vector,
#: SA, nonce, selectors and checksum. A group adds its public key and 8 bytes of header.
_RENEWAL_BYTES = 160


def check_alternatives(policy: Policy, observed: Observation) -> Iterator[Check]:
    """Yield a check for each field of a policy with values that no authentication uses."""
    wanted = list_tried_alternatives(policy.layers)
    tried: Sequence[Mapping[str, Any]] = observed.raw.get("alternatives", ())
    by_value = {Alternative(each["field"], each["value"]): (number, each)
                for number, each in enumerate(tried, 1)}
    for name in dict.fromkeys(CHECKS[each.field] for each in wanted):
        results = [_describe_attempt(policy, observed, each, *by_value.get(each, (0, {})))
                   for each in wanted if CHECKS[each.field] == name]
        yield Check(name, all(ok for ok, _ in results),
                    "once in this testbed, " + "; ".join(text for _, text in results))


def _describe_attempt(policy: Policy, observed: Observation, alternative: Alternative, number: int,
                      raw: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether an attempt shows that an end accepts a value, and a text about it."""
    if not raw:
        return False, f"{alternative.value} was not tried"
    shows, text = _READERS[alternative.field](policy, observed, alternative.value,
                                              POINT.format(number), raw)
    cause = f" ({raw['cause']})" if raw.get("cause") else ""
    is_in = raw.get("authorized") == "yes"
    return shows and is_in and not cause, (
        f"{alternative.value} of {alternative.field.rpartition('.')[2]}: {text}, "
        f"{'let in' if is_in else 'not let in'}{cause}")


def _read_management(observed: Observation, point: str) -> list[management_frames.ManagementFrame]:
    file = observed.capture_path(f"port-{point}")
    return management_frames.read_management_frames(file) if file.exists() else []


def _read_suites(_: Policy, observed: Observation, value: str, point: str,
                 __: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether the access point offers only this key management, and the station uses it."""
    frames, suite = _read_management(observed, point), AKM_SUITES[value]
    requests = [frame for frame in frames if frame.is_request and frame.transmitter == observed.mac]
    cells = {frame.receiver for frame in requests}
    offers = {frame.akms for frame in frames if frame.is_offer and frame.transmitter in cells}
    answers = [frame for frame in frames if frame.is_response and frame.receiver == observed.mac
               and frame.status == 0]
    text = (f"AKM {sorted({akm for each in offers for akm in each})} offered, "
            f"{sorted({akm for frame in requests for akm in frame.akms})} requested")
    return (offers == {(suite,)} == {frame.akms for frame in requests} and bool(answers), text)


def _read_groups(_: Policy, observed: Observation, value: str, point: str,
                 __: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether both ends send SAE commit and confirm in the group."""
    frames = [frame for frame in _read_management(observed, point)
              if frame.algorithm == management_frames.SAE
              and observed.mac in (frame.transmitter, frame.receiver)]
    refused = [frame for frame in frames if frame.sequence == _COMMIT
               and frame.status in (_TOKEN_REQUIRED, _GROUP_REFUSED)]
    agreed = [frame for frame in frames if frame.sequence == _COMMIT
              and frame.time_s > max((each.time_s for each in refused), default=0.0)]
    confirms = {frame.transmitter for frame in frames
                if frame.sequence == _CONFIRM and not frame.status}
    groups = {frame.sae_group for frame in agreed}
    both = 2
    return (groups == {int(value)} and len({frame.transmitter for frame in agreed}) == both
            and len(confirms) == both,
            f"group {sorted(filter(None, groups))} in the commits, {len(confirms)} sides confirm")


def _read_tokens(_: Policy, observed: Observation, value: str, point: str,
                 __: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether the access point asks for a token after `value` commits, not earlier.

    The commits are from addresses without a station. The mobile node is the next station.
    """
    commits = [frame for frame in _read_management(observed, point)
               if frame.algorithm == management_frames.SAE and frame.sequence == _COMMIT]
    strangers = {STRANGER.format(number) for number in range(1, int(value) + 1)}
    begun_s = max((frame.time_s for frame in commits if frame.transmitter in strangers),
                  default=0.0)
    before, after = ([frame for frame in commits if (frame.time_s > begun_s) == is_after]
                     for is_after in (False, True))
    answered = {frame.receiver for frame in commits if frame.status in (0, _HASH_TO_ELEMENT)}
    early = {frame.receiver for frame in before if frame.status == _TOKEN_REQUIRED}
    asked = {frame.receiver for frame in after if frame.status == _TOKEN_REQUIRED}
    text = (f"{len(strangers & answered)} of {len(strangers)} strangers answered, "
            f"{len(early)} asked for a token (status 76) before, the station "
            f"{'' if observed.mac in asked else 'not '}asked after them")
    return strangers <= answered and not early and asked == {observed.mac} <= answered, text


def _read_states(_: Policy, __: Observation, value: str, ___: str,
                 raw: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether the kernels of both ends have SAs of ESP with the proposal."""
    states = [state for each in raw.get("sas", {}).values() for state in each]
    expected = tshark.kernel_algorithms(value)
    good = [state for state in states if state.get("proto") == "esp"
            and tshark.sa_algorithms(state) == expected]
    return (len(good) == len(states) == _SAS_OF_BOTH_ENDS,
            f"{len(good)} of {len(states)} SAs in the kernels have it")


def _read_ike(_: Policy, observed: Observation, value: str, point: str,
              ___: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether the mobile node offers one proposal of IKE, and the tunnel is up."""
    offers = [offer.proposals for message in _ike_messages(observed, point)
              if (offer := ike.parse_offer(0.0, message))]
    names = dict.fromkeys(name for each in offers for name in each)
    return set(offers) == {(value,)}, f"{', '.join(names) or 'nothing'} offered"


def _ike_messages(observed: Observation, point: str) -> list[bytes]:
    """Return the messages of IKE in an attempt's capture, also those of port 4500 (RFC 3948)."""
    file = observed.capture_path(f"port-{point}")
    if not file.exists():
        return []
    return [*(message for _, message in pcap.udp_payloads(file, ike.IKE_PORT)),
            *(message.removeprefix(_NO_ESP) for _, message in pcap.udp_payloads(
                file, ike.TRAVERSAL_PORT) if message.startswith(_NO_ESP))]


def _read_renewal(policy: Policy, observed: Observation, value: str, point: str,
                  raw: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether messages that renew ESP's keys have room for public keys of the group."""
    assert policy.layers.ipsec is not None
    kind = _RENEWALS[policy.layers.ipsec.ike]
    messages = [message for message in _ike_messages(observed, point)
                if ike.read_exchange(message) == kind]
    groups = {child.get("dh-group", "none").lower().replace("_", "") for sa in raw.get(
        "ike_sas", ()) for child in sa.get("child-sas", {}).values()}
    least = _RENEWAL_BYTES + _KEY_BYTES[value]
    longest = sorted((len(message) for message in messages), reverse=True)[:2]
    text = (f"{', '.join(sorted(groups)) or 'none'} at the mobile node's charon, messages of "
            f"{', '.join(map(str, longest)) or '0'} bytes renew the keys, {least} at least")
    return groups == {value} and len(longest) > 1 and min(longest) >= least, text


_Reader = Callable[[Policy, Observation, str, str, Mapping[str, Any]], tuple[bool, str]]
_READERS: Mapping[str, _Reader] = {
    ANTI_CLOGGING: _read_tokens, ACCEPTED: _read_suites, STATION_GROUPS: _read_groups,
    ACCESS_POINT_GROUPS: _read_groups,
    ESP_OFFERED: _read_states, ESP_ACCEPTED: _read_states, IKE_ACCEPTED: _read_ike,
    ESP_GROUP: _read_renewal}
