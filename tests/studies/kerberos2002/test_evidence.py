"""Tests of the study's checks: each holds for what is right, and fails for its control."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerberos_realms import Realms, keys
from measure.packets.messages import CapturedMessages
from protocols.kerberos import messages
from protocols.kerberos.messages import KrbError
from studies.kerberos2002 import checks, variants
from studies.kerberos2002.checks import TransactionEvidence
from studies.kerberos2002.decryption import RunKeys, TransmittedMessage, decode_exactly
from studies.kerberos2002.faults import FAULTS
from studies.kerberos2002.variants import VARIANTS

_SIGNED = "signatures and keys verify"
ADDRESSES = {name: f"10.0.{number}.2" for number, name in enumerate(
    ("client", "kdc-l", "kdc-r", "proxy", "app1"), 1)}


def said(source: str, target: str, transport: str, payload: bytes,
         number: int) -> TransmittedMessage:
    """A message as a capture would have it."""
    kind = messages.kind_of(payload)
    return TransmittedMessage(source, target, transport, kind, payload,
                              decode_exactly(kind, payload),
                              time.time() + number / 1e3)


def case(folder: Path, protocol: str, suite: str = "era", fault: str = "",
         **options: int) -> TransactionEvidence:
    """A transaction in memory, refused or not, as the judge would have it from captures."""
    realms = Realms(folder, protocol, suite, fault=fault, options=options)
    with suppress(KrbError) if fault else nullcontext():
        realms.transaction(VARIANTS[protocol].way)
    heard = [said(*entry, number) for number, entry in enumerate(realms.said)]
    pairs = {frozenset((ADDRESSES[one.source], ADDRESSES[one.target])) for one in heard}
    tallies: dict[str, dict[str, Any]] = {name: {} for name in realms.documents}
    tallies |= {name: {"all": {"operations": dict(meter.operations)}}
                for name, meter in realms.meters.items()}
    return TransactionEvidence(VARIANTS[protocol], {"app/a1": "app1"}, _in_time(heard),
                               {"client": CapturedMessages(pairs=pairs)}, ADDRESSES,
                               RunKeys(keys(suite, options.get("chain_length", 2), fault)), tallies,
                               1, 1,
                               {"xtkt_cache": False, "kdc_signs": False, "own_proxy_key": False,
                                "spares_opening": False, "chain_length": 2, **options})


@pytest.mark.parametrize("chain_length", [1, 3])
@pytest.mark.parametrize("protocol", ["pkcross", "m-standard", "mp-assist"])
def test_longer_and_shorter_chains_are_proven(protocol: str, chain_length: int,
                                              tmp_path: Path) -> None:
    """Each further certificate is one verification more, and no other length is taken for it."""
    judged = case(tmp_path, protocol, chain_length=chain_length)
    assert failed(judged) == set()
    other = replace(judged, task={**judged.task, "chain_length": 2})
    assert failed(other) == {"operations are as the protocol requires"}


def _in_time(heard: list[TransmittedMessage]) -> list[TransmittedMessage]:
    """The order on the wire: here a question within a question is noted after it, as it is said."""
    return sorted(heard, key=lambda one: one.at_s)


def test_two_servers_of_a_machine_are_told_apart(tmp_path: Path) -> None:
    """Two services on one node each give a key of their own."""
    realms = Realms(tmp_path, "pktapp", servers=2)
    realms.transaction("pktapp")
    heard = [said(*entry, number) for number, entry in enumerate(realms.said)]
    opened = checks.new_result(RunKeys(keys("era")))
    checks.TransactionDecryption(opened).read_all(heard)
    assert opened.complaints == []
    assert list(opened.find_wrong_openers()) == []


def failed(judged: TransactionEvidence) -> set[str]:
    """The checks that do not hold."""
    return {check.check for check in checks.run_checks(judged) if not check.ok}


@pytest.mark.parametrize("suite", ["era", "today"])
@pytest.mark.parametrize("protocol", VARIANTS)
def test_what_is_right_is_proven(protocol: str, suite: str, tmp_path: Path) -> None:
    """Every protocol stands all checks, in both suites."""
    assert failed(case(tmp_path, protocol, suite)) == set()


@pytest.mark.parametrize(("protocol", "option"), [
    ("m-client-key", "kdc_signs"), ("m-standard", "spares_opening"),
    ("mp-trusted", "own_proxy_key"), ("mp-assist", "own_proxy_key"),
    ("pkcross", "xtkt_cache")])
def test_options_are_proven_and_missed(protocol: str, option: str, tmp_path: Path) -> None:
    """Each option stands all checks; where it can be seen in one transaction, its lack does not."""
    judged = case(tmp_path, protocol, **{option: True})
    assert failed(judged) == set()
    without = replace(judged, task={**judged.task, option: False})
    assert bool(failed(without)) is (option != "xtkt_cache")


def test_a_kept_cross_realm_ticket_spares_the_exchange(tmp_path: Path) -> None:
    """With the cache, a second transaction has no message between the KDCs."""
    realms = Realms(tmp_path, "pkcross", options={"xtkt_cache": True})
    for _ in range(2):
        realms.transaction("pkcross")
    assert sum("kdc-l>kdc-r" in kind for kind in realms.kinds) == 1
    assert len(realms.kinds) == 18


@pytest.mark.parametrize("name", FAULTS)
def test_each_control_fails_exactly_its_checks(name: str, tmp_path: Path) -> None:
    """What a control is declared to fail is what does not hold, whoever refused or nobody did."""
    fault = FAULTS[name]
    assert failed(case(tmp_path, fault.on["protocol"], fault=name)) == set(fault.fails)


@pytest.mark.parametrize(("name", "says"), [
    ("wrong-user", "not of alice"), ("no-purpose", "ExtendedKeyUsage"),
    ("unfitting-key", "InvalidSignature"), ("rogue-authority", "InvalidSignature"),
    ("expired-certificate", "not valid then"), ("byte-changed", "InvalidSignature"),
    ("clock-skew", "s from when it passed")])
def test_the_judge_sees_by_itself_what_is_wrong(name: str, says: str, tmp_path: Path) -> None:
    """Also of a request that its receiver would have let pass, with no refusal after it."""
    refused = case(tmp_path, FAULTS[name].on["protocol"], fault=name)
    asked = replace(refused, sent_messages=[
        one for one in refused.sent_messages if one.kind == "AS-REQ"])
    [signed] = [check for check in checks.run_checks(asked) if check.check == _SIGNED]
    assert not signed.ok
    assert says in signed.detail


def _with(judged: TransactionEvidence, number: int,
          change: Callable[[TransmittedMessage], TransmittedMessage]) -> TransactionEvidence:
    rows = list(judged.sent_messages)
    rows[number] = change(rows[number])
    return replace(judged, sent_messages=rows)


def _clear(judged: TransactionEvidence) -> TransactionEvidence:
    """The session with the server stands in a realm's name."""
    opened = checks.new_result(judged.keys)
    checks.TransactionDecryption(opened).read_all(judged.sent_messages)
    key = opened.known["session with app/a1"]
    return _with(judged, -1, lambda one: replace(one, payload=one.payload + key))


