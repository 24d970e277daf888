"""Time limits of all steps of a repetition: a busy machine's time plus the network's.

The network's part follows from delay, rate and loss of the paths, from the amount of data, and from
the protocols' retransmission timers. All time limits are computed here. Standard library only: they
are needed inside the machine and outside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from measure.echo import AGAIN_S
from topologies import paths
from topologies.model import ACCESS_POINT, HOME_AGENT, STATION, Medium, Network, Scenario
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
    """A retransmission timer: `first_s`, then `factor` times as long each time."""

    first_s: float
    factor: float = 2.0
    most_s: float = 120.0

    def waits_s(self, count: int) -> float:
        """Return the total wait of `count` losses in a row, in s."""
        whole_s, wait_s = 0.0, self.first_s
        for _ in range(count):
            whole_s, wait_s = whole_s + wait_s, min(wait_s * self.factor, self.most_s)
        return whole_s


#: Retransmission of hostapd's RADIUS client (radius_client.c).
RADIUS_TIMER = RetryTimer(3.0)
#: Time that FreeRADIUS keeps an answer for a repeated request: usual and most (s).
LEAST_RADIUS_CLEANUP_S, _MOST_RADIUS_CLEANUP_S = 5, 30
#: WireGuard's REKEY_TIMEOUT.
_WIREGUARD_TIMER = RetryTimer(5.0, 1.0)
#: RFC 5944, 3.6.3: at least 1 s, doubled each time; the upper limit is this implementation's.
_LEAST_REGISTRATION_RETRY_S, _MOST_REGISTRATION_RETRY_S = 1.0, 16.0
_REGISTRATION_PROCESSING_S = 0.1
#: strongswan.conf: charon's least retransmission timeout (s).
LEAST_IKE_RETRY_S = 1.0

#: Time of each step on a busy machine, if the network takes no time (s).
_LINK_S, _REGISTRATION_S, _IKE_S, _DATA_S, _STREAM_S, _TLS_S = 6.0, 5.0, 8.0, 2.0, 10.0, 20.0
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
    """Return the time of sequential exchanges in an unlucky case, in s.

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
    """Return the time of a TCP transfer in an unlucky case, in s.

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
    """Return the number of tries after which an exchange without retransmission has succeeded."""
    loss = min(path.exchange_loss, _MOST_LOSS)
    return 1 if loss <= 0 else min(_MOST_TRIES, _losses_in_a_row(loss, 1))


def _losses_in_a_row(loss: float, count: float) -> int:
    """Return the longest run of losses that has a probability of 1 in 100,000."""
    return min(_MOST_IN_A_ROW, math.ceil(math.log(_UNLUCKY / count) / math.log(loss)))


def connection_s(path: NetworkPath, count: int, size_bytes: float) -> float:
    """Return the time of `count` exchanges on a TCP connection in an unlucky case (s)."""
    again_s = max(_TCP_LEAST_S, 2 * path.round_trip_s(_FULL_BYTES, _SMALL_BYTES))
    return (exchanges_s(path, 1, _SMALL_BYTES, _SMALL_BYTES, RetryTimer(_TCP_SYN_S))
            + exchanges_s(path, count, size_bytes / count, size_bytes / count, RetryTimer(again_s)))


class TimeLimits:
    """Time limits on one network, in seconds."""

    def __init__(self, network: Network, medium: Medium | None) -> None:
        self._network, self._medium = network, medium
        nodes = network.nodes
        cells = [(name, nodes[name].agent or "") for name in network.of_duty(ACCESS_POINT)]
        #: Paths from each access point to its authentication server, and on to that server's own
        #: servers.
        asked = [self.path_through(cell, *self._server_chain(agent)) for cell, agent in cells]
        self._to_server, self._to_agent = worst_path(asked), _to_agents(network, medium)

    @staticmethod
    def for_testbed(testbed: Testbed) -> TimeLimits:
        """Return the limits on the network of a testbed."""
        return TimeLimits(testbed.network, testbed.medium)

    def path_through(self, *nodes: str) -> NetworkPath:
        """Return the path through these nodes, without unknown names."""
        return paths.path_between(self._network, self._medium, *(
            node for node in nodes if node in self._network.nodes))

    @property
    def link_s(self) -> float:
        """Return the limit from the first probe until an access point lets a station pass."""
        return _LINK_S + exchanges_s(self._to_server, _EAP_EXCHANGES, _EAP_BYTES, _EAP_BYTES,
                                     RADIUS_TIMER)

    @property
    def radius_cleanup_s(self) -> int:
        """Return how long a RADIUS server must keep an answer for repeated requests.

        Without the kept answer, a client whose answer was lost twice is rejected: its session is at
        another step by then.
        """
        path = self._to_server
        asks_again = path.loss > 0 or path.round_trip_s(_EAP_BYTES, _EAP_BYTES) > \
            RADIUS_TIMER.first_s
        return _MOST_RADIUS_CLEANUP_S if asks_again else LEAST_RADIUS_CLEANUP_S

    @property
    def tls_s(self) -> float:
        """Return the limit until a proxy has connected to its server by TLS."""
        return _TLS_S + connection_s(self._to_server, 4, 4 * _EAP_BYTES)

    @property
    def registration_retry_s(self) -> float:
        """Return the retransmission timeout of a registration (RFC 5944, 3.6.3).

        The timeout is at least twice the round trip of these messages plus 100 ms.
        """
        again_s = 2 * self._to_agent.round_trip_s(_REGISTRATION_BYTES, _REGISTRATION_BYTES)
        return max(_LEAST_REGISTRATION_RETRY_S, again_s + _REGISTRATION_PROCESSING_S)

    @property
    def registration_s(self) -> float:
        """Return the limit until a mobile node is registered."""
        return _REGISTRATION_S + exchanges_s(
            self._to_agent, _REGISTRATION_EXCHANGES, _REGISTRATION_BYTES, _REGISTRATION_BYTES,
            RetryTimer(self.registration_retry_s, most_s=_MOST_REGISTRATION_RETRY_S))

    @property
    def ike_retry_s(self) -> float:
        """Return charon's retransmission timeout on the longest path between its ends."""
        agents = self._network.of_duty(HOME_AGENT)
        between = [self.path_through(one, other) for one in agents for other in agents]
        return max(ike_retry_s(path) for path in (self._to_agent, worst_path(between)))

    def ike_between_s(self, *nodes: str) -> float:
        """Return the limit until a tunnel between any two of these nodes is negotiated."""
        path = worst_path([self.path_through(one, other) for one in nodes for other in nodes])
        return _ike_s(path, max(self.ike_retry_s, ike_retry_s(path)))

    @property
    def ike_s(self) -> float:
        """Return the limit until a tunnel is negotiated."""
        return _ike_s(self._to_agent, self.ike_retry_s)

    def data_s(self, scenario: Scenario) -> float:
        """Return the limit until the mobile node's packet is answered.

        A tunnel without its own negotiation is set up within this time, too.
        """
        path = self.to_peer(scenario)
        # On a long wire, both ends of WireGuard may start a handshake at once, and repeat it.
        crossed_s = _WIREGUARD_TIMER.waits_s(_CROSSED) if path.delay_s else 0.0
        return _DATA_S + crossed_s + exchanges_s(path, _FIRST_EXCHANGES, _SMALL_BYTES, _SMALL_BYTES,
                                                 _WIREGUARD_TIMER)

    def echo_again_s(self, scenario: Scenario) -> float:
        """Return the interval of echo requests, longer than an answer takes."""
        return max(AGAIN_S,
                   1.5 * self.to_peer(scenario).round_trip_s(_SMALL_BYTES, _SMALL_BYTES))

    def getting_on_s(self, scenario: Scenario) -> float:
        """Return the limit of all steps at one access point.

        The steps last from the first probe to the first answered packet.
        """
        return self.link_s + self.registration_s + self.ike_s + self.data_s(scenario)

    @property
    def under_way_s(self) -> float:
        """Return how long wires still hold packets between a mobile node and its agent."""
        path = _to_agents(self._network, None)
        return path.round_trip_s(_FULL_BYTES, _FULL_BYTES)

    def crossing_s(self, scenario: Scenario) -> float:
        """Return the delay that wires add to a round trip to the peer.

        The delay includes full queues on the way.
        """
        path = TimeLimits(self._network, None).to_peer(scenario)
        return path.round_trip_s(_FULL_BYTES, _FULL_BYTES) + 2 * path.queue_s

    def to_peer(self, scenario: Scenario) -> NetworkPath:
        """Return the longer path from the mobile node to its peer, at home or away."""
        ways = [self._to_peer(scenario, scenario.home)]
        if scenario.roams_to:
            ways.append(self._to_peer(scenario, scenario.roams_to))
        return worst_path(ways)

    def tcp_stream_s(self, path: NetworkPath, size_bytes: int) -> float:
        """Return the limit of an iperf3 TCP stream with its connections."""
        return (_STREAM_S + size_bytes * 8 / _SLOWEST_BPS + self._around_s(path)
                + tcp_s(path, size_bytes))

    def udp_stream_s(self, path: NetworkPath, size_bytes: int, rate_bps: float) -> float:
        """Return the limit of an iperf3 UDP stream.

        iperf3's last messages wait behind full queues.
        """
        return (_STREAM_S + size_bytes * 8 / min(rate_bps, _SLOWEST_BPS) + self._around_s(path)
                + (_UDP_ANSWER_S if path.loss else 0.0))

    def stream_ended_s(self, path: NetworkPath) -> float:
        """Return the limit until an iperf3 server accepts the next stream.

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
        """Return an authentication server, followed by the servers that it forwards to."""
        found = [agent]
        while (further := self._network.nodes[found[-1]].agent
               if found[-1] in self._network.nodes else None) and further not in found:
            found.append(further)
        return found


def _to_agents(network: Network, medium: Medium | None) -> NetworkPath:
    """Return the worst path from a station at any access point to its agent."""
    nodes = network.nodes
    return worst_path([paths.air_path(medium) + paths.path_between(network, medium, *(
        node for node in (cell, nodes[cell].agent, nodes[station].agent) if node in nodes))
        for station in network.of_duty(STATION) for cell in network.of_duty(ACCESS_POINT)])


def _ike_s(path: NetworkPath, retry_s: float) -> float:
    return _IKE_S + exchanges_s(path, _IKE_EXCHANGES, _FULL_BYTES, _FULL_BYTES,
                                RetryTimer(retry_s, 1.0))


def ike_retry_s(path: NetworkPath) -> float:
    """Return charon's retransmission timeout in s, longer than an answer takes."""
    return max(LEAST_IKE_RETRY_S, 2 * path.round_trip_s(_FULL_BYTES, _FULL_BYTES))


def worst_path(candidates: list[NetworkPath]) -> NetworkPath:
    """Return a path that is as bad as the worst of several in each respect."""
    return NetworkPath(max((path.delay_s for path in candidates), default=0.0),
                       min((path.rate_bps for path in candidates), default=math.inf),
                       max((path.loss for path in candidates), default=0.0),
                       max((path.queue_s for path in candidates), default=0.0))
