"""List the combinations of factors that eapload2004 measures.

A station authenticates by EAP-TLS at a RADIUS server that other clients load. Factors are the load,
the round-trip time, keys, TLS version, path and others. One factor varies at a time, and all others
stay as in the 2004 paper. `select_cells` yields the combinations (cells) for the values that the
user chose.

Further functions compute the rate of the load. `is_overloaded` and `check_offered` find loads that
exceed the capacity of the server or of the load generator. The paper is Kambourakis, Rouskas and
Gritzalis (2004).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from measure.charging.device import costs_s
from measure.load.generator import IN_FLIGHT
from studies.eapload2004.settings import Settings
from studies.study import Cell, Factor, Level, StudyError, build_chosen_cells, fixed_levels
from topologies.loader import load_device

#: Loads of Table 1 (1/s), and two higher ones that bring the server's utilization to 0.73 and 0.84.
TABLE_1 = (1, 4, 5, 8, 10, 20, 25, 50)
LOADS = (0, *TABLE_1, 65, 75)
#: Load at which the factors other than load and place are varied.
BESIDE = "5"
RTTS_MS = (0, 40, 120, 300)
#: Load in per cent of the capacity, which the same repetition measures before its load. The last
#: level overloads the server, and the consequences are a result.
SHARES = (0, 25, 50, 80, 120)
ALL_PERCENT = 100
#: Policies that are also measured at these loads, for a figure of the authentication time against
#: the server's utilization. Other policies have one point in that figure.
POLICIES: Mapping[str, Mapping[str, str]] = {
    "RSA-2048": {"key": "rsa-2048"}, "TLS 1.3": {"tls": "1.3"}, "chain of 3": {"chain": "3"},
    "proxied": {"path": "proxied"}}
#: Today's certificates and groups beside post-quantum ones, the baseline first. The server is near,
#: since round trips only add their own time to each authentication.
TODAYS: Mapping[str, Mapping[str, str]] = {
    f"{title}, {title_of_group}": {"tls": "1.3", "key": key, "group": group, "rtt": "0"}
    for title, key, title_of_group, group in (
        ("RSA-2048", "rsa-2048", "X25519", "x25519"), ("P-256", "p-256", "X25519", "x25519"),
        ("RSA-2048", "rsa-2048", "X25519MLKEM768", "x25519mlkem768"),
        ("ML-DSA-44", "ml-dsa-44", "X25519MLKEM768", "x25519mlkem768"),
        ("ML-DSA-65", "ml-dsa-65", "X25519MLKEM768", "x25519mlkem768"))}
#: Round trips between the authentication server and the subscriber server (ms).
HSS_RTTS_MS = (0, 40, 120)


@dataclass(frozen=True)
class AirPlace:
    """A place of the station, and the losses on the air at this place.

    The air loses `loss_percent` of the transmissions. A lost frame is sent again up to `retries`
    times.
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
           "driver": "generator", "group": "p-256"}


def _number_factor(name: str, title: str, values: Sequence[float], unit: str, plural: str = "",
                   words: str = "") -> Factor:
    return Factor(name, title, is_number=True, unit=unit, plural=plural, help=words,
                  option=f"--{plural}" if words else "", read=fixed_levels(
                      [Level(f"{value:g}", number=value) for value in values]))


FACTORS = (
    _number_factor("load", "Load", LOADS, "1/s", "loads",
                   "Create this background load, in authentications per second: "
                   f"{', '.join(map(str, LOADS))} (default: from the profile, else all)."),
    _number_factor("rtt", "Round trip", RTTS_MS, "ms"),
    Factor("place", "Place", read=fixed_levels([Level(name, place.title, value=place)
                                                for name, place in PLACES.items()])),
    Factor("key", "Key", read=fixed_levels([Level("rsa-1024", "RSA, 1024 bits"),
                                            Level("rsa-2048", "RSA, 2048 bits"),
                                            Level("p-256", "ECDSA, P-256"),
                                            Level("ml-dsa-44", "ML-DSA-44"),
                                            Level("ml-dsa-65", "ML-DSA-65")])),
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
        Level("eapol_test", "the load generator and eapol_test in turn, as its reference")])),
    Factor("group", "Group", read=fixed_levels([
        Level("p-256", "P-256"), Level("x25519", "X25519"),
        Level("x25519mlkem768", "X25519MLKEM768")])))
NAMES = tuple(factor.name for factor in FACTORS)


def cell_ids(**changes: str) -> tuple[str, ...]:
    """Return a combination of factor values: the paper's experiment, except for `changes`."""
    return tuple((NOMINAL | changes)[name] for name in NAMES)


#: Cell without load, which measures the server's capacity.
ALONE = cell_ids(load="0")


def aka_ids(hss_rtt_ms: float) -> tuple[str, ...]:
    """Return the combination for EAP-AKA (SIM card) without load, by round trip to the HSS (ms)."""
    return cell_ids(load="0", method="aka", server="hostapd", hss=f"{hss_rtt_ms:g}")


