"""Each authentication is by the TLS, the certificates and the authorities of its cell: checks."""

from __future__ import annotations

from collections.abc import Sequence

from measure.record import CheckRecord
from studies.eapload2004.certificates import ShownCertificate, shown, version
from studies.eapload2004.exchanges import Exchange
from studies.eapload2004.observed import ObservedLoad

#: What the visited network's authority is called.
_VISITED = "visited"
#: Servers count the head of an EAP packet differently.
_HEAD_BYTES = 10


def certificates(observed: ObservedLoad) -> CheckRecord:
    """Certificates of both sides in all full authentications, in none that is resumed.

    The supplicant's are what the cell says; of the background, those on the captured port that the
    generator says were resumed.
    """
    front, sample = _compared(observed)
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


def _compared(observed: ObservedLoad) -> tuple[list[Exchange], list[Exchange]]:
    """Authentications by EAP-TLS, the supplicant's and those of the background's sample.

    An overloaded server may leave some without an end, which are none.
    """
    front = observed.supplicant if observed.cell["method"] == "tls" else ()
    chosen = [[exchange for exchange in those if exchange.is_complete or not observed.overload]
              for those in (front, observed.sample)]
    return chosen[0], chosen[1]


def policy(observed: ObservedLoad) -> CheckRecord:
    """TLS of the cell's version, in pieces of its size; keys and chains where they can be seen."""
    cell, (front, sample) = observed.cell, _compared(observed)
    both = [*front, *sample]
    versions = {version(exchange.from_server) for exchange in both}
    pieces = {size for exchange in both for size in exchange.pieces}
    sides = [[chain for flight in flights if (chain := shown(flight))] for flights in (
        [exchange.from_server for exchange in both], [exchange.from_client for exchange in both])]
    lengths = [{_length(chain) for chain in side} for side in sides]
    keys = {certificate.key for side in sides for chain in side for certificate in chain}
    ok = (versions == {cell["tls"]} and keys <= {cell["key"]}
          and all(length <= {int(cell["chain"])} for length in lengths)
          and all(0 <= size - int(cell["fragment"]) <= _HEAD_BYTES for size in pieces))
    said = "; chains of " + " and ".join(
        "/".join(map(str, sorted(length))) for length in lengths) + f", {'/'.join(sorted(keys))}"
    return CheckRecord(check="policy", ok=ok, detail=f"TLS {'/'.join(sorted(versions))}"
                       + said * bool(keys)
                       + "".join(f"; in pieces of {size} bytes" for size in sorted(pieces)))


def _length(chain: Sequence[ShownCertificate]) -> int:
    """How many certificates; of a lone one, without the root that OpenSSL's clients add to it.

    They do where they were given nothing else to show, and trust that root.
    """
    is_lone = len(chain) == 2 and chain[1].subject == chain[1].issuer == chain[0].issuer
    return 1 if is_lone else len(chain)


def names(observed: ObservedLoad) -> CheckRecord:
    """The station's certificate names whom it claims to be, or whose temporary number it claims."""
    claimed = {exchange.user for exchange in observed.supplicant}
    named = {certificates[0].subject for exchange in observed.supplicant
             if (certificates := shown(exchange.from_client))}
    is_temporary = observed.cell["identity"] == "p-tmsi"
    ok = (named == {observed.imsi} and not named & claimed) if is_temporary else named == claimed
    return CheckRecord(check="identity", ok=ok, detail=f"{', '.join(sorted(claimed))} is claimed, "
                       f"{', '.join(sorted(named))} is in the certificate")


def authorities(observed: ObservedLoad) -> CheckRecord:
    """A near server is certified by its own network's authority, and that by the home network's."""
    chains = [shown(exchange.from_server) for exchange in observed.supplicant]
    stations = [shown(exchange.from_client) for exchange in observed.supplicant]
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
