"""Compute how long each step of a repetition may take before it counts as failed.

A repetition is one measurement, and its steps are, for example, IKE or a TCP stream.
`TimeLimits.for_testbed` takes the emulated network. Its methods return limits in seconds. A limit
is the time on a busy machine, plus the time in the network. The latter follows from delay, rate and
loss of the paths, from the amount of data, and from the protocols' retransmission timers. Standard
library only: the limits are needed inside the network's virtual machine and outside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from measure.services.icmp_echo import AGAIN_S
from topologies import paths
from topologies.model import (
    ACCESS_POINT,
    DHCP_SERVER,
    OCSP_RESPONDER,
    STATION,
    Medium,
    Network,
    Scenario,
)
from topologies.paths import NetworkPath

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

#: Probability that a step takes longer than its limit by chance, and the limit of repeated tries.
_UNLUCKY = 1e-5
_MOST_TRIES = 20
#: Upper limits of losses in a row, and of the loss probability.
_MOST_IN_A_ROW, _MOST_LOSS = 100, 0.999
#: A full packet, and an acknowledgement or a request, with all headers (bytes).
_FULL_BYTES, _SMALL_BYTES = 1600, 120
#: TCP segment (bytes).
_SEGMENT_BYTES = 1400
#: Linux's TCP (net/tcp.h): least and most retransmission timeout, and timeout of the first SYN (s).
_TCP_LEAST_S, _TCP_MOST_S, _TCP_SYN_S = 0.2, 120.0, 1.0
#: Segments of a connection's first round trip (RFC 6928).
_FIRST_WINDOW = 10


@dataclass(frozen=True)
class RetryTimer:
    """A retransmission timer with backoff: `first_s`, then `factor` times as long each time."""

    first_s: float
    factor: float = 2.0
    most_s: float = 120.0

    def waits_s(self, count: int) -> float:
        """Return how long the timer waits in all if `count` messages in a row are lost, in s."""
        whole_s, wait_s = 0.0, self.first_s
        for _ in range(count):
            whole_s, wait_s = whole_s + wait_s, min(wait_s * self.factor, self.most_s)
        return whole_s


#: Retransmission of hostapd's RADIUS client (radius_client.c).
RADIUS_TIMER = RetryTimer(3.0)
#: Attempts before hostapd asks its second server (radius_client.c: RADIUS_CLIENT_NUM_FAILOVER).
_FAILOVER_ATTEMPTS = 4
#: Time that FreeRADIUS keeps an answer for a repeated request: usual and most (s).
LEAST_RADIUS_CLEANUP_S, _MOST_RADIUS_CLEANUP_S = 5, 30
#: Retransmission of the DHCP client (`measure.services.dhcp`), and bytes of a message on the wire.
DHCP_TIMER = RetryTimer(3.0, 1.0)
_DHCP_EXCHANGES, _DHCP_BYTES = 2, 350
#: Linux's router solicitations (rtr_solicitation_interval).
_SOLICITATION_TIMER = RetryTimer(4.0)
#: WireGuard's REKEY_TIMEOUT.
_WIREGUARD_TIMER = RetryTimer(5.0, 1.0)
#: RFC 5944, 3.6.3: at least 1 s, doubled each time; the upper limit is this implementation's.
_LEAST_REGISTRATION_RETRY_S, _MOST_REGISTRATION_RETRY_S = 1.0, 16.0
_REGISTRATION_PROCESSING_S = 0.1
#: strongswan.conf: charon's least retransmission timeout (s).
LEAST_IKE_RETRY_S = 1.0

#: Time of each step on a busy machine, if the network takes no time (s).
_LINK_S, _REGISTRATION_S, _IKE_S, _DATA_S, _STREAM_S, _TLS_S = 6.0, 5.0, 8.0, 2.0, 10.0, 20.0
_DHCP_S = 5.0
#: Time for an address by SLAAC: two searches for duplicates, each after up to 1 s and for 1 s.
_SLAAC_S = 9.0
#: Slowest stream to wait for, on a busy machine without other limits (bit/s).
_SLOWEST_BPS = 250_000.0
#: EAP over RADIUS: exchanges of a certificate chain in small fragments, each full both ways.
_EAP_EXCHANGES = 40
_EAP_BYTES = 1000
_REGISTRATION_EXCHANGES, _REGISTRATION_BYTES = 3, 250
_IKE_EXCHANGES = 6
#: Exchanges before the first answered echo: address resolution at both ends and a tunnel's
#: handshake.
_FIRST_EXCHANGES = 6
#: Upper limit of handshakes that cross.
_CROSSED = 2
#: iperf3's messages before and after a stream: exchanges on its TCP connection, and bytes.
_IPERF_EXCHANGES, _IPERF_BYTES = 10, 6000
#: Time that iperf3's client waits for an answer to its first datagram (iperf_udp.c).
_UDP_ANSWER_S = 30.0


def exchanges_s(path: NetworkPath, count: int, there_bytes: float, back_bytes: float,
                timer: RetryTimer) -> float:
    """Return the time of sequential request-response exchanges with unlucky losses, in s.

    The time allows for the mean number of losses plus five standard deviations. It also allows for
    a run of losses that has a probability of 1 in 100,000.
    """
    waits_s = 0.0
    if (loss := min(path.exchange_loss, _MOST_LOSS)) > 0:
        in_a_row = _losses_in_a_row(loss, count)
        mean, deviation = count * loss / (1 - loss), math.sqrt(count * loss) / (1 - loss)
        waits_s = timer.waits_s(in_a_row) + (mean + 5 * deviation) * timer.first_s
    return count * path.round_trip_s(there_bytes, back_bytes) + waits_s


def tcp_s(path: NetworkPath, size_bytes: float) -> float:
    """Return the time of a TCP transfer with unlucky losses, in s.

    The connection's set-up is not included. The time has slow start, the rate, and four times the
    mean of losses (Padhye et al. 1998, eq. 30).
    """
    round_trip_s = path.round_trip_s(_FULL_BYTES, _SMALL_BYTES)
    segments = max(1.0, size_bytes / _SEGMENT_BYTES)
    rounds = math.ceil(math.log2(segments / _FIRST_WINDOW + 1))
    sent_s = segments * (_FULL_BYTES + _SMALL_BYTES) * 8 / path.rate_bps
    if path.loss <= 0:
        return 2 * (rounds * round_trip_s + sent_s)
    again_s, loss = max(_TCP_LEAST_S, 2 * round_trip_s), min(path.loss, _MOST_LOSS)
    each_s = (round_trip_s * math.sqrt(4 * loss / 3) + again_s
              * min(1.0, 3 * math.sqrt(3 * loss / 4)) * loss * (1 + 32 * loss ** 2))
    in_a_row = _losses_in_a_row(loss, segments)
    return (2 * (rounds * round_trip_s + sent_s) + 4 * segments * each_s
            + RetryTimer(again_s, most_s=_TCP_MOST_S).waits_s(in_a_row))


def required_tries(path: NetworkPath) -> int:
    """Return how often to try an exchange that has no retransmission of its own.

    All tries fail in at most 1 of 100,000 cases, unless that needs more than `_MOST_TRIES`.

    Args:
        path: Path of the exchange's packets, with their loss probability.
    """
    loss = min(path.exchange_loss, _MOST_LOSS)
    return 1 if loss <= 0 else min(_MOST_TRIES, _losses_in_a_row(loss, 1))


def _losses_in_a_row(loss: float, count: float) -> int:
    """Return the longest run of losses that has a probability of 1 in 100,000.

    Args:
        loss: Probability that one packet is lost.
        count: Number of packets.
    """
    return min(_MOST_IN_A_ROW, math.ceil(math.log(_UNLUCKY / count) / math.log(loss)))


def connection_s(path: NetworkPath, count: int, size_bytes: float) -> float:
    """Return the time of `count` exchanges on a TCP connection with unlucky losses, in s."""
    again_s = max(_TCP_LEAST_S, 2 * path.round_trip_s(_FULL_BYTES, _SMALL_BYTES))
    return (exchanges_s(path, 1, _SMALL_BYTES, _SMALL_BYTES, RetryTimer(_TCP_SYN_S))
            + exchanges_s(path, count, size_bytes / count, size_bytes / count, RetryTimer(again_s)))


class TimeLimits:
    """The time limits of all steps on one network, in seconds."""

    def __init__(self, network: Network, medium: Medium | None) -> None:
        self._network, self._medium = network, medium
        cells = [(name, network.radius_server_of(name)) for name in network.of_duty(ACCESS_POINT)]
        #: Time until an access point asks its second RADIUS server, where it has to.
        self._failover_s = RADIUS_TIMER.waits_s(_FAILOVER_ATTEMPTS) if any(
            network.fails_over(name) for name, _ in cells) else 0.0
        #: Paths from each access point to its authentication server, and on to that server's own
        #: servers.
        to_servers = [self.path_through(cell, *self._server_chain(server))
                      for cell, server in cells]
        self._to_server, self._to_agent = worst_path(to_servers), _to_agents(network, medium)
        self._to_dhcp = worst_path([
            paths.air_path(medium) + self.path_through(cell, server)
            for cell, _ in cells for server in network.of_duty(DHCP_SERVER)])

    @staticmethod
    def for_testbed(testbed: Testbed) -> TimeLimits:
        """Return the time limits for the network of a running testbed (emulated network)."""
        return TimeLimits(testbed.network, testbed.medium)

    def path_through(self, *nodes: str) -> NetworkPath:
        """Return the path through these nodes. Names of unknown nodes are skipped."""
        return paths.path_between(self._network, self._medium, *(
            node for node in nodes if node in self._network.nodes))

    @property
    def link_s(self) -> float:
        """Return the time limit for a station to join: from its first probe to an open port (s)."""
        return _LINK_S + self._failover_s + exchanges_s(
            self._to_server, _EAP_EXCHANGES, _EAP_BYTES, _EAP_BYTES, RADIUS_TIMER)

    @property
    def lease_s(self) -> float:
        """Return the limit until a station has its address by DHCP."""
        return _DHCP_S + exchanges_s(self._to_dhcp, _DHCP_EXCHANGES, _DHCP_BYTES, _DHCP_BYTES,
                                     DHCP_TIMER)

    @property
    def slaac_s(self) -> float:
        """Return the limit until a station has its IPv6 address from a router advertisement."""
        return _SLAAC_S + exchanges_s(self._to_agent, 1, _SMALL_BYTES, _SMALL_BYTES,
                                      _SOLICITATION_TIMER)

    @property
    def radius_cleanup_s(self) -> int:
        """Return how long a RADIUS server must keep an answer, to repeat it on request (s).

        Otherwise a client whose answer was lost twice is rejected, because its session is at
        another step by then.
        """
        path = self._to_server
        asks_again = path.loss > 0 or path.round_trip_s(_EAP_BYTES, _EAP_BYTES) > \
            RADIUS_TIMER.first_s
        return _MOST_RADIUS_CLEANUP_S if asks_again else LEAST_RADIUS_CLEANUP_S

    @property
    def tls_s(self) -> float:
        """Return the time limit for a RadSec proxy to connect to its server by TLS (s)."""
        return _TLS_S + connection_s(self._to_server, 4, 4 * _EAP_BYTES)

    @property
    def registration_retry_s(self) -> float:
        """Return the retransmission timeout of a Mobile IP registration in s (RFC 5944, 3.6.3).

        The timeout is at least twice the round trip of these messages plus 100 ms.
        """
        again_s = 2 * self._to_agent.round_trip_s(_REGISTRATION_BYTES, _REGISTRATION_BYTES)
        return max(_LEAST_REGISTRATION_RETRY_S, again_s + _REGISTRATION_PROCESSING_S)

    @property
    def registration_s(self) -> float:
        """Return the time limit for a mobile node to register by Mobile IP (s)."""
        return _REGISTRATION_S + exchanges_s(
            self._to_agent, _REGISTRATION_EXCHANGES, _REGISTRATION_BYTES, _REGISTRATION_BYTES,
            RetryTimer(self.registration_retry_s, most_s=_MOST_REGISTRATION_RETRY_S))

    @property
    def ike_retry_s(self) -> float:
        """Return charon's retransmission timeout for the longest path of IKE messages (s)."""
        agents = self._network.tunnel_gateways
        between = [self.path_through(one, other) for one in agents for other in agents]
        return max(ike_retry_s(path) for path in (self._to_agent, worst_path(between)))

    def ike_between_s(self, *nodes: str) -> float:
        """Return the time limit for negotiating a tunnel between any two of these nodes (s)."""
        path = worst_path([self.path_through(one, other) for one in nodes for other in nodes])
        return _ike_s(path, max(self.ike_retry_s, ike_retry_s(path)))

    @property
    def ike_s(self) -> float:
        """Return the time limit for a mobile node to negotiate its IPsec tunnel (s)."""
        return _ike_s(self._to_agent, self.ike_retry_s)

    def data_s(self, scenario: Scenario) -> float:
        """Return the time limit for the first answered packet of the mobile node (s).

        A tunnel without its own negotiation is set up within this time, too.
        """
        path = self.to_peer(scenario)
        # On a long wire, both ends of WireGuard may start a handshake at once, and repeat it.
        crossed_s = _WIREGUARD_TIMER.waits_s(_CROSSED) if path.delay_s else 0.0
        return _DATA_S + crossed_s + exchanges_s(path, _FIRST_EXCHANGES, _SMALL_BYTES, _SMALL_BYTES,
                                                 _WIREGUARD_TIMER)

    def echo_again_s(self, scenario: Scenario) -> float:
        """Return the interval of ICMP echo requests, which is longer than an answer takes (s)."""
        return max(AGAIN_S,
                   1.5 * self.to_peer(scenario).round_trip_s(_SMALL_BYTES, _SMALL_BYTES))

    def getting_on_s(self, scenario: Scenario) -> float:
        """Return the time limit for all steps at one access point (s).

        The steps last from the first probe to the first answered packet.
        """
        lease_s = self.lease_s if scenario.uses_dhcp else \
            self.slaac_s if scenario.uses_ipv6 else 0.0
        return self.link_s + lease_s + self.registration_s + self.ike_s + self.data_s(scenario)

    @property
    def under_way_s(self) -> float:
        """Return how long packets between a mobile node, its agent and server may be on wires."""
        path = worst_path([_to_agents(self._network, None), self._to_server])
        return path.round_trip_s(_FULL_BYTES, _FULL_BYTES)

    def crossing_s(self, scenario: Scenario) -> float:
        """Return the delay that wires and full queues add to a round trip to the peer (s)."""
        path = TimeLimits(self._network, None).to_peer(scenario)
        return path.round_trip_s(_FULL_BYTES, _FULL_BYTES) + 2 * path.queue_s

    def to_peer(self, scenario: Scenario) -> NetworkPath:
        """Return the longer of the mobile node's paths to its peer: from home, or from away."""
        ways = [self._to_peer(scenario, scenario.home)]
        if scenario.roams_to:
            ways.append(self._to_peer(scenario, scenario.roams_to))
        return worst_path(ways)

    def tcp_stream_s(self, path: NetworkPath, size_bytes: int) -> float:
        """Return the time limit of an iperf3 TCP stream, with its connection set-up (s)."""
        return (_STREAM_S + size_bytes * 8 / _SLOWEST_BPS + self._around_s(path)
                + tcp_s(path, size_bytes))

    def udp_stream_s(self, path: NetworkPath, size_bytes: int, rate_bps: float) -> float:
        """Return the time limit of an iperf3 UDP stream (s).

        iperf3's last messages wait behind full queues.
        """
        return (_STREAM_S + size_bytes * 8 / min(rate_bps, _SLOWEST_BPS) + self._around_s(path)
                + (_UDP_ANSWER_S if path.loss else 0.0))

    def stream_ended_s(self, path: NetworkPath) -> float:
        """Return the time limit for an iperf3 server to be free for the next stream (s).

        The earlier stream may have ended or been broken.
        """
        return _STREAM_S + self._around_s(path)

    @staticmethod
    def _around_s(path: NetworkPath) -> float:
        return 2 * path.queue_s + connection_s(path, _IPERF_EXCHANGES, _IPERF_BYTES)

    def _to_peer(self, scenario: Scenario, cell: str) -> NetworkPath:
        nodes, peer = self._network.nodes, scenario.peer
        way = [cell, nodes[cell].agent or "", scenario.agent]
        if nodes[peer].has_duty(STATION):
            way += [nodes[peer].agent or "", scenario.home_of(peer)]
        return paths.air_path(self._medium) + self.path_through(*dict.fromkeys(way), peer)

    def _server_chain(self, agent: str) -> list[str]:
        """Return an authentication server, the servers that it forwards to, and what these ask."""
        servers = [agent]
        while (further := self._network.nodes[servers[-1]].agent
               if servers[-1] in self._network.nodes else None) and further not in servers:
            servers.append(further)
        return [*servers, *self._network.of_duty(OCSP_RESPONDER)[:1]]


