"""`qop cost`: compute what an EAP authentication takes in packets, bytes and time.

Options give certificates or their kind, the TLS version, round-trip time and loss. Nothing is
measured in a network: the packets follow from certificates, fragments and protocols. Public-key
operations are timed on this machine. The result is printed as tables.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import click

from harness.errors import UserError
from measure.agent.time_limits import RADIUS_TIMER
from measure.packets.certificate_sizes import KEY_KINDS, chain_bytes
from measure.packets.eap_radius_sizes import (
    SERVER_MESSAGE_LIMIT,
    SERVER_REQUEST_LIMIT,
    LoginPackets,
    Problem,
    compute_packets,
    ip_fragments,
)
from measure.packets.eap_tls_sizes import GROUPS, RELEASES, EapLogin

if TYPE_CHECKING:
    from analysis.table import Table
    from policies import Layers

#: How often hostapd repeats a request to the RADIUS server (RADIUS_CLIENT_MAX_RETRIES).
_RETRIES = 10
#: Time for which hostapd waits for the server's answer (eapol_auth_sm.c:
#: BE_AUTH_DEFAULT_serverTimeout), and wpa_supplicant from the first EAPOL frame to the end
#: (wpa_supplicant.c), in s. docs/cost.md says how both were measured.
ANSWER_LIMIT_S, LOGIN_LIMIT_S = 30.0, 70.0
#: Probabilities that are not followed further, and a share of authentications that counts as none.
_LEAST_CHANCE, _RARE = 1e-9, 1e-3
#: Names of elliptic curves in `KEY_KINDS`, by those of `cryptography`.
_CURVES = {"secp256r1": "p-256", "secp384r1": "p-384"}
#: An operation is timed this often, and the median is taken.
_TIMINGS = 15


@click.command("cost", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--policy", metavar="POLICY",
              help="Begin with the settings of this policy with EAP-TLS, PEAP, TTLS or EAP-MD5, an "
              "id or a file (default: EAP-TLS 1.2 with RSA-2048).")
@click.option("--tls", "version", type=click.Choice(["1.2", "1.3"]),
              help="Use this version of TLS (default: the policy's).")
@click.option("--key", type=click.Choice(list(KEY_KINDS)),
              help="Give every certificate this kind of key (default: the policy's).")
@click.option("--station-key", type=click.Choice(list(KEY_KINDS)),
              help="Give the station's certificates this kind of key (default: that of --key, else "
              "the policy's).")
@click.option("--chain", type=click.IntRange(1, 9),
              help="Let each side send this many certificates (default: the policy's).")
@click.option("--server-chain", type=click.Path(path_type=Path), metavar="FILE",
              help="Take the server's certificates from this PEM file, the own one first "
              "(default: certificates as qop makes them).")
@click.option("--client-chain", type=click.Path(path_type=Path), metavar="FILE",
              help="Take the station's certificates from this PEM file (default: certificates as "
              "qop makes them).")
@click.option("--group", type=click.Choice(list(GROUPS)),
              help="Agree on keys in this group (default: the policy's).")
@click.option("--release", type=click.Choice(list(RELEASES)),
              help="Compute for the daemons of this Debian release (default: trixie for ML-DSA and "
              "ML-KEM, else bookworm).")
@click.option("--fragment", "fragment_bytes", type=click.IntRange(100, 1400), metavar="BYTES",
              help="Let the server put this much into one EAP packet (default: the policy's).")
@click.option("--resumed/--full", default=None,
              help="Resume a TLS session, or exchange certificates (default: the policy's).")
@click.option("--rtt", "rtt_ms", type=click.FloatRange(0, 60_000), default=20.0, metavar="MS",
              help="Assume this round trip between access point and RADIUS server (default: 20).")
@click.option("--loss", "loss_percent", type=click.FloatRange(0, 50), default=0.0,
              metavar="PERCENT",
              help="Lose this share of IP packets between them, each way (default: 0).")
@click.option("--logins", "logins_per_s", type=click.FloatRange(0, 1e6), default=10.0,
              metavar="RATE", help="Compute the processor's share for this many "
              "authentications a second (default: 10).")
@click.option("--packets", "lists_packets", is_flag=True, help="Also list every packet.")
def compute_cost(policy: str | None, version: str | None, key: str | None,
                 station_key: str | None, chain: int | None, server_chain: Path | None,
                 client_chain: Path | None, group: str | None, release: str | None,
                 fragment_bytes: int | None, resumed: bool | None, rtt_ms: float,
                 loss_percent: float, logins_per_s: float, lists_packets: bool) -> None:
    """Compute the packets, bytes and milliseconds of one EAP authentication.

    Nothing is measured in a network. Packets follow from certificates, fragments and protocols, as
    FreeRADIUS, hostapd and wpa_supplicant send them. The processor's share is of public-key
    operations, timed on this machine, and of packets, by a model. docs/cost.md has the rules.
    """
    from analysis.present.terminal import to_console
    from harness.commands import output

    for option, value in (("--rtt", rtt_ms), ("--loss", loss_percent), ("--logins", logins_per_s)):
        if math.isnan(value):
            raise UserError(f"{option} {value}: is no number; give one, such as {option} 1")
    changes = {"version": version, "key": key, "station_key": station_key, "chain": chain,
               "group": group, "fragment_bytes": fragment_bytes,
               "sessions": None if resumed is None else "resumed" if resumed else "full"}
    changes = {name: value for name, value in changes.items() if value is not None}
    login = _policy_login(policy, changes)
    _refuse_unused(login, {**changes, "server_chain": server_chain, "client_chain": client_chain})
    login = _use_certificates(login, server_chain, client_chain)
    login = replace(login, release=_choose_release(login, release))
    if login.version == "1.2" and login.group not in ("p-256", "p-384"):
        raise UserError(f"--group {login.group}: goes with TLS 1.3; add --tls 1.3, or leave out "
                        "--group")
    if policy is not None:
        _refuse_changes(policy, changes)
    packets = compute_packets(login)
    console = output.make_console()
    retries = estimate_retries(packets, loss_percent / 100, rtt_ms / 1e3)
    console.print(to_console(_make_cost_table(login, packets, rtt_ms / 1e3, retries
                                              if loss_percent else None, logins_per_s)))
    if limit := describe_time_limits(packets, rtt_ms / 1e3, retries.completed):
        console.print(limit, markup=False, highlight=False)
    if lists_packets:
        console.print(to_console(_make_packet_table(packets)))
    for problem in packets.problems:
        verdict = "Fails, if certificates are not compressed enough" if login.has_compression \
            else "Fails"
        lines = [f"{verdict}: {problem.fact}.", "What helps:",
                 *(f"- {remedy}" for remedy in find_remedies(login, problem))]
        console.print("\n".join(lines), markup=False, highlight=False)


command = compute_cost


#: Layers of the authentication without --policy: EAP-TLS 1.2 in WPA2-Enterprise.
_USUAL = {"link": {"cipher": "CCMP", "keys": "eap"},
          "dot1x": {"eap": "TLS", "identity": "anonymous", "tls": {}}}


def _policy_login(name: str | None, changes: Mapping[str, object]) -> EapLogin:
    """Return the inputs from which the packets of an EAP authentication are computed.

    Args:
        name: Id or file of the policy. None is EAP-TLS 1.2 in WPA2-Enterprise (`_USUAL`).
        changes: Settings of `dot1x.tls` that replace the policy's values.

    Raises:
        UserError: There is no such policy, or its EAP packets cannot be computed.
    """
    import policies
    from measure.checks.computed_packets import describe_login

    layers = policies.Layers.model_validate(_USUAL) if name is None else _load_layers(name)
    login = describe_login(_change_tls(layers, changes), server="radius", user="mobile-node")
    if login is None:
        raise UserError(f"--policy {name}: this has no EAP-TLS, PEAP, TTLS or EAP-MD5, or daemons "
                        "have further options; choose a policy with one of them and without "
                        "'options'")
    return login


def _load_layers(name: str) -> Layers:
    """Return the layers of a policy, by its id or file.

    Raises:
        UserError: There is no such policy, or its file is faulty.
    """
    import policies

    try:
        return (policies.load_named(name) if name in policies.policy_ids()
                else policies.load_policy(name)).layers
    except policies.PolicyError as error:
        raise UserError(f"--policy: {error}") from None


def _refuse_changes(name: str, changes: Mapping[str, Any]) -> None:
    """Refuse options that a policy's other settings do not allow.

    Longer chains than those of a policy file are computed.

    Raises:
        UserError: A policy file with these settings would be refused.
    """
    from pydantic import ValidationError

    from analysis.table import join_words
    from policies import Layers, TlsSettings

    layers = _load_layers(name)
    if layers.dot1x is None or not changes:
        return
    longest = max(get_args(TlsSettings.model_fields["chain"].annotation))
    changed = _change_tls(layers, {option: min(value, longest) if option == "chain" else value
                                   for option, value in changes.items()})
    try:
        Layers.model_validate(changed.model_dump(exclude_unset=True))
    except ValidationError as error:
        fact = str(error.errors()[0]["msg"]).partition("; ")[0]
        options = [_TLS_OPTIONS.get(option, f"--{option}") for option in changes]
        raise UserError(f"--policy {name} {' '.join(options)}: {fact}; leave out "
                        f"{join_words(options, 'or')}, or choose another policy") from None


#: Options that are about certificates, or about TLS, by the name of their values.
_STATION_OPTIONS = {"client_chain": "--client-chain", "station_key": "--station-key"}
_CERTIFICATE_OPTIONS = {"key": "--key", "chain": "--chain", "server_chain": "--server-chain",
                        **_STATION_OPTIONS}
_TLS_OPTIONS = {"version": "--tls", "group": "--group", "fragment_bytes": "--fragment",
                "sessions": "--resumed", **_CERTIFICATE_OPTIONS}


def _refuse_unused(login: EapLogin, values: Mapping[str, object]) -> None:
    """Refuse options that change nothing in an authentication.

    Raises:
        UserError: An option is about certificates that no side sends, or about TLS, and the method
            has no TLS.
    """
    for options, is_unused, why in (
            (_TLS_OPTIONS, login.method == "MD5", "EAP-MD5 has no TLS"),
            (_CERTIFICATE_OPTIONS, login.is_resumed, "a resumed session shows no certificate"),
            (_STATION_OPTIONS, not login.uses_client_certificate,
             f"a station of {login.method} shows no certificate")):
        if is_unused:
            for name, option in options.items():
                if values.get(name) is not None:
                    raise UserError(f"{option}: {why}; leave it out")


def _change_tls(layers: Layers, changes: Mapping[str, object]) -> Layers:
    """Return a policy's layers with changed settings of TLS.

    The settings are not validated: a policy file may not have all that can be computed.
    """
    from policies import TlsSettings

    if layers.dot1x is None or not changes:
        return layers
    if "key" in changes:  # of every certificate
        changes = {"station_key": None, **changes}
    if changes.get("key") == "p-384":  # goes with its own group alone
        changes = {"group": None, **changes}
    tls = (layers.dot1x.tls or TlsSettings()).model_copy(update=changes)
    return layers.model_copy(update={"dot1x": layers.dot1x.model_copy(update={"tls": tls})})


def _choose_release(login: EapLogin, requested: str | None) -> str:
    """Return the release of the daemons: the requested one, else the first that has the algorithms.

    Raises:
        UserError: The requested release lacks them.
    """
    is_later = "mlkem" in login.group or "ml-dsa" in f"{login.server_key} {login.client_key}"
    if is_later and login.version == "1.2":
        raise UserError("--tls 1.2: has neither ML-KEM nor ML-DSA; add --tls 1.3")
    if is_later and requested == "bookworm":
        raise UserError("--release bookworm: its OpenSSL 3.0 has neither ML-KEM nor ML-DSA; leave "
                        "out --release")
    return requested or ("trixie" if is_later else "bookworm")


def _use_certificates(login: EapLogin, server_chain: Path | None,
                      client_chain: Path | None) -> EapLogin:
    """Return the inputs with the sizes and key kinds of the user's own certificates."""
    for side, file in (("server", server_chain), ("client", client_chain)):
        if file is not None:
            sizes, key = _read_chain(f"--{side}-chain {file}", file)
            login = replace(login, server_chain=sizes, server_key=key) if side == "server" \
                else replace(login, client_chain=sizes, client_key=key)
    return login