def _nonsense(judged: TransactionEvidence) -> TransactionEvidence:
    return _with(judged, 0, lambda one: replace(one, value=None))


def _dropped(judged: TransactionEvidence) -> TransactionEvidence:
    return replace(judged, sent_messages=judged.sent_messages[:-1])


def _by_udp(judged: TransactionEvidence) -> TransactionEvidence:
    return _with(judged, 0, lambda one: replace(one, transport="udp"))


def _miscounted(judged: TransactionEvidence) -> TransactionEvidence:
    operations = {**judged.tallies["kdc-l"]["all"]["operations"], "rsa-1024-private": 2}
    return replace(judged, tallies={**judged.tallies, "kdc-l": {"all": {"operations": operations}}})


def _unsigned(judged: TransactionEvidence) -> TransactionEvidence:
    """One byte of the client's signature is another."""
    def change(one: TransmittedMessage) -> TransmittedMessage:
        value: dict[str, Any] = {**one.value, "padata": [dict(one.value["padata"][0])]}
        pack = deepcopy(messages.decode_message("PA-PK-AS-REQ", value["padata"][0]["padata-value"]))
        hashed = pack["signedAuthPack"]["authPackSig"]["signedHash"]
        hashed["cipher"] = bytes((hashed["cipher"][0] ^ 1,)) + hashed["cipher"][1:]
        value["padata"][0]["padata-value"] = messages.encode_message("PA-PK-AS-REQ", pack)
        return replace(one, value=value)
    return _with(judged, 0, change)


def _same_keys(judged: TransactionEvidence) -> TransactionEvidence:
    """The user's secret is also that of the server: two keys open its ticket."""
    judged.keys.secrets["krbtgt/L.TEST"] = judged.keys.secrets["app/a1"]
    return judged


@pytest.mark.parametrize(("spoil", "check"), [
    (_clear, "no key in clear"), (_nonsense, "messages follow the schema"),
    (_dropped, "messages in the protocol's order"), (_by_udp, "messages in the protocol's order"),
    (_miscounted, "operations are as the protocol requires"),
    (_unsigned, "signatures and keys verify"),
    (_same_keys, "only the right key opens each part")])
