"""Check by captured packets and keys that Kerberos logins followed their protocol.

`run_checks` takes everything that one measurement left (`TransactionEvidence`). It returns the
checks, such as order of messages, signatures, and operations: a statement, whether it holds, and
details. Counts that the programs report are used only where a check compares them with packets.
`count_for_guidelines` counts what a proxy could decrypt. The paper is Harbitter and Menascé (2002).
`studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from measure.packets.messages import CapturedMessages
from measure.records.judgement import make_check
from measure.records.record import CheckRecord
from protocols.kerberos import messages
from studies.kerberos2002 import variants
from studies.kerberos2002.decryption import (
    DecryptedContent,
    RunKeys,
    TransactionDecryption,
    TransmittedMessage,
    new_result,
)
from studies.kerberos2002.variants import ProtocolVariant


@dataclass(frozen=True)
class TransactionEvidence:
    """Everything that a repetition left, with the instructions that it had.

    - `variant`: the login protocol
    - `servers`: node of each service
    - `sent_messages`: messages of all captures, in order
    - `traffic`: messages and counts of each capture, by node
    - `addresses`: IP address of each node
    - `keys`: keys of the run
    - `tallies`: operations that the programs counted, by node
    - `transactions`, `customers`: number of logins and of users
    - `task`: instructions of the workload
    """

    variant: ProtocolVariant
    servers: Mapping[str, str]
    sent_messages: Sequence[TransmittedMessage]
    traffic: Mapping[str, CapturedMessages]
    addresses: Mapping[str, str]
    keys: RunKeys
    tallies: Mapping[str, Mapping[str, Any]]
    transactions: int
    customers: int
    task: Mapping[str, Any]

    @cached_property
    def walk(self) -> TransactionDecryption:
        """Return the login with its messages decrypted. Only for repetitions of a single login."""
        walk = TransactionDecryption(new_result(self.keys))
        walk.read_all([sent for sent in self.sent_messages if sent.value is not None])
        return walk


def run_checks(case: TransactionEvidence) -> list[CheckRecord]:
    """Return all checks of a repetition. Single logins are also decrypted."""
    checks = [*_check_schema(case), *_check_operations(case), *_check_preauthentication(case)]
    if case.customers > 1:
        return [*checks, *_check_loaded(case), *_check_loaded_signatures(case),
                *_check_proxied(case)]
    opened = case.walk.opened
    return [*checks, *_check_order(case), *_check_signatures(opened), *_check_keys(case, opened),
            *_check_proxied(case), *_check_proxy_keys(case, opened, case.walk)]


def _check_schema(case: TransactionEvidence) -> Iterator[CheckRecord]:
    every = case.sent_messages
    strange = [f"{sent.source} to {sent.target}: {sent.kind or 'nonsense'}" for sent in every
               if sent.value is None and (sent.is_read or not sent.kind)]
    read = sum(sent.is_read for sent in every)
    yield make_check("messages follow the schema", strange or ["no message"] * (not every),
                     f"{read} of {len(every)} messages are what the schema writes, to the byte"
                     + "; the others have a kind of it" * (read < len(every)))


def _check_order(case: TransactionEvidence) -> Iterator[CheckRecord]:
    due = variants.transaction_steps(case.variant, case.servers)
    captured = [sent.step for sent in case.sent_messages]
    complaints = [f"message {number}: {' '.join(step) if step else 'nothing'} instead of "
                  f"{' '.join(required) if required else 'nothing'}"
                  for number, (step, required) in enumerate(_pair_steps(captured, due), 1)
                  if step != required]
    yield make_check("messages in the protocol's order", complaints,
                     f"{len(captured)} messages, by UDP and TCP as the paper has them")


def _pair_steps(actual: Sequence[Any], due: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each actual step with the step due at this position, None where one is missing."""
    for number in range(max(len(actual), len(due))):
        yield (actual[number] if number < len(actual) else None,
               due[number] if number < len(due) else None)


def _check_signatures(opened: DecryptedContent) -> Iterator[CheckRecord]:
    yield make_check("signatures and keys verify", opened.complaints,
                     f"{opened.signatures} signatures up to the anchor, {len(opened.parts)} parts "
                     f"and {len(opened.packs)} sealed keys opened as they should")


def _check_keys(case: TransactionEvidence, opened: DecryptedContent) -> Iterator[CheckRecord]:
    yield make_check("only the right key opens each part", list(opened.find_wrong_openers()),
                     f"{len(opened.known)} keys tried on {len(opened.parts)} parts, "
                     f"{len(case.keys.private)} private keys on {len(opened.packs)} sealed keys")
    clear = opened.keys_in_clear([sent.payload for sent in case.sent_messages])
    yield make_check("no key in clear", [f"{name} is" for name in clear],
                     f"none of {len(opened.known)} keys is in any message")


