"""Implement the logic of a Mobile IP foreign agent: relay registrations, and list visitors.

`ForeignAgent` takes received messages from the radio and from the wire. It returns the actions
(`effects`) that the program `agent` performs. Nothing here touches a socket or the kernel. RFC 5944
section 3.7, RFC 3024 section 4.2. Times are seconds since 1970 on the caller's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from topologies.mobile_ip import packets
from topologies.mobile_ip.effects import (
    Admit,
    DaemonEvent,
    Datagram,
    Dismiss,
    Effect,
    Endpoint,
    SendMessage,
)
from topologies.mobile_ip.home_agent import is_deregistration, is_unicast
from topologies.mobile_ip.packets import (
    INFINITE_LIFETIME,
    PORT,
    Association,
    Code,
    ExtensionType,
    MessageError,
    Reply,
    Request,
    RequestFlag,
)

PENDING_S = 7.0
MAX_PENDING = 64
# RFC 3024 section 4.1.1: a request for a reverse tunnel is sent with this TTL, and a sender
# farther away than one hop cannot make it arrive with it.
_NEIGHBOUR_TTL = 255


@dataclass(frozen=True)
class ForeignPolicy:
    """The settings of a foreign agent: its services and security associations.

    - `lifetime_s`: longest registration that it accepts (s)
    - `peers`, `nodes`: home agents and mobile nodes that have a security association with it
    - `reverse_tunnel`, `reverse_tunnel_mandatory`: whether it offers reverse tunnelling, and
      refuses requests without (RFC 3024)
    - `max_pending`: largest number of requests without an answer
    """

    address: str
    care_of: str
    lifetime_s: int
    peers: dict[str, Association]
    nodes: dict[str, Association] = field(default_factory=dict)
    reverse_tunnel: bool = True
    reverse_tunnel_mandatory: bool = False
    max_pending: int = MAX_PENDING


@dataclass(frozen=True)
class PendingRegistration:
    """A registration request that the home agent has not answered yet."""

    request: Request
    node: Endpoint
    since_s: float


@dataclass(frozen=True)
class Visitor:
    """A mobile node that the foreign agent serves, with the end of the visit (None: no end)."""

    home_agent: str
    link: bytes
    expires_s: float | None
    reverse_tunnel: bool


class ForeignAgent:
    """The state of a foreign agent: pending registration requests, and visitors."""

    def __init__(self, policy: ForeignPolicy) -> None:
        self.policy = policy
        self.visitors: dict[str, Visitor] = {}
        self.pending: dict[tuple[str, int], PendingRegistration] = {}
        self.security_exceptions = 0

    def from_radio(self, datagram: Datagram, now_s: float) -> list[Effect]:
        """Relay a mobile node's registration request to its home agent, or deny it."""
        try:
            request = packets.parse_request(datagram.payload)
        except MessageError as error:
            if error.request is None:
                return []
            return self._deny_request(datagram.source, error.request,
                                      (Code.FA_MALFORMED_REQUEST, str(error)))
        if packets.unknown_kind(request) is not None:
            return []  # RFC 5944 section 1.9: the message is silently discarded
        refusal = next(self._find_refusals(request, datagram), None)
        if refusal is not None:
            self.security_exceptions += refusal[0] == Code.FA_NODE_AUTHENTICATION
            return self._deny_request(datagram.source, request, refusal)
        self.pending[_request_key(request)] = PendingRegistration(request, datagram.source, now_s)
        peer = self.policy.peers.get(request.home_agent)
        relayed = packets.as_authorized(request)
        if peer is not None:
            relayed = packets.add_authentication(relayed, ExtensionType.FOREIGN_HOME, peer)
        home_agent = Endpoint(request.home_agent, PORT)
        return [SendMessage(relayed.encode(), self.policy.care_of, home_agent)]

    def from_wire(self, datagram: Datagram, now_s: float) -> list[Effect]:
        """Relay a home agent's reply to the mobile node that waits for it (RFC 5944, 3.7.3)."""
        try:
            reply = packets.parse_reply(datagram.payload)
        except MessageError:
            return []  # the reply's receiver is unknown
        pending = self._find_pending(reply, datagram.source.address)
        if pending is None or packets.unknown_kind(reply) is not None:
            return []
        peer = self.policy.peers.get(pending.request.home_agent)
        if peer is not None and not packets.is_authentic(reply, ExtensionType.FOREIGN_HOME, peer):
            self.security_exceptions += 1
            del self.pending[_request_key(pending.request)]
            return self._deny_request(pending.node, pending.request,
                                      (Code.FA_HOME_AUTHENTICATION,
                                       "home agent failed authentication"))
        del self.pending[_request_key(pending.request)]
        relayed = self._to_node(packets.as_authorized(reply), pending.node)
        if not reply.is_accepted:
            return [relayed]
        return [*self._accept_reply(reply, pending, now_s), relayed]

    def expire(self, now_s: float) -> list[Effect]:
        """End expired visits, and deny requests that the home agent did not answer in time (78)."""
        ended: list[Effect] = []
        for home, visitor in list(self.visitors.items()):
            if visitor.expires_s is not None and visitor.expires_s <= now_s:
                ended += self._dismiss_visitor(home, "expired")
        for key, pending in list(self.pending.items()):
            if pending.since_s + PENDING_S <= now_s:
                del self.pending[key]
                ended += self._deny_request(pending.node, pending.request,
                                            (Code.FA_TIMEOUT, "home agent does not answer"))
        return ended

    def deadline_s(self) -> float | None:
        """Return when `expire` must be called next."""
        times = [visitor.expires_s for visitor in self.visitors.values()
                 if visitor.expires_s is not None]
        times += [pending.since_s + PENDING_S for pending in self.pending.values()]
        return min(times, default=None)

    def forget_visitor(self, home_address: str) -> None:
        """Remove a visitor that the kernel could not serve."""
        self.visitors.pop(home_address, None)

    def _find_refusals(self, request: Request, datagram: Datagram) -> Iterator[tuple[Code, str]]:
        """Yield code and description of each reason to deny a registration request.

        RFC 5944 section 3.7.2.1, RFC 3024 section 4.2.1.
        """
        node = self.policy.nodes.get(request.home_address)
        if node is not None and not packets.is_authentic(request, ExtensionType.MOBILE_FOREIGN,
                                                         node):
            yield Code.FA_NODE_AUTHENTICATION, "mobile node failed authentication"
        if not is_unicast(request.home_address) or not is_unicast(request.home_agent):
            yield Code.FA_MALFORMED_REQUEST, "home address or agent is not a unicast address"
        if request.home_address in {self.policy.address, self.policy.care_of}:
            # If it were served as a visitor's, the agent's own address would be lost on the wire.
            yield Code.FA_MALFORMED_REQUEST, "home address is this agent's own"
        if request.care_of not in {self.policy.care_of, request.home_address}:
            yield Code.FA_CARE_OF, "invalid care-of address"
        if request.care_of == request.home_address and not is_deregistration(request):
            yield Code.FA_CARE_OF, "care-of address is the home address"
        if request.lifetime_s > self.policy.lifetime_s:
            yield Code.FA_LIFETIME_TOO_LONG, "requested lifetime too long"
        if request.has_flag(RequestFlag.MINIMAL_ENCAPSULATION) or request.has_flag(RequestFlag.GRE):
            yield Code.FA_ENCAPSULATION, "requested encapsulation unavailable"
        yield from self._find_tunnel_refusals(request, datagram)
        if len(self.pending) >= self.policy.max_pending and _request_key(
            request) not in self.pending:
            yield Code.FA_RESOURCES, "too many pending requests"

    def _find_tunnel_refusals(self, request: Request,
                              datagram: Datagram) -> Iterator[tuple[Code, str]]:
        """Yield code and description of each reason to deny a request because of its tunnel."""
        if request.has_flag(RequestFlag.REVERSE_TUNNEL):
            if not self.policy.reverse_tunnel:
                yield Code.FA_NO_REVERSE_TUNNEL, "requested reverse tunnel unavailable"
            if datagram.ttl != _NEIGHBOUR_TTL:
                yield Code.FA_TOO_DISTANT, "mobile node too distant"
        elif self.policy.reverse_tunnel_mandatory:
            yield Code.FA_REVERSE_TUNNEL_MANDATORY, "reverse tunnel is mandatory"
        if any(extension.kind == ExtensionType.ENCAPSULATING_DELIVERY
               for extension in request.extensions):
            yield Code.FA_DELIVERY_STYLE, "delivery style not supported"

    def _find_pending(self, reply: Reply, source: str) -> PendingRegistration | None:
        for (home, _), pending in self.pending.items():
            if (home == reply.home_address and source == pending.request.home_agent
                    and packets.is_answered_identification(reply.identification,
                                                           pending.request.identification)):
                return pending
        return None

    def _accept_reply(self, reply: Reply, pending: PendingRegistration,
                      now_s: float) -> list[Effect]:
        """Serve the mobile node as its home agent's reply says."""
        home, request = reply.home_address, pending.request
        if is_deregistration(request) or reply.lifetime_s == 0:
            return self._dismiss_visitor(home, "deregistered") if home in self.visitors else []
        lifetime_s = min(reply.lifetime_s, request.lifetime_s)
        assert pending.node.link is not None  # a datagram from the radio has one
        expires_s = None if lifetime_s == INFINITE_LIFETIME else now_s + lifetime_s
        visitor = Visitor(request.home_agent, pending.node.link, expires_s,
                          request.has_flag(RequestFlag.REVERSE_TUNNEL))
        self.visitors[home] = visitor
        return [Admit(home, visitor.home_agent, visitor.link, visitor.reverse_tunnel),
                DaemonEvent("visitor", {"home_address": home, "home_agent": visitor.home_agent,
                                        "state": "admitted", "lifetime_s": lifetime_s,
                                        "reverse_tunnel": visitor.reverse_tunnel})]

    def _dismiss_visitor(self, home: str, reason: str) -> list[Effect]:
        visitor = self.visitors.pop(home)
        return [Dismiss(home), DaemonEvent("visitor", {"home_address": home, "state": "dismissed",
                                                       "home_agent": visitor.home_agent,
                                                       "reason": reason})]

    def _deny_request(self, node: Endpoint, request: Request,
                      refusal: tuple[Code, str]) -> list[Effect]:
        code, reason = refusal
        # With code 69 the lifetime is the longest allowed one (RFC 5944 section 3.7.2.3).
        lifetime_s = self.policy.lifetime_s if code == Code.FA_LIFETIME_TOO_LONG else 0
        reply = Reply(code, lifetime_s, request.home_address, request.home_agent,
                      request.identification)
        note = DaemonEvent("denied", {"by": "foreign", "code": int(code), "reason": reason,
                                      "home_address": request.home_address, "from": node.address})
        return [note, self._to_node(reply, node)]

    def _to_node(self, reply: Reply, node: Endpoint) -> SendMessage:
        """Return a registration reply for a node, authenticated if agent and node have a key.

        RFC 5944 section 3.7.3.2.
        """
        association = self.policy.nodes.get(reply.home_address)
        if association is not None:
            reply = packets.add_authentication(reply, ExtensionType.MOBILE_FOREIGN, association)
        return SendMessage(reply.encode(), self.policy.address, node)


def _request_key(request: Request) -> tuple[str, int]:
    """Return home address and identification, which identify a pending request."""
    return request.home_address, request.identification