def _to_agents(network: Network, medium: Medium | None) -> NetworkPath:
    """Return the worst path from a station at any access point to its home agent."""
    nodes = network.nodes
    return worst_path([paths.air_path(medium) + paths.path_between(network, medium, *(
        node for node in (cell, nodes[cell].agent, nodes[station].agent) if node in nodes))
        for station in network.of_duty(STATION) for cell in network.of_duty(ACCESS_POINT)])


def _ike_s(path: NetworkPath, retry_s: float) -> float:
    return _IKE_S + exchanges_s(path, _IKE_EXCHANGES, _FULL_BYTES, _FULL_BYTES,
                                RetryTimer(retry_s, 1.0))


def ike_retry_s(path: NetworkPath) -> float:
    """Return a retransmission timeout for charon that is longer than an answer takes (s)."""
    return max(LEAST_IKE_RETRY_S, 2 * path.round_trip_s(_FULL_BYTES, _FULL_BYTES))


def worst_path(candidates: list[NetworkPath]) -> NetworkPath:
    """Return a path with the largest delay and loss and the lowest rate of several paths."""
    return NetworkPath(max((path.delay_s for path in candidates), default=0.0),
                       min((path.rate_bps for path in candidates), default=math.inf),
                       max((path.loss for path in candidates), default=0.0),
                       max((path.queue_s for path in candidates), default=0.0))
