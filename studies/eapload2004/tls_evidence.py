"""Checks of TLS version, certificates and authorities in captured authentications."""

from __future__ import annotations

from collections.abc import Sequence

from measure.record import CheckRecord
from studies.eapload2004.certificates import ShownCertificate, parse_certificates, parse_version
from studies.eapload2004.exchanges import Exchange
from studies.eapload2004.observed import ObservedLoad

#: Name of the visited network's authority.
_VISITED = "visited"
#: Servers count the header of an EAP packet differently (bytes).
_HEAD_BYTES = 10


def check_certificates(observed: ObservedLoad) -> CheckRecord:
    """Check that full authentications show certificates and resumed ones do not.

    The cell says which the supplicant's are. In the background, the generator's journal says which
    of those on the captured port were resumed.
    """
    front, sample = _tls_exchanges(observed)
    is_full = observed.cell["sessions"] == "full"
    shows = sum(exchange.has_certificates for exchange in (*front, *sample))
    resumed = sum(row["resumed"] for row in observed.rows
                  if row["socket"] == 0 and not row["reason"])
    to_show = len(front) * is_full + len(sample) - resumed
    ok = (bool(front or sample) and shows == to_show and not (is_full and resumed)
          and all(exchange.has_certificates == is_full for exchange in front))
    return CheckRecord(check="certificates", ok=ok, detail=f"in {shows} of "
                       f"{len(front) + len(sample)} captured authentications; {to_show} are to be "
                       "full")


def _tls_exchanges(observed: ObservedLoad) -> tuple[list[Exchange], list[Exchange]]:
    """Return the EAP-TLS authentications of the supplicant and of the background's sample.

    For an overloaded server, incomplete ones are left out.
    """
    front = observed.supplicant if observed.cell["method"] == "tls" else ()
    chosen = [[exchange for exchange in those if exchange.is_complete or not observed.overload]
              for those in (front, observed.sample)]
    return chosen[0], chosen[1]


def check_policy(observed: ObservedLoad) -> CheckRecord:
    """Check that TLS version, fragments, keys and chains are those of the cell.

    Keys and chains are checked where they are visible.
    """
    cell, (front, sample) = observed.cell, _tls_exchanges(observed)
    both = [*front, *sample]
    versions = {parse_version(exchange.from_server) for exchange in both}
    pieces = {size for exchange in both for size in exchange.pieces}
    sides = [[chain for flight in flights if (chain := parse_certificates(flight))] for flights in (
        [exchange.from_server for exchange in both], [exchange.from_client for exchange in both])]
    lengths = [{_chain_length(chain) for chain in side} for side in sides]
    keys = {certificate.key for side in sides for chain in side for certificate in chain}
    ok = (versions == {cell["tls"]} and keys <= {cell["key"]}
          and all(length <= {int(cell["chain"])} for length in lengths)
          and all(0 <= size - int(cell["fragment"]) <= _HEAD_BYTES for size in pieces))
    said = "; chains of " + " and ".join(
        "/".join(map(str, sorted(length))) for length in lengths) + f", {'/'.join(sorted(keys))}"
    return CheckRecord(check="policy", ok=ok, detail=f"TLS {'/'.join(sorted(versions))}"
                       + said * bool(keys)
                       + "".join(f"; in pieces of {size} bytes" for size in sorted(pieces)))


def _chain_length(chain: Sequence[ShownCertificate]) -> int:
    """Return the length of a certificate chain.

    OpenSSL's clients add a trusted root to a certificate that has no other chain. This root does
    not count.
    """
    is_lone = len(chain) == 2 and chain[1].subject == chain[1].issuer == chain[0].issuer
    return 1 if is_lone else len(chain)


def check_identity(observed: ObservedLoad) -> CheckRecord:
    """Check that the station's certificate has the claimed identity.

    With a temporary identity, the certificate must have the permanent number instead.
    """
    claimed = {exchange.user for exchange in observed.supplicant}
    named = {certificates[0].subject for exchange in observed.supplicant
             if (certificates := parse_certificates(exchange.from_client))}
    is_temporary = observed.cell["identity"] == "p-tmsi"
    ok = (named == {observed.imsi} and not named & claimed) if is_temporary else named == claimed
    return CheckRecord(check="identity", ok=ok, detail=f"{', '.join(sorted(claimed))} is claimed, "
                       f"{', '.join(sorted(named))} is in the certificate")


def check_authorities(observed: ObservedLoad) -> CheckRecord:
    """Check the authorities of server and station.

    A near server must have a certificate of its own network's authority, which the home network's
    authority has certified.
    """
    chains = [parse_certificates(exchange.from_server) for exchange in observed.supplicant]
    stations = [parse_certificates(exchange.from_client) for exchange in observed.supplicant]
    homes = {chain[-1].issuer for chain in stations if chain}
    own = {chain[0].issuer for chain in chains if chain}
    last = {chain[-1].issuer for chain in chains if chain}
    crossed = {chain[-1].subject for chain in chains if len(chain) > 1}
    is_near = observed.cell["path"] == "near"
    ok = bool(own) and last == homes and (own == crossed == {_VISITED} if is_near
                                          else _VISITED not in own)
    return CheckRecord(check="authority", ok=ok, detail=f"the server is certified by "
                       f"{', '.join(sorted(own))}, its chain ends at {', '.join(sorted(last))}, "
                       f"the station's at {', '.join(sorted(homes))}")
