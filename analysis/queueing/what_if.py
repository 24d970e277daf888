"""Change a queueing network for what-if questions, such as "what if the server were faster".

`./qop model --what-if` uses this module. `parse_setting` parses a change such as `radius.speed=10`
into its name and value. `apply_settings` takes a network with such changes and returns the changed
network. A change may concern a station's (server's) speed, delay or number of servers. It may also
concern the load of a chain (kind of transaction), or how frequent a variant of it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from analysis.queueing.network import (
    Chain,
    CustomerClass,
    QueueingError,
    QueueingNetwork,
    Visit,
    suggest_word,
)

#: Settings of a station and of a chain.
OF_STATION = ("speed", "servers", "delay_ms", "rtt_ms")
OF_CHAIN = ("population", "rate_per_s", "think_s")


def parse_setting(text: str) -> tuple[str, float]:
    """Parse a what-if change such as `radius.speed=10` into its name and value.

    Raises:
        QueueingError: The text is not a setting.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (name and equals and math.isfinite(number)):
        raise QueueingError(f"what-if {text!r}", "is not a setting",
                            "write NAME=NUMBER, for example radius.speed=10")
    return name, number


def apply_settings(network: QueueingNetwork, settings: Mapping[str, float]) -> QueueingNetwork:
    """Return a queueing network with what-if changes applied.

    - STATION.speed divides the station's service times, STATION.servers sets the number of servers.
    - STATION.delay_ms sets a delay station's time per visit.
    - STATION.rtt_ms sets the round-trip time of a communication network. The station's `direction`
      says whether a visit is a round trip or one way.
    - CHAIN.population, CHAIN.rate_per_s and CHAIN.think_s set a load.
    - VARIANT sets the variant's fraction of the cycles in every chain that has it. The other
      variants keep their proportions.

    For example {"radius.speed": 10, "wan.rtt_ms": 120, "resumed": 0.9}.

    Raises:
        QueueingError: A station, chain, variant or setting does not exist, or a value is not valid.
    """
    for name, value in settings.items():
        network = _apply_setting(network, name, value)
    return network


def with_load(network: QueueingNetwork, chain: str, load: float) -> QueueingNetwork:
    """Return a queueing network with another load for one kind of transaction (chain).

    The load is a number of customers or an arrival rate.
    """
    setting = "rate_per_s" if network.chain(chain).is_open else "population"
    return _set_chain(network, network.chain(chain), setting, load)


def _apply_setting(network: QueueingNetwork, name: str, value: float) -> QueueingNetwork:
    """Return the network after one setting of a what-if question, such as `server.speed=2`."""
    owner, _, what = name.rpartition(".")
    where = f"what-if {name!r}"
    chains = {chain.name: chain for chain in network.chains}
    if not owner:
        return _set_share(network, name, value)
    if owner in network.index and what in OF_STATION:
        return _set_station(network, owner, what, value)
    if owner in chains and what in OF_CHAIN:
        return _set_chain(network, chains[owner], what, value)
    if owner in network.index or owner in chains:
        known = (*(OF_STATION if owner in network.index else ()),
                 *(OF_CHAIN if owner in chains else ()))
        raise QueueingError(where, f"{owner} has no {what!r}", suggest_word(what, known))
    raise QueueingError(where, f"there is no station or chain {owner!r}",
                        suggest_word(owner, (*network.index, *chains)))


def _set_station(network: QueueingNetwork, name: str, what: str, value: float) -> QueueingNetwork:
    """Return the network with another number of servers, speed or delay of a station."""
    station, where = network.station(name), f"what-if '{name}.{what}'"
    if what == "servers":
        if value != int(value) or value < 1:
            raise QueueingError(where, f"{value:g} is not a number of servers", "give 1, 2, ...")
        stations = tuple(replace(entry, servers=int(value)) if entry is station else entry
                         for entry in network.stations)
        return replace(network, stations=stations)
    if what == "speed":
        if value <= 0:
            raise QueueingError(where, f"a speed of {value:g} ends nothing", "give more than 0")
        return _map_visits(network, name, lambda visit: visit.service_s / value)
    if station.discipline != "delay":
        raise QueueingError(where, f"station {name!r} is a queue, not a delay", "set its speed")
    if value < 0:
        raise QueueingError(where, f"a delay of {value:g} ms is negative", "give 0 or more")
    if what == "rtt_ms" and station.direction is None:
        raise QueueingError(where, "the station does not say what a visit is",
                            "give it a direction, round_trip or one_way, or set delay_ms")
    trips = 2 if what == "rtt_ms" and station.direction == "one_way" else 1
    return _map_visits(network, name, lambda _visit: value / 1000 / trips)


def _map_visits(network: QueueingNetwork, station: str,
                service_s: Callable[[Visit], float]) -> QueueingNetwork:
    """Return a queueing network in which the service times of a queueing station are changed."""
    def changed(member: CustomerClass) -> CustomerClass:
        return replace(member, visits=tuple(
            replace(visit, service_s=service_s(visit)) if visit.station == station else visit
            for visit in member.visits))
    return replace(network, chains=tuple(
        replace(chain, classes=tuple(map(changed, chain.classes))) for chain in network.chains))


def _set_chain(network: QueueingNetwork, chain: Chain, what: str, value: float) -> QueueingNetwork:
    """Return the network with another population, rate or think time of a chain."""
    where = f"what-if '{chain.name}.{what}'"
    if (what == "rate_per_s") != chain.is_open:
        kind = "open" if chain.is_open else "closed"
        raise QueueingError(where, f"the chain is {kind}",
                            "set its rate_per_s" if chain.is_open else "set its population")
    if what == "population" and value != int(value):
        raise QueueingError(where, f"{value:g} is not a number of customers", "give 0, 1, 2, ...")
    changed = {"population": lambda: replace(chain, population=int(value)),
               "rate_per_s": lambda: replace(chain, rate_per_s=float(value)),
               "think_s": lambda: replace(chain, think_s=float(value))}[what]()
    return replace(network, chains=tuple(changed if entry is chain else entry
                                         for entry in network.chains))


def _set_share(network: QueueingNetwork, variant: str, value: float) -> QueueingNetwork:
    where = f"what-if {variant!r}"
    variants = {name for chain in network.chains for name in chain.shares}
    if variant not in variants:
        raise QueueingError(where, "is not a variant of any chain", suggest_word(variant, variants))
    if not 0 <= value <= 1:
        raise QueueingError(where, f"{value:g} is not a share", "give a number from 0 to 1")
    return replace(network, chains=tuple(
        replace(chain, shares=_rescale_shares(where, chain.shares, variant, value))
        if variant in chain.shares else chain for chain in network.chains))


def _rescale_shares(where: str, shares: Mapping[str, float], variant: str,
                    value: float) -> dict[str, float]:
    others = {name: share for name, share in shares.items() if name != variant}
    if not others and value != 1:
        raise QueueingError(where, "is the chain's only variant", "its share stays 1")
    total = sum(others.values())
    # If the other variants had no share so far, they get equal shares.
    rest = {name: (share / total if total else 1 / len(others)) * (1 - value)
            for name, share in others.items()}
    return {name: value if name == variant else rest[name] for name in shares}
