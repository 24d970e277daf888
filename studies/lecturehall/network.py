"""Build the network of a lecture hall: rows of stations, one access point, and a server behind it.

`build_hall` takes the number of stations. It returns nodes with positions, MAC and IP addresses,
and links. All stations send to the server. The study lecturehall emulates this network.
"""

from __future__ import annotations

from topologies.model import Interface, Link, Network, Node

ACCESS_POINT, AGENT = "ap", "server"
_SEATS_A_ROW = 10
#: Distances between seats and between rows, and height of the access point above the middle of the
#: first row (m).
_SEAT_M, _ROW_M, _HEIGHT_M = 1.0, 1.5, 3.0
_FIRST_HOST = 10


def station_name(number: int) -> str:
    """Return the name of a station, numbered from 1."""
    return f"s{number}"


def build_hall(stations: int) -> Network:
    """Build the network of a hall with this number of stations, seated row by row."""
    nodes = {station_name(number): _build_station(number) for number in range(1, stations + 1)}
    nodes[ACCESS_POINT] = Node(
        ["access_point"],
        {"wlan-ap": Interface(radio="02:00:00:00:a0:00", bridge="br-ap"),
         "eth-ap": Interface(bridge="br-ap"), "br-ap": Interface("10.1.0.2/24")},
        agent=AGENT, ssid="qop", channel=1,
        position=[_SEAT_M * (_SEATS_A_ROW - 1) / 2, 0.0, _HEIGHT_M])
    nodes[AGENT] = Node(["home_agent"], {"air0": Interface("10.1.0.1/24")}, forwarding=True,
                        serves="10.1.0.0/16")
    return Network(f"hall-{stations}", nodes, [Link([f"{ACCESS_POINT}/eth-ap", f"{AGENT}/air0"])])


def _build_station(number: int) -> Node:
    row, seat = divmod(number - 1, _SEATS_A_ROW)
    return Node(["station"],
                {"wlan0": Interface(f"10.1.0.{_FIRST_HOST + number}/32",
                                    f"02:00:00:00:5e:{number:02x}")},
                gateway="10.1.0.1", agent=AGENT, position=[_SEAT_M * seat, _ROW_M * (row + 1)])
