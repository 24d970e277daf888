"""Implement the logic of a Mobile IP mobile node: find an agent, register and deregister.

`MobileNode` takes received advertisements and replies, and events of the link. It returns the
actions (`effects`) that the program `node` performs. Nothing here touches a socket or the kernel.
RFC 5944 sections 2.4 and 3.6. Times are seconds since 1970 on the caller's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from topologies.mobile_ip import discovery, packets
from topologies.mobile_ip.discovery import Advertisement, AgentFlag
from topologies.mobile_ip.effects import (
    DaemonEvent,
    Effect,
    Endpoint,
    SendMessage,
    Solicit,
    UseAgent,
)
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

# RFC 1256 section 5: three solicitations, a second apart; RFC 5944 section 2.4: then less and less
# often.
_QUICK_SOLICITATIONS = 3
_SOLICITATION_S = 1.0
_SLOWEST_SOLICITATION_S = 60.0
_SLOWEST_RETRY_S = 16.0
# A registration is renewed after this share of its lifetime, which leaves time to retransmit.
_RENEW_AFTER = 2 / 3
_MAX_CORRECTIONS = 2
# Temporary denials by a foreign agent: too many requests, or a slow home agent.
_TRANSIENT = frozenset({Code.FA_RESOURCES, Code.FA_TIMEOUT})


@dataclass(frozen=True)
class NodePolicy:
    """The addresses, keys and behaviour of a mobile node. Times are in seconds.

    - `association`: security association with the home agent
    - `lifetime_s`: lifetime of registrations that it requests
    - `by_event`: whether it searches for an agent when the link comes up. Otherwise any other
      agent's advertisement is a reason to register.
    - `reverse_tunnel`: whether it requests reverse tunnelling (RFC 3024)
    - `retry_s`: time until an unanswered request is sent again for the first time
    - `deadline_s`: time after which it gives up
    - `foreign_agents`: security associations with foreign agents, by the agents' addresses
    """

    home_address: str
    home_agent: str
    association: Association
    lifetime_s: int
    by_event: bool = True
    reverse_tunnel: bool = True
    retry_s: float = 1.0
    deadline_s: float = 10.0
    foreign_agents: dict[str, Association] = field(default_factory=dict)


@dataclass(frozen=True)
class HeardAgent:
    """An agent whose advertisement was received.

    `link` is its link-layer address. `sequence` and `lifetime_s` are fields of the advertisement.
    `at_home` says whether it is the home agent.
    """

    address: str
    link: bytes
    at_home: bool
    care_of: str
    sequence: int
    lifetime_s: int


@dataclass(frozen=True)
class RegistrationAttempt:
    """A registration in progress, over all its transmissions.

    - `agent`, `lifetime_s`: the agent to register with, and the requested lifetime
    - `deadline_s`: time at which it is given up
    - `next_s`, `wait_s`: time of the next transmission, and the wait before it
    - `count`: number of transmissions
    - `corrections`: number of times that the node corrected its clock
    - `sent_s`, `identification`: time and Identification field of the last request
    - `trouble`: reason why it has not succeeded yet
    """

    agent: HeardAgent
    lifetime_s: int
    deadline_s: float
    next_s: float
    wait_s: float
    count: int = 0
    corrections: int = 0
    sent_s: float = 0.0
    identification: int = 0
    trouble: str = "no answer"


class MobileNode:
    """The state of a mobile node: its agent, registration and timers."""

    def __init__(self, policy: NodePolicy, noise: Callable[[], int] = lambda: 0,
                 clock_offset_s: float = 0.0) -> None:
        self.policy = policy
        self.agent: HeardAgent | None = None
        self.attempt: RegistrationAttempt | None = None
        self.registered = False
        self.clock_offset_s = clock_offset_s
        self._noise = noise
        self._last_identification = 0
        self._solicitations = 0
        self._solicit_s: float | None = None
        self._search_until_s: float | None = None
        self._renew_s: float | None = None
        self._expires_s: float | None = None

    # --- events ------------------------------------------------------------------------------

    def handle_attach(self, now_s: float) -> list[Effect]:
        """Search for an agent and register, after the link came up.

        It may lead to another access point than before.
        """
        self._forget_agent()
        self._search_until_s = now_s + self.policy.deadline_s
        if self.policy.by_event:
            self._solicitations = 0
            self._solicit_s = now_s
        return self.tick(now_s)

    def handle_detach(self) -> list[Effect]:
        """Forget the agent, after the link went down. Pending messages are dropped."""
        self._forget_agent()
        return []

    def handle_advertisement(self, advertisement: Advertisement, address: str, link: bytes,
                             now_s: float) -> list[Effect]:
        """Begin a registration if an agent's advertisement is a reason for it.

        Reasons are the first agent that is heard, another agent, and a restart of the agent. With
        the policy `by_event`, only a search for agents and a restart are reasons.

        Args:
            advertisement: The advertisement.
            address: IP address of the agent.
            link: Link-layer address of the agent.
            now_s: Current time in s.

        Returns:
            The actions of the daemon, none without a reason.
        """
        agent = self._describe_agent(advertisement, address, link)
        if agent is None or not self._is_news(agent):
            if agent is not None and self.agent is not None:
                self.agent = replace(self.agent, sequence=agent.sequence)
            return []
        self._forget_agent()
        self.agent = agent
        note = DaemonEvent("advertised", {"agent": address, "care_of": agent.care_of or None,
                                          "place": _location_of(agent),
                                          "sequence": advertisement.sequence})
        if not agent.at_home and self.policy.reverse_tunnel and not advertisement.offers(
                AgentFlag.REVERSE_TUNNEL):
            return [note, DaemonEvent("failed", {"reason": "the agent offers no reverse tunnel"})]
        # At home no binding may take the packets, so the route is set first (RFC 5944 section
        # 2.4.3).
        use: list[Effect] = [UseAgent(address, link, at_home=True)] if agent.at_home else []
        return [note, *use, *self._start_registration(now_s, now_s + self.policy.deadline_s)]

    def handle_reply(self, payload: bytes, now_s: float) -> list[Effect]:
        """Handle a message to the registration port: a registration reply."""
        attempt = self.attempt
        try:
            reply = packets.parse_reply(payload)
        except MessageError:
            return []
        if (attempt is None or reply.home_address != self.policy.home_address
                or packets.unknown_kind(reply) is not None
                or not packets.is_answered_identification(reply.identification,
                                                          attempt.identification)):
            return []
        by_foreign_agent = Code.FA_UNSPECIFIED <= reply.code < Code.HA_UNSPECIFIED
        shared = self._shared_with(attempt.agent)
        # With a key shared with the foreign agent, its authenticator must be valid. The home
        # agent's must be valid, too, unless the foreign agent itself denies.
        authentic = (shared is None or packets.is_authentic(
            reply, ExtensionType.MOBILE_FOREIGN, shared)) and (
                by_foreign_agent or packets.is_authentic(
                    reply, ExtensionType.MOBILE_HOME, self.policy.association))
        if not authentic:
            # RFC 5944 section 3.6.2.1: discarded, but reported, because one of the two keys is
            # wrong.
            self.attempt = replace(attempt, trouble=f"reply not authentic, code {reply.code}")
            return [_denied_event(reply, authentic=False)]
        if reply.is_accepted:
            return self._complete_registration(reply, attempt)
        return [_denied_event(reply, authentic=shared is not None or not by_foreign_agent),
                *self._handle_denial(reply, attempt, now_s)]

    def tick(self, now_s: float) -> list[Effect]:
        """Do all work that is due now: solicit, retransmit, renew or give up."""
        effects: list[Effect] = []
        if self._search_until_s is not None and self._search_until_s <= now_s:
            self._search_until_s = self._solicit_s = None
            effects.append(DaemonEvent("failed", {"reason": "no agent has advertised itself"}))
        if self._solicit_s is not None and self._solicit_s <= now_s:
            effects += self._send_solicitation(now_s)
        if self.attempt is not None:
            effects += self._retry_registration(self.attempt, now_s)
        if self._renew_s is not None and self._renew_s <= now_s:
            assert self._expires_s is not None
            effects += self._start_registration(now_s, self._expires_s)
        return effects

    def deadline_s(self) -> float | None:
        """Return when `tick` must be called next."""
        times = [self._solicit_s, self._search_until_s, self._renew_s]
        times += [self.attempt.next_s, self.attempt.deadline_s] if self.attempt else []
        return min((time for time in times if time is not None), default=None)

    # --- discovery ---------------------------------------------------------------------------

    def _describe_agent(self, advertisement: Advertisement, address: str,
                        link: bytes) -> HeardAgent | None:
        """Return the agent of an advertisement, None if the node cannot use it."""
        at_home = self.policy.home_agent == address or self.policy.home_agent in {
            router for router, _ in advertisement.routers}
        if at_home:
            useful = advertisement.offers(AgentFlag.HOME_AGENT)
        else:
            known = self.agent is not None and self.agent.address == address
            # A busy foreign agent still serves the nodes that it has registered.
            useful = advertisement.offers(AgentFlag.FOREIGN_AGENT) and bool(
                advertisement.care_of) and (
                known or not advertisement.offers(AgentFlag.BUSY))
        if not useful:
            return None
        return HeardAgent(address, link, at_home, "" if at_home else advertisement.care_of[0],
                          advertisement.sequence, advertisement.registration_lifetime_s)

    def _is_news(self, agent: HeardAgent) -> bool:
        """Return whether an agent's advertisement is a reason to register."""
        if self.agent is None:
            return not self.policy.by_event or self._search_until_s is not None
        if self.agent.address != agent.address:
            return not self.policy.by_event
        # RFC 5944 section 2.4.4: the agent restarted and has lost the registration.
        return (agent.sequence < self.agent.sequence
                and agent.sequence < discovery.SEQUENCE_AFTER_ROLLOVER)

    def _send_solicitation(self, now_s: float) -> list[Effect]:
        self._solicitations += 1
        slower = max(0, self._solicitations - _QUICK_SOLICITATIONS)
        self._solicit_s = now_s + min(_SOLICITATION_S * 2.0 ** slower, _SLOWEST_SOLICITATION_S)
        return [Solicit(), DaemonEvent("solicited", {"count": self._solicitations})]

    def _forget_agent(self) -> None:
        """Forget the agent and the registration."""
        self.agent = self.attempt = None
        self.registered = False
        self._solicit_s = self._search_until_s = self._renew_s = self._expires_s = None

    # --- registration ------------------------------------------------------------------------

    def _start_registration(self, now_s: float, deadline_s: float) -> list[Effect]:
        agent = self.agent
        assert agent is not None
        self._renew_s = None
        lifetime_s = 0 if agent.at_home else min(self.policy.lifetime_s, agent.lifetime_s)
        return self._send_request(RegistrationAttempt(agent, lifetime_s, deadline_s, now_s,
                                                      self.policy.retry_s),
                                  now_s)

    def _send_request(self, attempt: RegistrationAttempt, now_s: float) -> list[Effect]:
        """Send the registration request, with a new Identification each time (section 3.6.3)."""
        agent = attempt.agent
        identification = max(packets.make_identification(now_s + self.clock_offset_s,
                                                         self._noise()),
                             self._last_identification + 1)
        self._last_identification = identification
        # RFC 5944 section 3.6.1.2: at home the care-of address is the home address.
        away = RequestFlag.REVERSE_TUNNEL if self.policy.reverse_tunnel else RequestFlag(0)
        request = Request(RequestFlag(0) if agent.at_home else away, attempt.lifetime_s,
                          self.policy.home_address, self.policy.home_agent,
                          self.policy.home_address if agent.at_home else agent.care_of,
                          identification)
        request = packets.add_authentication(request, ExtensionType.MOBILE_HOME,
                                             self.policy.association)
        shared = self._shared_with(agent)
        if shared is not None:
            request = packets.add_authentication(request, ExtensionType.MOBILE_FOREIGN, shared)
        attempt = replace(attempt, sent_s=now_s, identification=identification,
                          count=attempt.count + 1, next_s=now_s + attempt.wait_s,
                          wait_s=min(attempt.wait_s * 2, _SLOWEST_RETRY_S))
        self.attempt = attempt
        return [SendMessage(request.encode(), self.policy.home_address,
                            Endpoint(agent.address, PORT, agent.link)),
                DaemonEvent("requested", {
                    "agent": agent.address, "place": _location_of(agent),
                    "care_of": request.care_of,
                    "lifetime_s": attempt.lifetime_s, "count": attempt.count})]

    def _shared_with(self, agent: HeardAgent) -> Association | None:
        """Return the node's security association with a foreign agent, None if it has none."""
        return None if agent.at_home else self.policy.foreign_agents.get(agent.address)

    def _retry_registration(self, attempt: RegistrationAttempt, now_s: float) -> list[Effect]:
        if attempt.deadline_s <= now_s:
            return self._give_up(attempt.trouble)
        return self._send_request(attempt, now_s) if attempt.next_s <= now_s else []

    def _complete_registration(self, reply: Reply, attempt: RegistrationAttempt) -> list[Effect]:
        agent = attempt.agent
        lifetime_s = min(reply.lifetime_s, attempt.lifetime_s)
        self.attempt = None
        self.registered = True
        if lifetime_s not in {0, INFINITE_LIFETIME}:
            # Counted from the request, so that it never ends here later than at the agent.
            self._expires_s = attempt.sent_s + lifetime_s
            self._renew_s = attempt.sent_s + lifetime_s * _RENEW_AFTER
        fields = {"agent": agent.address, "place": _location_of(agent), "code": reply.code,
                  "lifetime_s": lifetime_s, "care_of": agent.care_of or None,
                  "requests": attempt.count}
        if agent.at_home:
            return [DaemonEvent("deregistered", {"agent": agent.address, "code": reply.code}),
                    DaemonEvent("registered", fields)]
        return [UseAgent(agent.address, agent.link, at_home=False),
                DaemonEvent("registered", fields)]

    def _handle_denial(self, reply: Reply, attempt: RegistrationAttempt,
                       now_s: float) -> list[Effect]:
        """Correct the registration request if the denial says how, else give up.

        RFC 5944 section 3.6.2.3.
        """
        if attempt.corrections < _MAX_CORRECTIONS:
            corrected = replace(attempt, corrections=attempt.corrections + 1)
            if reply.code == Code.HA_IDENTIFICATION:
                self.clock_offset_s = packets.seconds_from_identification(
                    reply.identification) - now_s
                self._last_identification = 0
                return self._send_request(corrected, now_s)
            if reply.code == Code.FA_LIFETIME_TOO_LONG and reply.lifetime_s > 0:
                return self._send_request(replace(corrected, lifetime_s=reply.lifetime_s), now_s)
        # A foreign agent's denial can be forged, so a valid registration is not given up for it;
        # it is renewed until it ends.
        if reply.code in _TRANSIENT or (self.registered and reply.code < Code.HA_UNSPECIFIED):
            self.attempt = replace(attempt, trouble=f"denied with code {reply.code}")
            return []
        return self._give_up(f"denied with code {reply.code}")

    def _give_up(self, reason: str) -> list[Effect]:
        """Give up registering until the link comes up again, or an agent is heard."""
        self._forget_agent()
        return [DaemonEvent("failed", {"reason": reason})]


def _denied_event(reply: Reply, *, authentic: bool) -> DaemonEvent:
    return DaemonEvent("denied", {"code": reply.code, "authentic": authentic,
                                  "agent": reply.home_agent})


def _location_of(agent: HeardAgent) -> str:
    return "home" if agent.at_home else "foreign"
