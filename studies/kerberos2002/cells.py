"""List the combinations of factors that kerberos2002 measures, and build their network.

Factors are the login protocol, number of servers and of users, network speed and cipher suite.
`select_cells` yields the combinations (cells) for the values that the user chose. `build_realms`
builds the network of two Kerberos realms, of which a combination uses some nodes. Over the air,
`with_realms_at_home` puts both realms into the home network of a mobile client. The paper is
Harbitter and Menascé (2002). `studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from studies import policy_factors
from studies.kerberos2002.variants import MOBILE, SERVER_NODES, VARIANTS, protocol_from_layer
from studies.kerberos_logins import LoginDesign
from studies.study import Cell, Factor, Level, fixed_levels
from topologies import shapes
from topologies.loader import load_wire
from topologies.model import Network, Scenario

SERVERS = (1, 2, 4, 8, 16)
SPEEDS = (1, 5, 10, 20, 50, 100)
CUSTOMERS = (1, 2, 4, 8, 16, 32)
WIRES = {"lan": "10 Mbit/s Ethernet throughout",
         "slow": "remote realm behind a slow Internet path",
         "2g": "client by 2G, server behind a wide area",
         "3g": "client by 3G, server behind a wide area"}
#: Protocols whose model is compared with the test bed under load (Figs. 4 and 9).
LOADED = ("pkcross", "pktapp", "m-standard")
#: Protocols of Fig. 10.
BY_SPEED = ("m-standard", "m-client-key", "mp-assist")
FIG_10_SPEEDS = (1, 5, 10, 20)
#: Transactions of Figs. 5 and 6: numbers of servers, by protocol.
FIG_5 = {"pkcross": (1, 2, 4, 16), "pktapp": (1, 2, 4)}
FIG_6 = {"pkcross": (1, 8, 16), "pktapp": (1, 2)}
FIG_6_SPEEDS = (10, 100)
#: Speed-ups of servers in Fig. 11.
FIG_11_SPEEDS = (50, 100)
#: Wires and servers at which PKCROSS and PKTAPP are compared in today's suite.
TURNING_WIRES, TURNING_SERVERS = ("lan", "slow"), (1, 2, 4)


def _number_levels(values: Sequence[int]) -> list[Level]:
    return [Level(str(value), number=value) for value in values]


#: Level of `scenario` for clients on wires.
REALMS = "two-realms"
LOGINS = LoginDesign("protocol", "programs", "krb5today", realms=REALMS,
                     of_layer=protocol_from_layer,
                     always={"customers": "1", "placement": "one"},
                     fixes=lambda layer: {"suite": layer.suite} if layer.suite else {})
FACTORS = (
    Factor("protocol", "Protocol", option="--protocols", read=fixed_levels(
        [*(Level(name, variant.title) for name, variant in VARIANTS.items()),
         Level(policy_factors.OF_POLICY, "as the policy's layer says")]),
        help=f"Measure these protocols: {', '.join(VARIANTS)} (default: from the profile, else "
        "all)."),
    Factor("servers", "Servers", is_number=True, plural="numbers of servers",
           read=fixed_levels(_number_levels(SERVERS))),
    Factor("wire", "Wire", read=fixed_levels([Level(name, title) for name, title in (
        *WIRES.items(), (policy_factors.AIR, "client on the air of a scenario"))])),
    Factor("speed", "Speed", is_number=True, unit="times the 2002 servers'", plural="speeds",
           read=fixed_levels(_number_levels(SPEEDS))),
    Factor("customers", "Customers", is_number=True, plural="numbers of customers",
           read=fixed_levels(_number_levels(CUSTOMERS))),
    Factor("placement", "Placement", read=fixed_levels([
        Level("one", "all servers on one machine"), Level("each", "a machine for each server")])),
    Factor("suite", "Suite", read=fixed_levels([
        Level("era", "RSA-1024, DES"), Level("today", "RSA-2048, AES-256 with SHA-384")])),
    *LOGINS.places.build_factors(),
)
NAMES = tuple(factor.name for factor in FACTORS)


def cell_ids(protocol: str, *, servers: int = 1, wire: str = "lan", speed: int = 1,
             customers: int = 1,
             placement: str = "one", suite: str = "era") -> tuple[str, ...]:
    """Return a combination of factor values, by default a user and a server on a LAN."""
    return (protocol, str(servers), wire, str(speed), str(customers), placement, suite,
            policy_factors.NO_POLICY, REALMS)


def design_cells() -> Iterator[tuple[str, ...]]:
    """Yield the combinations that tables and figures of the study need, with repetitions."""
    for name in MOBILE:
        yield cell_ids(name)
    for name in LOADED:
        yield from (cell_ids(name, customers=count) for count in CUSTOMERS)
    for name, counts in FIG_5.items():
        yield from (cell_ids(name, servers=count) for count in counts)
    # The effect of separate machines for the servers, with one customer and under load.
    for name in FIG_5:
        yield from (cell_ids(name, servers=4, placement=placement, customers=count)
                    for placement in ("one", "each") for count in (1, 16))
    for name, counts in FIG_6.items():
        yield from (cell_ids(name, servers=count, wire="slow", speed=speed)
                    for count in counts for speed in FIG_6_SPEEDS)
    for name in BY_SPEED:
        yield from (cell_ids(name, wire=wire, speed=speed)
                    for wire in ("2g", "3g") for speed in FIG_10_SPEEDS)
    for name in BY_SPEED[1:]:
        yield from (cell_ids(name, wire="2g", speed=speed) for speed in FIG_11_SPEEDS)
    yield cell_ids("mp-assist", wire="3g", speed=50)
    # Beyond the paper: each protocol in today's suite, and each row of Table III over radio.
    yield from (cell_ids(name, suite="today") for name in VARIANTS)
    yield from (cell_ids(name, wire=wire) for name in MOBILE for wire in ("2g", "3g"))
    yield from (today_cell_ids(name, wire, count) for name in FIG_5 for wire in TURNING_WIRES
                for count in TURNING_SERVERS)


def today_cell_ids(protocol: str, wire: str, servers: int) -> tuple[str, ...]:
    """Return a combination with today's cipher suite and a machine for each server."""
    return cell_ids(protocol, wire=wire, servers=servers, suite="today",
                    placement="one" if servers == 1 else "each")