def _read_chain(place: str, file: Path) -> tuple[list[int], str]:
    """Return the sizes of the certificates in a PEM file, and the kind of the first one's key."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        chain = x509.load_pem_x509_certificates(file.read_bytes())
    except OSError as error:
        raise UserError(f"{place}: cannot be read ({error.strerror}); give a PEM file") from None
    except ValueError:
        raise UserError(f"{place}: has no certificate in PEM; give the file that the daemon "
                        "reads") from None
    try:
        kind = _describe_key(chain[0].public_key())
    except (UnsupportedAlgorithm, ValueError):
        kind = "of an unknown kind"
    if kind not in KEY_KINDS:
        raise UserError(f"{place}: the key is {kind}, whose signature has an unknown size; known "
                        f"are {', '.join(KEY_KINDS)}")
    return [len(each.public_bytes(Encoding.DER)) for each in chain], kind


def _describe_key(public: object) -> str:
    """Return the kind of a public key, such as "rsa-2048" or "ml-dsa-65"."""
    name = type(public).__name__.removesuffix("PublicKey").lower()
    if name.startswith("mldsa"):
        return f"ml-dsa-{name.removeprefix('mldsa')}"
    if curve := getattr(public, "curve", None):
        return _CURVES.get(curve.name, str(curve.name))
    size = getattr(public, "key_size", None)
    return f"{name}-{size}" if size else name


# --- Tables ---

def _make_cost_table(login: EapLogin, packets: LoginPackets, rtt_s: float,
                     retries: RetryEstimate | None, logins_per_s: float) -> Table:
    from analysis.table import Column, Entry, Table

    waits_s = packets.round_trips * rtt_s
    operation_s = time_server_operations(login)
    rows: list[tuple[str, float, int, str]] = [
        ("EAP packets", len(packets.eap), 0, "with the access point's request for the identity"),
        ("bytes in EAP packets", packets.eap_bytes, 0, ""),
        ("RADIUS packets", len(packets.radius), 0,
         f"in {packets.ip_packets} IP packets of at most 1500 bytes"),
        ("bytes in RADIUS packets", packets.radius_bytes, 0, "without IP and UDP headers"),
        ("round trips to the RADIUS server", packets.round_trips, 0, ""),
        ("waiting for the wire [ms]", waits_s * 1e3, 1, f"{rtt_s * 1e3:g} ms a round trip"),
    ]
    if retries is not None:
        rows += [("authentications without a loss [%]", retries.undisturbed * 100, 1, ""),
                 ("authentications in time [%]", retries.completed * 100, 1,
                  f"within {LOGIN_LIMIT_S:g} s: the station then begins again"),
                 ("waiting for lost packets, mean [ms]", retries.wait_s * 1e3, 0,
                  "of those in time: 3 s for the first repetition, then twice as long")]
    if login.has_compression:
        rows.append(("bytes of the station's certificates", sum(login.client_chain), 0,
                     "the station sends them compressed, which spares some"))
    server_s = estimate_server_time(login, packets.round_trips, operation_s, time_signature())
    rows += [("public-key operations of the server [ms]", operation_s * 1e3, 2,
              "of the processor of this machine, timed now"),
             ("processor time of the server [ms]", server_s * 1e3, 2,
              "with FreeRADIUS' packets, by a model: within 20 %"),
             ("share of a processor [%]", server_s * logins_per_s * 100, 1,
              f"at {logins_per_s:g} authentications a second")]
    title = _describe_login(login)
    return Table("cost", title, (Column("quantity", "quantity"), Column("value", "value"),
                                 Column("note", "note")),
                 tuple((Entry(what), Entry(f"{value:,.{digits}f}"), Entry(note))
                       for what, value, digits, note in rows))


def _describe_login(login: EapLogin) -> str:
    """Describe the settings that decide an authentication's packets."""
    from analysis.table import count_noun

    if login.method == "MD5":
        return f"EAP-MD5 of {login.release}"
    name = "EAP-TLS" if login.method == "TLS" else f"{login.method} with TLS"
    keys = [] if login.is_resumed else [login.server_key]
    shows_both = login.uses_client_certificate
    if login.client_key != login.server_key and shows_both and keys:
        keys = [f"{login.server_key} at the server, {login.client_key} at the station"]
    # A resumed session of TLS 1.2 has no key agreement.
    groups = [] if login.is_resumed and login.version == "1.2" else [login.group]
    settings = ", ".join([f"{name} {login.version} of {login.release}", *keys, *groups,
                          f"fragments of {login.fragment_bytes} bytes"])
    shown = [login.server_chain, *[login.client_chain] * shows_both]
    chains = " and ".join(f"{count_noun(len(chain), 'certificate')} of {sum(chain):,} bytes"
                          for chain in shown)
    return f"{settings}: {'a resumed session' if login.is_resumed else chains}"


