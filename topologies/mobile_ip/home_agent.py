"""Implement the logic of a Mobile IP home agent: answer requests, and keep bindings.

A binding maps a mobile node's home address to its care-of address (RFC 5944 section 3.8).
`HomeAgent.handle_request` takes a received request. It returns the actions (`effects`) that the
program `agent` performs. Nothing here touches a socket or the kernel. Times are seconds since 1970
on the caller's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from topologies.mobile_ip import packets
from topologies.mobile_ip.effects import (
    Bind,
    DaemonEvent,
    Datagram,
    Effect,
    SendMessage,
    Unbind,
)
from topologies.mobile_ip.packets import (
    INFINITE_LIFETIME,
    Association,
    Code,
    ExtensionType,
    MessageError,
    Reply,
    Request,
    RequestFlag,
)

# RFC 5944 sections 3.8.2.1 and 3.8.2.3: codes that are logged as security exceptions.
SECURITY_EXCEPTIONS = frozenset({Code.HA_NODE_AUTHENTICATION, Code.HA_FOREIGN_AUTHENTICATION,
                                 Code.HA_IDENTIFICATION})


@dataclass(frozen=True)
class HomePolicy:
    """The settings of a home agent: its services and security associations.

    - `lifetime_s`: longest registration that it accepts (s)
    - `nodes`, `peers`: mobile nodes and foreign agents that have a security association with it
    - `own_care_of`: care-of address of the foreign agent on the same node, "" without one. No
      tunnel may lead there.
    - `reverse_tunnel`, `reverse_tunnel_mandatory`: whether it offers reverse tunnelling, and
      refuses requests without (RFC 3024)
    """

    address: str
    nodes: dict[str, Association]
    lifetime_s: int
    peers: dict[str, Association]
    own_care_of: str = ""
    reverse_tunnel: bool = True
    reverse_tunnel_mandatory: bool = False


@dataclass(frozen=True)
class Binding:
    """A mobile node's care-of address, with the end of the binding.

    None as the end means: until it is changed.
    """

    care_of: str
    expires_s: float | None
    reverse_tunnel: bool


class HomeAgent:
    """The state of a home agent: bindings of the nodes it serves, and security exceptions."""

    def __init__(self, policy: HomePolicy, started_s: float) -> None:
        """Start without bindings.

        Requests older than `started_s` are refused as stale, because the agent does not know which
        requests were accepted before its start.
        """
        self.policy = policy
        self._started_s = started_s
        self.bindings: dict[str, Binding] = {}
        self.security_exceptions = 0
        self._last_identification: dict[str, int] = {}

    def handle_request(self, datagram: Datagram, now_s: float) -> list[Effect]:
        """Answer a registration request. Any other message is silently discarded."""
        try:
            request = packets.parse_request(datagram.payload)
        except MessageError as error:
            if error.request is None:
                return []
            return self._deny_request(datagram, error.request,
                                      (Code.HA_MALFORMED_REQUEST, str(error)),
                                      now_s)
        if packets.unknown_kind(request) is not None:
            return []  # RFC 5944 section 1.9: the message is silently discarded
        refusal = next(self._find_refusals(request, datagram, now_s), None)
        if refusal is not None:
            return self._deny_request(datagram, request, refusal, now_s)
        return self._accept_request(datagram, request, now_s)

    def expire(self, now_s: float) -> list[Effect]:
        """End the bindings whose lifetime is over."""
        ended: list[Effect] = []
        for home, binding in list(self.bindings.items()):
            if binding.expires_s is not None and binding.expires_s <= now_s:
                del self.bindings[home]
                ended += [Unbind(home, binding.care_of),
                          DaemonEvent("unbound", {"home_address": home, "care_of": binding.care_of,
                                                  "reason": "expired"})]
        return ended

    def deadline_s(self) -> float | None:
        """Return when `expire` must be called next."""
        return min((b.expires_s for b in self.bindings.values() if b.expires_s is not None),
                   default=None)

    def forget_binding(self, home_address: str) -> None:
        """Remove a binding for which the kernel could not create the tunnel."""
        self.bindings.pop(home_address, None)

    def _find_refusals(self, request: Request, datagram: Datagram,
                       now_s: float) -> Iterator[tuple[Code, str]]:
        """Yield code and description of each reason to deny a registration request.

        The order is that of RFC 5944, 3.8.2.1.
        """
        node = self.policy.nodes.get(request.home_address)
        if node is None:
            # The RFC has no separate code for this case. Without an association no authenticator
            # can be checked, and code 131 would blame a key.
            yield Code.HA_PROHIBITED, "unknown home address"
            return
        if not packets.is_authentic(request, ExtensionType.MOBILE_HOME, node):
            yield Code.HA_NODE_AUTHENTICATION, "mobile node failed authentication"
        peer = self.policy.peers.get(datagram.source.address)
        if peer is not None and not packets.is_authentic(request, ExtensionType.FOREIGN_HOME, peer):
            yield Code.HA_FOREIGN_AUTHENTICATION, "foreign agent failed authentication"
        last = self._last_identification.get(request.home_address,
                                             packets.make_identification(self._started_s))
        if not packets.is_fresh_identification(request.identification, now_s, last):
            yield Code.HA_IDENTIFICATION, "identification is stale"
        if request.home_agent != self.policy.address:
            yield Code.HA_UNKNOWN_AGENT, "unknown home agent address"
        yield from self._find_unserved(request)

    def _find_unserved(self, request: Request) -> Iterator[tuple[Code, str]]:
        """Yield code and description of each reason not to grant an authentic request."""
        if not is_deregistration(request):
            if not is_unicast(request.care_of):
                yield Code.HA_MALFORMED_REQUEST, "care-of address is not a unicast address"
            if request.care_of in {self.policy.address, self.policy.own_care_of,
                                   request.home_address}:
                yield Code.HA_PROHIBITED, "care-of address would tunnel to itself"
        if request.has_flag(RequestFlag.MINIMAL_ENCAPSULATION) or request.has_flag(RequestFlag.GRE):
            yield Code.HA_ENCAPSULATION, "requested encapsulation unavailable"
        if request.has_flag(RequestFlag.REVERSE_TUNNEL) and not self.policy.reverse_tunnel:
            yield Code.HA_NO_REVERSE_TUNNEL, "requested reverse tunnel unavailable"
        # RFC 3024 section 4.3: only if there will be a tunnel at all.
        if (self.policy.reverse_tunnel_mandatory
            and not request.has_flag(RequestFlag.REVERSE_TUNNEL)
                and not is_deregistration(request)):
            yield Code.HA_REVERSE_TUNNEL_MANDATORY, "reverse tunnel is mandatory"

    def _accept_request(self, datagram: Datagram, request: Request, now_s: float) -> list[Effect]:
        """Update the mobile node's binding as it requests, and send the reply."""
        home = request.home_address
        self._last_identification[home] = request.identification
        old = self.bindings.get(home)
        code = (Code.ACCEPTED_NO_SIMULTANEOUS if request.has_flag(RequestFlag.SIMULTANEOUS)
                else Code.ACCEPTED)
        if is_deregistration(request):
            effects: list[Effect] = self._end_binding(datagram, request, old)
            return [*effects, self._build_reply(datagram, request, code, 0, request.identification)]
        lifetime_s = min(request.lifetime_s, self.policy.lifetime_s)
        expires_s = None if lifetime_s == INFINITE_LIFETIME else now_s + lifetime_s
        binding = Binding(request.care_of, expires_s, request.has_flag(RequestFlag.REVERSE_TUNNEL))
        self.bindings[home] = binding
        # The tunnel comes first, so that it exists when the node reads the reply.
        return [Bind(home, request.care_of),
                DaemonEvent("bound", {
                    "home_address": home, "care_of": request.care_of, "lifetime_s": lifetime_s,
                    "code": int(code), "reverse_tunnel": binding.reverse_tunnel,
                    "renewal": old is not None and old.care_of == request.care_of}),
                self._build_reply(datagram, request, code, lifetime_s, request.identification)]

    def _end_binding(self, datagram: Datagram, request: Request,
                     old: Binding | None) -> list[Effect]:
        """Remove the mobile node's binding, unless the request names another care-of address."""
        home = request.home_address
        # With a care-of address other than its own, only that binding is meant (section 3.8.2.2).
        if old is not None and request.care_of not in {home, old.care_of}:
            return []
        self.bindings.pop(home, None)
        fields = {"home_address": home, "care_of": old.care_of if old else None,
                  "reason": "deregistered"}
        unbind: list[Effect] = [Unbind(home, old.care_of, datagram.source.link)] if old else []
        return [*unbind, DaemonEvent("unbound", fields)]

    def _deny_request(self, datagram: Datagram, request: Request, refusal: tuple[Code, str],
                      now_s: float) -> list[Effect]:
        """Send a reply that denies a request, with the code and the reason for the log."""
        code, reason = refusal
        fields = {"by": "home", "code": int(code), "reason": reason,
                  "home_address": request.home_address, "from": datagram.source.address}
        if code in SECURITY_EXCEPTIONS:
            self.security_exceptions += 1
            fields["security_exceptions"] = self.security_exceptions
        identification = request.identification
        if code == Code.HA_IDENTIFICATION:
            # The node keeps the fraction of a second of its clock: one second later is after our
            # start in any case.
            identification = packets.make_resynchronisation(identification,
                                                            max(now_s, self._started_s + 1))
        return [DaemonEvent("denied", fields),
                self._build_reply(datagram, request, code, 0, identification)]

    def _build_reply(self, datagram: Datagram, request: Request, code: Code, lifetime_s: int,
                     identification: int) -> SendMessage:
        """Return the reply to a registration request, addressed to its sender (RFC 5944, 3.8.3)."""
        reply = Reply(code, lifetime_s, request.home_address, self.policy.address, identification)
        node = self.policy.nodes.get(request.home_address)
        if node is not None:
            reply = packets.add_authentication(reply, ExtensionType.MOBILE_HOME, node)
        peer = self.policy.peers.get(datagram.source.address)
        if peer is not None:
            reply = packets.add_authentication(reply, ExtensionType.FOREIGN_HOME, peer)
        return SendMessage(reply.encode(), self.policy.address, datagram.source)


def is_deregistration(request: Request) -> bool:
    """Return whether a registration request has lifetime 0, which deregisters (RFC 5944, 3.3).

    A registration of the home address itself has lifetime 0, too.
    """
    return request.lifetime_s == 0


def is_unicast(address: str) -> bool:
    """Return whether an IPv4 address can belong to a host."""
    first = int(address.partition(".")[0])
    return 0 < first < 224 and first != 127
