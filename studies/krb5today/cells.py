"""List the combinations of factors that krb5today measures, and build their network.

Factors are the login method (mechanism), network, transport and number of users. `design_cells`
yields the combinations (cells) for the values that the user chose. `build_realms` builds three
Kerberos realms and client nodes on links around a router. Over the air, a mobile node logs in to
realms behind its home agent (`at_home`). `studies.krb5today` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from policies import KerberosLayer
from studies import policy_factors
from studies.kerberos_logins import LoginDesign
from studies.krb5today.mechanisms import LOADED, MECHANISMS
from studies.study import Cell, Factor, Level, fixed_levels
from topologies import shapes
from topologies.loader import load_wire
from topologies.model import Network, Scenario

CUSTOMERS = (1, 2, 8, 32)
WIRES = {"none": "a wire that takes no time", "lan": "10 Mbit/s", "wan": "1 Mbit/s, 44.5 ms",
         "slow": "102 kbit/s, 80.5 ms", "3g": "384 kbit/s, 100 ms", "2g": "9600 bit/s, 520 ms"}
#: Level of `scenario` for clients on wires.
REALMS = "three-realms"
TRANSPORTS = {"default": "UDP first, up to 1465 bytes", "tcp": "TCP first"}
#: Mechanisms measured with both transports, on a fast wire and on one slower than the library's
#: timers.
TIMED = ("spake", "pkinit-dh", "pkinit-rsa")


def name_mechanism(layer: KerberosLayer) -> str:
    """Return the login method that a policy's layer `kerberos` requires, or "" if any."""
    if layer.realms != "one":
        return {"shared-key": "cross-realm"}.get(layer.realms, layer.realms)
    if layer.proxy != "none":
        return "iakerb"
    return {None: "", "password": "spake", "pkinit": f"pkinit-{layer.agreement}"}.get(
        layer.initial, str(layer.initial))


# A policy fixes the transport, and may fix the mechanism.
LOGINS = LoginDesign("mechanism", "mit", "kerberos2002", realms=REALMS, of_layer=name_mechanism,
                     always={"customers": "1"}, fixes=lambda _: {"transport": "default"})
FACTORS = (
    Factor("mechanism", "Mechanism", option="--mechanisms", read=fixed_levels(
        [*(Level(name, mechanism.title) for name, mechanism in MECHANISMS.items()),
         Level(policy_factors.OF_POLICY, "as the policy's layer says")]),
        help=f"Measure these mechanisms: {', '.join(MECHANISMS)} (default: from the profile, else "
        "all)."),
    Factor("wire", "Wire", read=fixed_levels([Level(name, title) for name, title in (
        *WIRES.items(), (policy_factors.AIR, "the air of a scenario"))])),
    Factor("transport", "Transport", read=fixed_levels(
        [Level(name, title) for name, title in TRANSPORTS.items()])),
    Factor("customers", "Customers", is_number=True, plural="numbers of customers",
           read=fixed_levels(
        [Level(str(count), number=count) for count in CUSTOMERS])),
    *LOGINS.places.build_factors(),
)
NAMES = tuple(factor.name for factor in FACTORS)


def cell_ids(mechanism: str, wire: str = "lan", transport: str = "default", *,
        customers: int = 1) -> tuple[str, ...]:
    """Return a combination of factor values over Ethernet, by default a single user on a LAN."""
    return mechanism, wire, transport, str(customers), policy_factors.NO_POLICY, REALMS


def design_rows() -> Iterator[tuple[str, ...]]:
    """Yield the combinations that tables and figures of the study need, with repetitions."""
    for name in MECHANISMS:
        yield from (cell_ids(name, wire) for wire in WIRES if wire != "none")
    for name in LOADED:
        yield from (cell_ids(name, "none", customers=count) for count in CUSTOMERS)
    for name in TIMED:
        yield from (cell_ids(name, wire, "tcp") for wire in ("lan", "2g"))


def design_cells(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """Yield the combinations to measure for the chosen factor values, over wires and the air."""
    return LOGINS.list_cells(NAMES, design_rows(), levels)


# --- Network: a star of three realms' KDCs and the clients' wires ---

#: Client nodes by the level of the factor `wire`.
CLIENTS: Mapping[str, str] = {
    "none": "client-bare", "lan": "client", "wan": "client-wan", "slow": "client-slow",
    "3g": "client-3g", "2g": "client-2g"}
#: Wires by node; only the client's wire delays packets between client and KDCs.
_WIRES: Mapping[str, str] = {
    "client": "lan-10m", "client-wan": "wide-area", "client-slow": "slow-internet",
    "client-3g": "umts-3g", "client-2g": "gprs-2g", "client-bare": "", "local": "", "remote": "",
    "app": ""}
#: Duties by node. Files are rendered for one client node only, because the client is the same on
#: every wire.
_DUTIES: Mapping[str, list[str]] = {
    "client": ["kerberos_client"], "local": ["kerberos_kdc"], "remote": ["kerberos_kdc"],
    "app": ["kerberos_kdc", "kerberos_server"]}
#: Duties of the servers, wherever the client is.
SERVERS: Mapping[str, list[str]] = {name: _DUTIES[name] for name in ("local", "remote", "app")}


def build_realms() -> Network:
    """Build the network of all realms and client nodes, around a router."""
    star = shapes.make_star("realms", {node: load_wire(wire) if wire else None
                                       for node, wire in _WIRES.items()},
                            lambda node: _DUTIES.get(node, ["place_of_client"]))
    nodes = {name: replace(node, agent="local") if node.has_duty("kerberos_client") else node
             for name, node in star.nodes.items()}
    return replace(star, nodes=nodes)


def at_home(scenario: Scenario) -> Scenario:
    """Return a scenario whose mobile node logs in to realms behind its home agent."""
    return policy_factors.add_home_hosts(scenario, SERVERS, peer="local",
                                         duties=["kerberos_client"])