def _check_operations(case: TransactionEvidence) -> Iterator[CheckRecord]:
    """Check that the programs counted as many operations as the captured messages need."""
    due = variants.public_key_operations(case.variant, case.servers,
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
    yield make_check("operations are as the protocol requires", complaints,
                     "private and public ones of every party, by hand and by the programs' count")


def _check_preauthentication(case: TransactionEvidence) -> Iterator[CheckRecord]:
    """Check that the first request proves the client in the way that the protocol requires.

    Its pre-authentication data also show which side generates the key of the reply.
    """
    ways = {messages.PA_PK_AS_REQ: "pkinit", messages.PA_PK_AS_SIGN: "client-key"}
    requests = [sent for sent in case.sent_messages if sent.kind == "AS-REQ" and sent.value]
    complaints = []
    for sent in requests:
        present = [way for kind, way in ways.items() if kind in messages.padata_of(sent.value)]
        due = variants.preauthentication_way(case.variant, sent.source)
        if present != [due] * (due != "password"):
            complaints.append(f"{sent.source} to {sent.target}: {', '.join(present) or 'password'} "
                              f"instead of {due}")
    yield make_check("pre-authentication is as the protocol requires", complaints,
                     f"{len(requests)} first requests with the data of their protocol, and no "
                     "other's")


def _count_bounds(case: TransactionEvidence, *, is_kept: bool) -> tuple[int, int]:
    """Return the smallest and largest possible number of an operation that each login needs once.

    Logins that are unfinished at the end add some. Cross-realm tickets that the local KDC caches
    (PKCROSS) are requested once, or by each user that starts at the same time.
    """
    if case.task["xtkt_cache"] and case.variant.way == "pkcross" and is_kept:
        return 1, case.customers
    return case.transactions, case.transactions + case.customers * (case.customers > 1)


def _check_loaded(case: TransactionEvidence) -> Iterator[CheckRecord]:
    """Check under load that each message occurs once per login, although logins overlap."""
    due = Counter(variants.transaction_steps(case.variant, case.servers))
    counts = Counter(sent.step for sent in case.sent_messages)
    complaints = [f"{' '.join(step)}: {counts[step]} instead of {count} each"
                  for step, count in due.items()
                  for fewest, most
                  in [_count_bounds(case, is_kept={*step[:2]} == {"kdc-l", "kdc-r"})]
                  if not count * fewest <= counts[step] <= count * most]
    complaints += [f"{' '.join(step)}: not of this protocol" for step in counts.keys() - due.keys()]
    yield make_check("messages are the protocol's", complaints,
                     f"{len(due)} steps, each {case.transactions} times and of those under way")


def _check_loaded_signatures(case: TransactionEvidence) -> Iterator[CheckRecord]:
    """Check the signatures of all requests under load, without decrypting other parts."""
    opened = new_result(case.keys)
    walk = TransactionDecryption(opened)
    for sent in case.sent_messages:
        padata = {entry["padata-type"] for entry in sent.value.get("padata", [])} \
            if sent.value and sent.kind == "AS-REQ" else set()
        if messages.PA_PK_AS_REQ in padata:
            walk.read_all([sent])
    yield make_check("requests are signed", opened.complaints,
                     f"{opened.signatures} signatures up to the anchor")


def _check_proxied(case: TransactionEvidence) -> Iterator[CheckRecord]:
    """Check that a client talks only to its proxy, which forwards messages unchanged."""
    if case.variant.proxy == "none":
        return
    client, proxy = (case.addresses[name] for name in ("client", "proxy"))
    strangers = {address for place in case.traffic.values() for pair in place.pairs
                 if client in pair for address in pair - {client, proxy}}
    yield make_check("the client reaches the proxy only",
                     [f"packets between the client and {address}" for address in strangers],
                     "no packet between the client and any other party at client, proxy or KDC")
    outside = {sent.payload for sent in case.sent_messages
               if sent.source == "proxy" and sent.target != "client"}
    inside = {sent.payload for sent in case.sent_messages
              if sent.target == "proxy" and sent.source != "client"}
    # A request to which the proxy adds certificates (addChain) differs on purpose.
    altered = [sent for sent in case.sent_messages if sent.value and (
        (sent.kind == "ProxyRequest" and not sent.value.get("addChain")
         and sent.value["message"] not in outside)
        or (sent.kind == "ProxyReply" and sent.value["message"] not in inside))]
    yield make_check("the proxy forwards messages unchanged",
                     [f"{len(altered)} were altered"] * bool(altered),
                     "what the client wrapped is what the proxy sent, and what it got is what it "
                     "wrapped for the client, to the byte")


def _check_proxy_keys(case: TransactionEvidence, opened: DecryptedContent,
                      walk: TransactionDecryption) -> Iterator[CheckRecord]:
    """Check that the proxy's private key decrypts only the key that the client gave it.

    If the client gave it no key, it must decrypt nothing.
    """
    if case.variant.proxy == "none":
        return
    own = [pack.where for pack in opened.packs
           if case.keys.open_pack("proxy", pack.cipher) is not None]
    due = ["the client's ProxyRequest"] if case.variant.proxy in ("trusted", "assist") else []
    complaints = [] if own == due else [f"it opens {', '.join(own) or 'nothing'}"]
    given = {opened.known[name] for name in walk.proxy_keys if name in opened.known}
    kdcs = {opened.known[name] for name in opened.known if name.startswith("key of proxy's AS-REQ")}
    if due and bool(given & kdcs) is case.task["own_proxy_key"]:
        complaints.append("the key that it was given is not the one that the settings demand")
    yield make_check("the proxy opens only the key that it was given", complaints,
                     "its private key opens exactly the key that it was given" if due else
                     "its private key opens nothing")
    if case.variant.proxy == "assist":
        yield from _check_assisted(case)


def _check_assisted(case: TransactionEvidence) -> Iterator[CheckRecord]:
    """Check that the client's certificates are not on its own link, but behind the proxy."""
    chains = [_certificates_in(sent) for sent in case.sent_messages
              if sent.kind == "AS-REQ" and sent.source == "proxy"]
    marks = [certificate for chain in chains for certificate in chain]
    near = b"\0".join(sent.payload for sent in case.sent_messages
                      if "client" in (sent.source, sent.target))
    complaints = ["the KDC got no chain"] * (not marks)
    complaints += ["a certificate is on the client's wire"
                   for certificate in marks if certificate in near]
    yield make_check("chains stay behind the proxy", complaints,
                     f"{len(marks)} certificates to the KDC, none on the client's wire")


def _certificates_in(message: TransmittedMessage) -> list[bytes]:
    """Return the certificates in a request to a KDC."""
    for entry in message.value.get("padata", []) if message.value else []:
        if entry["padata-type"] == messages.PA_PK_AS_SIGN:
            pack = messages.decode_message("PA-PK-AS-SIGN", entry["padata-value"])
            return [entry["certData"] for entry in pack.get("userCert", [])]
    return []


# --- Counts for the guidelines of section 6.4, from the messages of a transaction ---

#: Messages of RFC 4120. Its padata types below 0 are private.
_STANDARD = {"AS-REQ", "AS-REP", "TGS-REQ", "TGS-REP", "AP-REQ", "AP-REP", "KRB-ERROR"}
_REPLY = "EncASRepPart"


def count_for_guidelines(case: TransactionEvidence) -> dict[str, float]:
    """Count in a mobile user's login what the paper's guidelines ask for. {} for other logins.

    - `proxy_keys`: encrypted keys that the proxy's private key decrypts
    - `proxy_parts`: encrypted parts (of `parts` in all) that the proxy can read with these keys
    - `own_messages`: messages at KDC and server that have no number in a standard
    - `key_holders`: nodes that know the key of the reply
    - `kdc_made`: reply keys that the KDC generated
    """
    if case.customers > 1 or case.variant.way != "mobile":
        return {}
    opened = case.walk.opened
    given = {key for pack in opened.packs if case.variant.proxy != "none"
            and (key := case.keys.open_pack("proxy", pack.cipher)) is not None}
    parts, known = _open_reachable(opened, given)
    replies = [part.expected for part in opened.parts if part.kind == _REPLY]
    is_known = any(opened.known.get(name) in known for name in replies)
    return {"proxy_keys": len(given), "proxy_parts": parts, "parts": len(opened.parts),
            "own_messages": sum(_is_own(sent.kind, sent.value) for sent in case.sent_messages
                                if {sent.source, sent.target} - {"client", "proxy"}),
            "key_holders": 2 + is_known,
            "kdc_made": sum(name.startswith("key of kdc") for name in replies)}


def _open_reachable(opened: DecryptedContent, first: set[bytes]) -> tuple[int, set[bytes]]:
    """Decrypt as many message parts as possible with some keys and the keys found in the parts.

    Returns:
        The number of decrypted parts, and all keys: the given and the found ones.
    """
    closed, known, fresh = list(opened.parts), set(first), set(first)
    while fresh:
        values = [(part, value) for part in closed for key in fresh
                  if (value := opened.keys.open_part(key, part)) is not None]
        read = [part for part, _ in values]
        closed = [part for part in closed if part not in read]
        fresh = {key for _, value in values for key in _keys_in(value)} - known
        known |= fresh
    return len(opened.parts) - len(closed), known


def _keys_in(value: Any) -> Iterator[bytes]:
    """Yield every key in a decoded message part, at any depth."""
    if isinstance(value, dict):
        if isinstance(key := value.get("keyvalue"), bytes):
            yield key
        for inner in value.values():
            yield from _keys_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys_in(inner)


def _is_own(kind: str, value: Any) -> bool:
    """Return whether a message, or data in it, has no number in a standard."""
    if kind not in _STANDARD:
        return True
    return any(number < 0 for number in messages.padata_of(value or {}))