def _make_packet_table(packets: LoginPackets) -> Table:
    from analysis.table import Column, Entry, Table

    radius = iter(packets.radius)
    rows = []
    for number, packet in enumerate(packets.eap):
        carrier = next(radius) if number else None
        rows.append((Entry(str(number + 1)),
                     Entry(packet.sender if number else "access point"),
                     Entry(str(packet.size)), Entry(str(carrier.size) if carrier else "")))
    return Table("packets", "Packets", (Column("number", "packet"), Column("sender", "sender"),
                                        Column("eap", "EAP", unit="bytes"),
                                        Column("radius", "RADIUS", unit="bytes")), tuple(rows))


# --- Remedies ---

#: Kinds of keys from the strongest post-quantum one on, and fragments that a policy may have.
_SMALLER_KEYS = ("ml-dsa-65", "ml-dsa-44", "p-256")
_MOST_FRAGMENT = 1400


def find_remedies(login: EapLogin, problem: Problem) -> list[str]:
    """Return what lets FreeRADIUS accept an authentication, by computing it with other settings.

    Certificates of other keys are computed as qop makes them, in chains as long as the chains of
    `login`. A shorter chain is no remedy: a station with a single certificate sends the root, too.
    """
    if problem.limit == SERVER_MESSAGE_LIMIT:
        spare = SERVER_MESSAGE_LIMIT - (problem.value - sum(login.client_chain))
        found = [f"certificates of the station with at most {spare:,} bytes in all"]
    else:
        found = [_find_fragments(login)]
    fitting = next((key for key in _SMALLER_KEYS if KEY_KINDS[key].signature
                    < KEY_KINDS[login.client_key].signature
                    and problem.limit not in _list_limits(_use_key(login, key, problem))), "")
    side = ("at the station" if problem.limit == SERVER_MESSAGE_LIMIT else "on both sides"
            if login.has_client_certificate else "at the server")
    found.append(f"keys of {fitting} {side}" if fitting else "")
    tunnel = replace(login, method="PEAP", inner="MSCHAPV2", user="mobile-node")
    if login.has_client_certificate and not _list_limits(tunnel):
        found.append("PEAP or TTLS, where the station shows no certificate")
    return [remedy for remedy in found if remedy] or ["no other setting of this command"]