def select_cells(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """Yield the combinations to measure for the chosen factor values, also over the air."""
    return LOGINS.list_cells(NAMES, design_cells(), levels)


# --- Network: nodes of two realms, each on a wire to a router ---

#: Wires of the nodes. Servers of the remote realm are behind the Internet where a wire is slow, and
#: behind a wide area network for mobile clients.
NODES: Mapping[str, str] = {
    "client": "lan-10m", "client-2g": "gprs-2g", "client-3g": "umts-3g", "workstation": "lan-10m",
    "kdc-l": "lan-10m", "kdc-r": "lan-10m", "kdc-r-slow": "slow-internet", "proxy": "lan-10m",
    **{f"{server}{path}": wire for server in SERVER_NODES for path, wire in (
        ("", "lan-10m"), ("-slow", "slow-internet"), ("-wan", "wide-area"))}}
#: Nodes that a client sends requests to, wherever it is.
HOSTS = ("kdc-l", "kdc-r", "proxy", *SERVER_NODES)


def role_of(node: str) -> str:
    """Return which device model a node has: that of a mobile client, a workstation or a server."""
    if node.startswith("client"):
        return "mobile"
    return "workstation" if node == "workstation" else "server"


def build_realms() -> Network:
    """Build the network with all nodes. Each repetition uses some of them."""
    return shapes.make_star("two-realms", {node: load_wire(wire) for node, wire in NODES.items()},
                            lambda node: [node.partition("-")[0].rstrip("0123456789")])


def with_realms_at_home(scenario: Scenario) -> Scenario:
    """Return a scenario with both realms in the home network, and its mobile node as client."""
    return policy_factors.add_home_hosts(scenario, {host: ["realm_host"] for host in HOSTS},
                                         peer=HOSTS[0])
