"""Factors, levels and cells: one factor varies at a time around the paper's own cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from studies.study import Cell, Factor, Level, chosen_cells, fixed_levels

#: Loads of Table 1 (1/s), and two higher ones that bring the server's utilization to 0.73 and 0.84.
TABLE_1 = (1, 4, 5, 8, 10, 20, 25, 50)
LOADS = (0, *TABLE_1, 65, 75)
#: Load at which the factors other than load and place are varied.
BESIDE = "5"
RTTS_MS = (0, 40, 120, 300)
#: Load in per cent of the capacity that the same repetition measures before. The last level
#: overloads the server, and the consequences are a result.
SHARES = (0, 25, 50, 80, 120)
ALL_PERCENT = 100
#: Policies that are also measured at shares, for response against utilization on one axis. Other
#: policies have one point there.
POLICIES: Mapping[str, Mapping[str, str]] = {
    "RSA-2048": {"key": "rsa-2048"}, "TLS 1.3": {"tls": "1.3"}, "chain of 3": {"chain": "3"},
    "proxied": {"path": "proxied"}}
#: Round trips between the authentication server and the subscriber server (ms).
HSS_RTTS_MS = (0, 40, 120)


@dataclass(frozen=True)
class AirPlace:
    """A place of the supplicant, with the share of transmissions that the air loses (%).

    A lost frame is sent again up to `retries` times.
    """

    title: str
    loss_percent: float
    retries: int = 7


PLACES = {"room": AirPlace("in the same room", 0.0),
          "outside": AirPlace("outside the building", 20.0)}
#: TLS bytes in an EAP packet of FreeRADIUS, and a size that splits a few TLS messages.
USUAL_FRAGMENT_BYTES, SMALL_FRAGMENT_BYTES = 1024, 256
NOMINAL = {"load": BESIDE, "rtt": "120", "place": "room", "key": "rsa-1024", "chain": "2",
           "tls": "1.2", "sessions": "full", "path": "direct",
           "fragment": str(USUAL_FRAGMENT_BYTES), "identity": "imsi", "method": "tls",
           "server": "freeradius", "hss": "0", "share": "0",
           "driver": "generator"}


def _number_factor(name: str, title: str, values: Sequence[float], unit: str, plural: str = "",
                   words: str = "") -> Factor:
    return Factor(name, title, is_number=True, unit=unit, plural=plural, help=words,
                  option=f"--{plural}" if words else "", read=fixed_levels(
                      [Level(f"{value:g}", number=value) for value in values]))


FACTORS = (
    _number_factor("load", "Load", LOADS, "1/s", "loads",
                   f"Authentications a second in the background, of {', '.join(map(str, LOADS))}."),
    _number_factor("rtt", "Round trip", RTTS_MS, "ms"),
    Factor("place", "Place", read=fixed_levels([Level(name, place.title, value=place)
                                                for name, place in PLACES.items()])),
    Factor("key", "Key", read=fixed_levels([Level("rsa-1024", "RSA, 1024 bits"),
                                            Level("rsa-2048", "RSA, 2048 bits"),
                                            Level("p-256", "ECDSA, P-256")])),
    _number_factor("chain", "Chain", (1, 2, 3), "certificates"),
    Factor("tls", "TLS", plural="versions of TLS", read=fixed_levels([Level("1.2"), Level("1.3")])),
    Factor("sessions", "Sessions", plural="kinds of sessions", read=fixed_levels(
        [Level("full", "each authentication in full"),
         Level("resumed", "resumed from the one before")])),
    Factor("path", "Path", read=fixed_levels([
        Level("direct", "the access point asks the server (Fig. 4)"),
        Level("proxied", "it asks the visited network's proxy, which forwards by realm (Fig. 1)"),
        Level("near", "it asks a server of the visited network's, by cross-certificates")])),
    _number_factor("fragment", "Fragment", (USUAL_FRAGMENT_BYTES, SMALL_FRAGMENT_BYTES), "bytes"),
    Factor("identity", "Identity", plural="identities", read=fixed_levels([
        Level("imsi", "the one in the certificate"),
        Level("p-tmsi", "a temporary one, which the server maps to that in the certificate")])),
    Factor("method", "Method",
           read=fixed_levels([Level("tls", "EAP-TLS"), Level("aka", "EAP-AKA")])),
    Factor("server", "Server", read=fixed_levels([Level("freeradius", "FreeRADIUS"),
                                                  Level("hostapd", "hostapd")])),
    _number_factor("hss", "HSS", HSS_RTTS_MS, "ms", "distances of the HSS"),
    _number_factor("share", "Share of capacity", SHARES, "%", "shares of capacity"),
    Factor("driver", "Driver", read=fixed_levels([
        Level("generator", "the load generator"),
        Level("eapol_test", "the load generator and eapol_test in turn, as its reference")])))
NAMES = tuple(factor.name for factor in FACTORS)


def ids(**changes: str) -> tuple[str, ...]:
    """Return a cell's ids: the paper's own experiment except for `changes`."""
    return tuple((NOMINAL | changes)[name] for name in NAMES)


#: Cell without load, which measures the server's capacity.
ALONE = ids(load="0")


def aka_ids(hss_rtt_ms: float) -> tuple[str, ...]:
    """Return the cell of EAP-AKA without load, by the round trip to the subscriber server."""
    return ids(load="0", method="aka", server="hostapd", hss=f"{hss_rtt_ms:g}")


def share_ids(share: float, **changes: str) -> tuple[str, ...]:
    """Return the cell whose load is a share of the capacity (%)."""
    return ids(load="0", share=f"{share:g}", **changes)


def design_cells() -> Iterator[tuple[str, ...]]:
    """Yield every cell as often as a table, figure or claim has it."""
    yield from (ids(load=str(load)) for load in LOADS)
    yield from (ids(load=str(load), place="outside") for load in TABLE_1)
    yield from (share_ids(share) for share in SHARES if share)
    yield from (share_ids(share, **policy) for share in SHARES if 0 < share < ALL_PERCENT
                for policy in POLICIES.values())
    yield from (ids(rtt=str(rtt)) for rtt in RTTS_MS)
    yield from (ids(key=key) for key in ("rsa-2048", "p-256"))
    # Without load, only the varied factor makes a difference, however small.
    yield from (ids(load="0", chain=str(chain)) for chain in (1, 3))
    # FreeRADIUS 3.2.1 gives no new ticket with a resumed session of TLS 1.3. Only every second
    # session is resumed, so there is no such cell.
    yield ids(sessions="resumed")
    yield ids(tls="1.3")
    yield ids(path="proxied")
    yield ids(load="0", path="near")
    yield ids(load="0", identity="p-tmsi")
    # hostapd has both methods, so they can be compared under one server.
    yield ids(load="0", server="hostapd")
    yield ids(load="0", driver="eapol_test")
    yield from map(aka_ids, HSS_RTTS_MS)
    yield ids(fragment=str(SMALL_FRAGMENT_BYTES))


def select_cells(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """Yield each cell of the design for the chosen levels once."""
    return chosen_cells(NAMES, design_cells(), levels)