def _list_limits(login: EapLogin) -> list[int]:
    return [problem.limit for problem in compute_packets(login).problems]


def _find_fragments(login: EapLogin) -> str:
    """Return the smallest fragments of the server, in steps of 100 bytes, with few requests."""
    for size in range(login.fragment_bytes // 100 * 100 + 100, _MOST_FRAGMENT + 1, 100):
        if SERVER_REQUEST_LIMIT not in _list_limits(replace(login, fragment_bytes=size)):
            return f"fragments of the server with {size} bytes"
    return ""


def _use_key(login: EapLogin, key: str, problem: Problem) -> EapLogin:
    """Return the inputs with qop's certificates for another kind of key.

    The server keeps its certificates if only the station's message is too long.
    """
    client = chain_bytes(key, len(login.client_chain), login.user, is_server=False)
    changed = replace(login, client_key=key, client_chain=client)
    if problem.limit == SERVER_MESSAGE_LIMIT:
        return changed
    return replace(changed, server_key=key, server_chain=chain_bytes(
        key, len(login.server_chain), "radius", is_server=True))


# --- Losses and the processor ---

class RetryEstimate(NamedTuple):
    """The effect of lost packets on an authentication.

    - `undisturbed`: share of authentications without a loss
    - `completed`: share that complete within the daemons' time limits
    - `wait_s`: mean wait for lost packets in those that complete (s)
    """

    undisturbed: float
    completed: float
    wait_s: float


def estimate_retries(packets: LoginPackets, loss: float, rtt_s: float) -> RetryEstimate:
    """Return how lost packets delay an authentication, within the daemons' time limits.

    A round trip fails if an IP packet of the request or of the reply is lost. hostapd then asks
    again after 3 s, and after twice as long each further time. Without a reply within 30 s, it
    begins the authentication again. wpa_supplicant gives up after 70 s.

    Args:
        packets: The packets of the authentication.
        loss: Share of IP packets that are lost, each way.
        rtt_s: Round trip between access point and server (s).
    """
    arrives = [(1 - loss) ** (ip_fragments(request) + ip_fragments(reply))
               for request, reply in zip(packets.radius[::2], packets.radius[1::2], strict=True)]
    waits_s = [wait_s for count in range(_RETRIES + 1)
               if (wait_s := RADIUS_TIMER.waits_s(count)) + rtt_s < ANSWER_LIMIT_S]
    ends: dict[float, float] = {}
    # Probability of each state: seconds since the beginning, and round trips that are complete.
    chances: dict[tuple[float, int], float] = {(0.0, 0): 1.0}
    queue = [*chances]
    while queue:
        at_s, done = state = heapq.heappop(queue)
        chance = chances.pop(state)
        if at_s >= LOGIN_LIMIT_S or chance < _LEAST_CHANCE:
            continue
        if done == len(arrives):
            ends[at_s] = ends.get(at_s, 0.0) + chance
            continue
        lost = 1 - arrives[done]
        following = [((round(at_s + wait_s + rtt_s, 6), done + 1), lost ** number * arrives[done])
                     for number, wait_s in enumerate(waits_s)]
        following.append(((at_s + ANSWER_LIMIT_S, 0), lost ** len(waits_s)))
        for later, share in following:
            if later not in chances:
                heapq.heappush(queue, later)
            chances[later] = chances.get(later, 0.0) + chance * share
    completed = sum(ends.values())
    usual_s = rtt_s * len(arrives)
    mean_s = sum(at_s * chance for at_s, chance in ends.items()) / completed if completed else 0.0
    return RetryEstimate(math.prod(arrives), completed, max(0.0, mean_s - usual_s))


def describe_time_limits(packets: LoginPackets, rtt_s: float, completed: float) -> str:
    """Return which time limit of the daemons an authentication exceeds, "" for none.

    Args:
        packets: The packets of the authentication.
        rtt_s: Round trip between access point and server (s).
        completed: Share of authentications that complete within the limits.
    """
    trips = packets.round_trips
    if rtt_s >= ANSWER_LIMIT_S:
        return (f"Fails: an answer of the RADIUS server takes {rtt_s:g} s, and hostapd begins the "
                f"authentication again after {ANSWER_LIMIT_S:g} s without an answer.")
    if trips * rtt_s >= LOGIN_LIMIT_S:
        return (f"Fails: {trips} round trips take {trips * rtt_s:.0f} s, and wpa_supplicant gives "
                f"up after {LOGIN_LIMIT_S:g} s. A round trip below "
                f"{LOGIN_LIMIT_S / trips * 1e3:,.0f} ms helps, or fewer round trips.")
    if completed < _RARE:
        return (f"Fails: fewer than 1 in {1 / _RARE:,.0f} authentications complete within the "
                f"{LOGIN_LIMIT_S:g} s after which wpa_supplicant gives up.")
    return ""


def time_server_operations(login: EapLogin) -> float:
    """Return the CPU time of a server's public-key operations in an authentication (s).

    The operations are timed on this machine, with its OpenSSL. They are the key agreement, a
    signature, and, if the station sends certificates, the verification of its signature and
    certificates. A resumed session has no such operation with TLS 1.2, and only the key agreement
    with TLS 1.3.
    """
    if login.method == "MD5" or (login.is_resumed and login.version == "1.2"):
        return 0.0
    agreement_s = _median_s(_make_agreement(login.group))
    if login.is_resumed:
        return agreement_s
    sign, _ = _make_signer(login.server_key)
    _, verify = _make_signer(login.client_key)
    # A station of PEAP or TTLS shows no certificate, but in EAP-TLS inside, which is TLS once more.
    verified = (len(login.client_chain) + 1) * login.uses_client_certificate
    return (1 + (login.inner == "TLS")) * (_median_s(sign) + agreement_s) \
        + verified * _median_s(verify)


#: Processor time of FreeRADIUS 3.2.7 (Debian 13) besides public-key operations: for each login with
#: TLS, and for each round trip (s). docs/cost.md says how they were fitted, and their error.
_LOGIN_S, _ROUND_TRIP_S = 0.52e-3, 0.137e-3
#: Time of an RSA-2048 signature on the machine of the fit (s). Others are faster or slower by it.
FITTED_SIGNATURE_S = 0.00025


def estimate_server_time(login: EapLogin, round_trips: int, operation_s: float,
                         signature_s: float) -> float:
    """Return the CPU time of FreeRADIUS for an authentication (s).

    Args:
        login: The inputs of the authentication.
        round_trips: Its requests to the server.
        operation_s: Time of the server's public-key operations on this machine (s).
        signature_s: Time of an RSA-2048 signature on this machine (s).
    """
    packets_s = _LOGIN_S * (login.method != "MD5") + _ROUND_TRIP_S * round_trips
    return operation_s + packets_s * signature_s / FITTED_SIGNATURE_S


def time_signature() -> float:
    """Return the CPU time of an RSA-2048 signature on this machine (s)."""
    sign, _ = _make_signer("rsa-2048")
    return _median_s(sign)


def _median_s(operation: Callable[[], object]) -> float:
    operation()
    samples = []
    for _ in range(_TIMINGS):
        begun = time.process_time_ns()
        operation()
        samples.append(time.process_time_ns() - begun)
    return sorted(samples)[_TIMINGS // 2] / 1e9


def _make_signer(key: str) -> tuple[Callable[[], bytes], Callable[[], object]]:
    """Return functions that sign, and that verify a signature, with a new key of a kind."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, mldsa, padding, rsa

    data = bytes(64)
    if key.startswith("rsa"):
        secret = rsa.generate_private_key(65537, int(key.removeprefix("rsa-")))
        scheme = padding.PKCS1v15(), hashes.SHA256()
        signature = secret.sign(data, *scheme)
        return (lambda: secret.sign(data, *scheme),
                lambda: secret.public_key().verify(signature, data, *scheme))
    if key.startswith("p-"):
        curve = ec.generate_private_key(ec.SECP384R1() if key == "p-384" else ec.SECP256R1())
        algorithm = ec.ECDSA(hashes.SHA256())
        signed = curve.sign(data, algorithm)
        return (lambda: curve.sign(data, algorithm),
                lambda: curve.public_key().verify(signed, data, algorithm))
    lattice = getattr(mldsa, f"MLDSA{key.removeprefix('ml-dsa-')}PrivateKey").generate()
    made = lattice.sign(data)
    return lambda: lattice.sign(data), lambda: lattice.public_key().verify(made, data)


def _make_agreement(group: str) -> Callable[[], object]:
    """Return a function that does a server's part of a key agreement."""
    from cryptography.hazmat.primitives.asymmetric import ec, mlkem, x25519

    parts: list[Callable[[], object]] = []
    if "mlkem" in group:
        kind = getattr(mlkem, f"MLKEM{group.partition('mlkem')[2]}PrivateKey")
        parts.append(kind.generate().public_key().encapsulate)
    if group.startswith("x25519"):
        peer = x25519.X25519PrivateKey.generate().public_key()
        parts.append(lambda: x25519.X25519PrivateKey.generate().exchange(peer))
    if group.startswith(("p-", "secp")):
        curve = ec.SECP384R1() if "384" in group else ec.SECP256R1()
        other = ec.generate_private_key(curve).public_key()
        parts.append(lambda: ec.generate_private_key(curve).exchange(ec.ECDH(), other))
    return lambda: _call_all(parts)


def _call_all(functions: Sequence[Callable[[], object]]) -> None:
    for function in functions:
        function()
