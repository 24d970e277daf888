"""Checks of a repetition, each from packets and the run's keys alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from measure.judging import make_check
from measure.messages import Traffic
from measure.record import CheckRecord
from protocols.kerberos import messages
from studies.kerberos2002 import expected
from studies.kerberos2002.opened import Opened, RunKeys, new_result
from studies.kerberos2002.said import Spoken
from studies.kerberos2002.variants import ProtocolVariant
from studies.kerberos2002.walk import Walk


@dataclass(frozen=True)
class Case:
    """Everything that a repetition left behind, and its task.

    `tallies` are the programs' own counts, by party. `servers` has the node of each service.
    """

    variant: ProtocolVariant
    servers: Mapping[str, str]
    said: Sequence[Spoken]
    traffic: Mapping[str, Traffic]
    addresses: Mapping[str, str]
    keys: RunKeys
    tallies: Mapping[str, Mapping[str, Any]]
    transactions: int
    customers: int
    task: Mapping[str, Any]

    @cached_property
    def walk(self) -> Walk:
        """Return the transaction, decrypted message by message (single transactions only)."""
        walk = Walk(new_result(self.keys))
        walk.read_all([said for said in self.said if said.value is not None])
        return walk


def check_all(case: Case) -> list[CheckRecord]:
    """Return all checks of a repetition, with the content of a single transaction."""
    made = [*_check_schema(case), *_check_operations(case), *_check_preauthentication(case)]
    if case.customers > 1:
        return [*made, *_check_loaded(case), *_check_loaded_signatures(case), *_check_proxied(case)]
    opened = case.walk.opened
    return [*made, *_check_order(case), *_check_signatures(opened), *_check_keys(case, opened),
            *_check_proxied(case), *_check_proxy_keys(case, opened, case.walk)]


def _check_schema(case: Case) -> Iterator[CheckRecord]:
    strange = [f"{said.source} to {said.target}: {said.kind or 'nonsense'}" for said in case.said
               if said.value is None and (said.is_read or not said.kind)]
    read = sum(said.is_read for said in case.said)
    yield make_check("messages follow the schema", strange or ["no message"] * (not case.said),
                     f"{read} of {len(case.said)} messages are what the schema writes, to the byte"
                     + "; the others have a kind of it" * (read < len(case.said)))


def _check_order(case: Case) -> Iterator[CheckRecord]:
    due = expected.transaction_steps(case.variant, case.servers)
    seen = [said.step for said in case.said]
    complaints = [f"message {number}: {' '.join(step) if step else 'nothing'} instead of "
                  f"{' '.join(asked) if asked else 'nothing'}"
                  for number, (step, asked) in enumerate(_pair_steps(seen, due), 1)
                  if step != asked]
    yield make_check("messages in the protocol's order", complaints,
                     f"{len(seen)} messages, by UDP and TCP as the paper has them")


def _pair_steps(actual: Sequence[Any], due: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    for number in range(max(len(actual), len(due))):
        yield (actual[number] if number < len(actual) else None,
               due[number] if number < len(due) else None)


def _check_signatures(opened: Opened) -> Iterator[CheckRecord]:
    yield make_check("signatures and keys verify", opened.complaints,
                     f"{opened.signatures} signatures up to the anchor, {len(opened.parts)} parts "
                     "and "
                     f"{len(opened.packs)} sealed keys opened as they should")


def _check_keys(case: Case, opened: Opened) -> Iterator[CheckRecord]:
    yield make_check("only the right key opens each part", list(opened.find_wrong_openers()),
                     f"{len(opened.known)} keys tried on {len(opened.parts)} parts, "
                     f"{len(case.keys.private)} private keys on {len(opened.packs)} sealed keys")
    clear = opened.keys_in_clear([said.payload for said in case.said])
    yield make_check("no key in clear", [f"{name} is" for name in clear],
                     f"none of {len(opened.known)} keys is in any message")


def _check_operations(case: Case) -> Iterator[CheckRecord]:
    """Check that the programs counted as many operations as the messages need."""
    due = expected.public_key_operations(case.variant, case.servers,
                                         kdc_signs=case.task["kdc_signs"],
                                         spares_opening=case.task["spares_opening"],
                                         chain_length=case.task["chain_length"])
    complaints = []
    for party in case.tallies:
        counted = Counter[str]()
        for tally in case.tallies[party].values():
            counted.update(tally["operations"])
        for place, kind in enumerate(("private", "public")):
            total = sum(count for name, count in counted.items()
                        if name.startswith("rsa-") and name.endswith(kind))
            each = due.get(party, (0, 0))[place]
            fewest, most = _count_bounds(case, is_kept=party.startswith("kdc"))
            if not each * fewest <= total <= each * most:
                complaints.append(f"{party}: {total} {kind} operations instead of {each} each "
                                  f"in {case.transactions}")
    yield make_check("operations are the protocol's", complaints,
                     "private and public ones of every party, by hand and by the programs' count")


def _check_preauthentication(case: Case) -> Iterator[CheckRecord]:
    """Check that first requests prove the client as the protocol defines it.

    The type of pre-authentication data also shows how the key of the reply is made.
    """
    ways = {messages.PA_PK_AS_REQ: "pkinit", messages.PA_PK_AS_SIGN: "client-key"}
    asked = [said for said in case.said if said.kind == "AS-REQ" and said.value]
    complaints = []
    for said in asked:
        shown = [way for kind, way in ways.items() if kind in messages.padata_of(said.value)]
        due = expected.preauthentication_way(case.variant, said.source)
        if shown != [due] * (due != "password"):
            complaints.append(f"{said.source} to {said.target}: {', '.join(shown) or 'password'} "
                              f"instead of {due}")
    yield make_check("pre-authentication is the protocol's", complaints,
                     f"{len(asked)} first requests with the data of their protocol, and no other's")


def _count_bounds(case: Case, *, is_kept: bool) -> tuple[int, int]:
    """Return how often at least and at most an operation of every transaction is done.

    Transactions that are unfinished at the end add some. Cross-realm tickets that the local KDC
    caches (PKCROSS) are requested once, or by each of the customers that start together.
    """
    if case.task["xtkt_cache"] and case.variant.way == "pkcross" and is_kept:
        return 1, case.customers
    return case.transactions, case.transactions + case.customers * (case.customers > 1)


def _check_loaded(case: Case) -> Iterator[CheckRecord]:
    """Check under load that each step occurs once per transaction, though they overlap."""
    due = Counter(expected.transaction_steps(case.variant, case.servers))
    seen = Counter(said.step for said in case.said)
    complaints = [f"{' '.join(step)}: {seen[step]} instead of {count} each"
                  for step, count in due.items()
                  for fewest, most
                  in [_count_bounds(case, is_kept={*step[:2]} == {"kdc-l", "kdc-r"})]
                  if not count * fewest <= seen[step] <= count * most]
    complaints += [f"{' '.join(step)}: not of this protocol" for step in seen.keys() - due.keys()]
    yield make_check("messages are the protocol's", complaints,
                     f"{len(due)} steps, each {case.transactions} times and of those under way")


def _check_loaded_signatures(case: Case) -> Iterator[CheckRecord]:
    """Check the signatures of all requests of a loaded run, without decrypting sealed parts."""
    opened = new_result(case.keys)
    walk = Walk(opened)
    for said in case.said:
        padata = {entry["padata-type"] for entry in said.value.get("padata", [])} \
            if said.value and said.kind == "AS-REQ" else set()
        if messages.PA_PK_AS_REQ in padata:
            walk.read_all([said])
    yield make_check("requests are signed", opened.complaints,
                     f"{opened.signatures} signatures up to the anchor")


def _check_proxied(case: Case) -> Iterator[CheckRecord]:
    """Check that a client reaches only its proxy, which passes messages on unaltered."""
    if case.variant.proxy == "none":
        return
    client, proxy = (case.addresses[name] for name in ("client", "proxy"))
    strangers = {address for place in case.traffic.values() for pair in place.pairs
                 if client in pair for address in pair - {client, proxy}}
    yield make_check("the client reaches the proxy only",
                     [f"packets between the client and {address}" for address in strangers],
                     "no packet between the client and any other party at client, proxy or KDC")
    outside = {said.payload for said in case.said
               if said.source == "proxy" and said.target != "client"}
    inside = {said.payload for said in case.said
              if said.target == "proxy" and said.source != "client"}
    altered = [said for said in case.said if said.value and (
        (said.kind == "ProxyRequest" and not said.value.get("addChain")
         and said.value["message"] not in outside)
        or (said.kind == "ProxyReply" and said.value["message"] not in inside))]
    yield make_check("the proxy passes messages on",
                     [f"{len(altered)} were altered"] * bool(altered),
                     "what the client wrapped is what the proxy sent, and what it got is what it "
                     "wrapped for the client, to the byte")


def _check_proxy_keys(case: Case, opened: Opened, walk: Walk) -> Iterator[CheckRecord]:
    """Check that the proxy's private key opens the key that it was given, or none."""
    if case.variant.proxy == "none":
        return
    own = [pack.where for pack in opened.packs
           if case.keys.open_pack("proxy", pack.cipher) is not None]
    due = ["the client's ProxyRequest"] if case.variant.proxy in ("trusted", "assist") else []
    complaints = [] if own == due else [f"it opens {', '.join(own) or 'nothing'}"]
    told = {opened.known[name] for name in walk.told if name in opened.known}
    kdcs = {opened.known[name] for name in opened.known if name.startswith("key of proxy's AS-REQ")}
    if due and bool(told & kdcs) is case.task["own_proxy_key"]:
        complaints.append("the key that it was told is not the one that was asked for")
    yield make_check("the proxy opens what it was told", complaints,
                     "its private key opens exactly the key told" if due else
                     "its private key opens nothing")
    if case.variant.proxy == "assist":
        yield from _check_assisted(case)


def _check_assisted(case: Case) -> Iterator[CheckRecord]:
    """Check that the client's certificates are not on its wire, but all behind the proxy."""
    chains = [_certificates_in(said) for said in case.said
              if said.kind == "AS-REQ" and said.source == "proxy"]
    marks = [certificate for chain in chains for certificate in chain]
    near = b"\0".join(said.payload for said in case.said if "client" in (said.source, said.target))
    complaints = ["the KDC got no chain"] * (not marks)
    complaints += ["a certificate is on the client's wire"
                   for certificate in marks if certificate in near]
    yield make_check("chains stay behind the proxy", complaints,
                     f"{len(marks)} certificates to the KDC, none on the client's wire")


def _certificates_in(message: Spoken) -> list[bytes]:
    """Return the certificates in a request to a KDC."""
    for entry in message.value.get("padata", []) if message.value else []:
        if entry["padata-type"] == messages.PA_PK_AS_SIGN:
            pack = messages.decode("PA-PK-AS-SIGN", entry["padata-value"])
            return [entry["certData"] for entry in pack.get("userCert", [])]
    return []