def test_each_check_fails_for_its_control(spoil: Callable[[TransactionEvidence],
                                                          TransactionEvidence], check: str,
                                          tmp_path: Path) -> None:
    """Traffic goes on, and only what the check protects is taken away."""
    assert check in failed(spoil(case(tmp_path, "m-standard")))


def test_a_packet_past_the_proxy_is_seen(tmp_path: Path) -> None:
    """One packet between client and KDC is enough."""
    judged = case(tmp_path, "mp-standard")
    direct = frozenset((ADDRESSES["client"], ADDRESSES["kdc-l"]))
    judged.traffic["client"].pairs.add(direct)
    assert failed(judged) == {"the client reaches the proxy only"}


def test_a_proxy_that_is_told_more_is_seen(tmp_path: Path) -> None:
    """Told a key where it should only pass on, the proxy's key opens what it should not."""
    judged = case(tmp_path, "mp-trusted")
    assert "the proxy opens only the key that it was given" in failed(
        replace(judged, variant=VARIANTS["mp-client-key"]))


def test_a_proxy_that_alters_is_seen(tmp_path: Path) -> None:
    """What leaves the proxy has to be what the client wrapped, to the byte."""
    judged = case(tmp_path, "mp-standard")
    number = next(at for at, one in enumerate(judged.sent_messages) if one.source == "proxy")
    altered = _with(judged, number, lambda one: replace(one, payload=one.payload[:-1] + b"x"))
    assert "the proxy forwards messages unchanged" in failed(altered)


def test_a_proxy_that_alters_a_reply_is_seen(tmp_path: Path) -> None:
    """What the proxy wraps for the client has to be what it was answered, to the byte."""
    judged = case(tmp_path, "mp-standard")
    number = next(at for at, one in enumerate(judged.sent_messages) if one.target == "proxy"
                  and one.source != "client")
    altered = _with(judged, number, lambda one: replace(one, payload=one.payload[:-1] + b"x"))
    assert "the proxy forwards messages unchanged" in failed(altered)


@pytest.mark.parametrize(("protocol", "told", "own", "kdc_made", "holders"), [
    ("m-standard", 0, 0, 1, 2), ("m-client-key", 0, 1, 0, 2), ("mp-standard", 0, 0, 1, 2),
    ("mp-client-key", 0, 1, 0, 2), ("mp-trusted", 1, 1, 0, 3), ("mp-assist", 1, 1, 0, 3)])
def test_the_four_guidelines_are_counted(protocol: str, told: int, own: int, kdc_made: int,
                                         holders: int, tmp_path: Path) -> None:
    """A proxy that passes on can read nothing, and a told one all but what services' keys seal."""
    counts = checks.count_for_guidelines(case(tmp_path, protocol))
    assert (counts["proxy_keys"], counts["own_messages"], counts["kdc_made"],
            counts["key_holders"]) == (told, own, kdc_made, holders)
    assert bool(counts["proxy_parts"]) is bool(told)
    assert counts["proxy_parts"] < counts["parts"]


def test_a_key_told_where_none_should_be_counts(tmp_path: Path) -> None:
    """What is counted is what the messages have, not what the protocol's name says."""
    counts = checks.count_for_guidelines(replace(case(tmp_path, "mp-trusted"),
                                                 variant=VARIANTS["mp-client-key"]))
    assert (counts["proxy_keys"], counts["key_holders"]) == (1, 3)


def test_a_chain_on_the_radio_is_seen(tmp_path: Path) -> None:
    """Under assist, no certificate of the client's may be on its own wire."""
    judged = case(tmp_path, "mp-assist")
    chain = next(checks._certificates_in(one) for one in judged.sent_messages
                 if one.kind == "AS-REQ" and one.source == "proxy")
    assert len(chain) == 2
    leaky = _with(judged, 0, lambda one: replace(one, payload=one.payload + chain[1]))
    assert "chains stay behind the proxy" in failed(leaky)
    assert "chains stay behind the proxy" in failed(replace(judged, sent_messages=[
        one for one in judged.sent_messages if one.source != "proxy"]))


def test_operations_by_hand_are_the_papers() -> None:
    """C7: both protocols come to 3 private and 7 public operations with one server."""
    totals = {name: [sum(column) for column in zip(*variants.public_key_operations(
        VARIANTS[name], {"app/a1": "app1"}).values(), strict=True)]
        for name in ("pkcross", "pktapp")}
    assert totals == {"pkcross": [3, 7], "pktapp": [3, 7]}