def share_ids(share: float, **changes: str) -> tuple[str, ...]:
    """Return the combination whose load is a percentage of the server's capacity."""
    return cell_ids(load="0", share=f"{share:g}", **changes)


def design_cells() -> Iterator[tuple[str, ...]]:
    """Yield the combinations that tables, figures and claims need, with repetitions."""
    yield from (cell_ids(load=str(load)) for load in LOADS)
    yield from (cell_ids(load=str(load), place="outside") for load in TABLE_1)
    yield from (share_ids(share) for share in SHARES if share)
    yield from (share_ids(share, **policy) for share in SHARES if 0 < share < ALL_PERCENT
                for policy in (*POLICIES.values(), *TODAYS.values()))
    yield from (cell_ids(rtt=str(rtt)) for rtt in RTTS_MS)
    yield from (cell_ids(key=key) for key in ("rsa-2048", "p-256"))
    # Without load, only the varied factor makes a difference, however small.
    yield from (cell_ids(load="0", chain=str(chain)) for chain in (1, 3))
    # FreeRADIUS resumes a session of TLS 1.3 once, so every second authentication of the station
    # would be in full. There is no such cell.
    yield cell_ids(sessions="resumed")
    yield cell_ids(tls="1.3")
    yield cell_ids(path="proxied")
    yield cell_ids(load="0", path="near")
    yield cell_ids(load="0", identity="p-tmsi")
    # hostapd has both methods, so they can be compared under one server.
    yield cell_ids(load="0", server="hostapd")
    yield cell_ids(load="0", driver="eapol_test")
    yield from map(aka_ids, HSS_RTTS_MS)
    yield cell_ids(fragment=str(SMALL_FRAGMENT_BYTES))
    yield from (cell_ids(load="0", **policy) for policy in TODAYS.values())


def select_cells(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """Yield the combinations to measure for the chosen factor values, each once."""
    return build_chosen_cells(NAMES, design_cells(), levels)


# --- Capacity of the server's device and of the generator ---

#: Memory of a waiting authentication at server and generator together (kB). With 1000 to 2000 of
#: them, 165 to 190 kB were measured.
_WAITING_KB = 200
#: Share of the capacity from which on a server that falls behind may not catch up: clients
#: retransmit, and the server answers some in vain.
_NEAR_CAPACITY = 0.8


def capacity_per_s(ids: Mapping[str, str], settings: Settings) -> float | None:
    """Return how many authentications per second the server's processor model can do.

    The result is None if the model charges nothing.
    """
    device = load_device(settings.server_device)
    if device.is_neutral:
        return None
    costs = costs_s({kind: vars(work) for kind, work in device.work.items()}, ids["key"])
    # The server signs once, and verifies the station's chain and signature.
    demand_s = costs["sign"] + (int(ids["chain"]) + 1) * costs["verify"]
    if ids["sessions"] == "resumed":
        demand_s *= 1 - settings.resumed_share
    return device.processors / demand_s if demand_s else None


def rate_per_s(ids: Mapping[str, str], capacity: float) -> float:
    """Return the load of a combination (authentications/s) for a server of this capacity."""
    return float(ids["load"]) + capacity * float(ids["share"]) / ALL_PERCENT


def is_overloaded(ids: Mapping[str, str], settings: Settings) -> bool:
    """Return whether the load exceeds the capacity of the server.

    Overload is a valid result. Such repetitions have checks of their own.
    """
    if float(ids["share"]):
        return float(ids["share"]) >= ALL_PERCENT
    capacity = capacity_per_s(ids, settings)
    return capacity is not None and float(ids["load"]) >= capacity


def memory_mb(ids: Mapping[str, str], settings: Settings) -> int:
    """Return the memory (MB) that the guest needs for authentications that wait for the server."""
    capacity = capacity_per_s(ids, settings)
    share = float(ids["share"]) / ALL_PERCENT or (
        float(ids["load"]) / capacity if capacity else 0.0)
    return IN_FLIGHT * _WAITING_KB // 1000 if share >= _NEAR_CAPACITY else 0


def check_offered(ids: Mapping[str, str], settings: Settings) -> None:
    """Check that the load generator can have enough authentications under way.

    Raises:
        StudyError: an overload would need more than the generator's limit.
    """
    capacity = capacity_per_s(ids, settings)
    if capacity is None or not is_overloaded(ids, settings):
        return
    rate = rate_per_s(ids, capacity)
    waiting = (rate - capacity) * (settings.steady_s + settings.overload_s)
    if waiting > IN_FLIGHT:
        raise StudyError(
            f"load: {rate:.3g}/s at {capacity:.3g}/s that {settings.server_device} takes cannot be "
            f"offered: {waiting:.0f} authentications would be under way in the end, and the load "
            f"generator has room for {IN_FLIGHT}; choose a lower load, a faster --server-device, "
            "or a shorter --set overload_s=")
