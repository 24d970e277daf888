"""The logic of home agent, foreign agent and mobile node, without sockets or kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.mobile_ip import packets
from topologies.mobile_ip.discovery import Advertisement, AgentFlag
from topologies.mobile_ip.effects import (
    Admit,
    Bind,
    DaemonEvent,
    Datagram,
    Dismiss,
    Endpoint,
    SendMessage,
    Solicit,
    Unbind,
    UseAgent,
)
from topologies.mobile_ip.foreign_agent import ForeignAgent, ForeignPolicy
from topologies.mobile_ip.home_agent import HomeAgent, HomePolicy
from topologies.mobile_ip.mobile_node import MobileNode, NodePolicy
from topologies.mobile_ip.packets import (
    Association,
    Code,
    Extension,
    ExtensionType,
    Reply,
    Request,
    RequestFlag,
)

NOW = 1.8e9
MN, HA, FA, CARE_OF, OTHER = "10.1.0.12", "10.1.0.1", "10.2.0.1", "10.9.0.2", "10.9.0.3"
KEY, PEER = Association(256, bytes(16)), Association(300, b"p" * 16)
LINK, FA_LINK, HA_LINK = b"\2" * 6, b"\4" * 6, b"\6" * 6
REVERSE = RequestFlag.REVERSE_TUNNEL


def home_agent(started_s: float = NOW - 3600, **changes) -> HomeAgent:
    """A home agent of one node."""
    policy = HomePolicy(HA, {MN: KEY}, 600, {}, own_care_of="10.9.0.1")
    return HomeAgent(replace(policy, **changes), started_s)


def foreign_agent(**changes) -> ForeignAgent:
    """A foreign agent."""
    return ForeignAgent(replace(ForeignPolicy(FA, CARE_OF, 600, {}), **changes))


def request(at_s: float = NOW, **changes) -> Request:
    """A request to bind, without authentication."""
    plain = Request(REVERSE, 300, MN, HA, CARE_OF, packets.make_identification(at_s))
    return replace(plain, **changes)


def signed(message):
    """With the Mobile-Home extension."""
    return packets.add_authentication(message, ExtensionType.MOBILE_HOME, KEY)


def relayed(message, source: str = CARE_OF) -> Datagram:
    """As it arrives over the wire."""
    payload = message if isinstance(message, bytes) else message.encode()
    return Datagram(payload, Endpoint(source, 434), HA)


def aired(message, ttl: int = 255) -> Datagram:
    """As it arrives over the radio."""
    payload = message if isinstance(message, bytes) else message.encode()
    return Datagram(payload, Endpoint(MN, 50000, LINK), FA, ttl)


def sent(effects) -> Reply | Request:
    """The one message sent."""
    (message,) = [packets.parse_message(effect.payload) for effect in effects
                  if isinstance(effect, SendMessage)]
    return message


def kinds(effects) -> list[type]:
    """What is to be done, notes aside."""
    return [type(effect) for effect in effects if not isinstance(effect, DaemonEvent)]


def note(effects, event: str) -> dict:
    """Fields of the one event of this name."""
    (found,) = [e.fields for e in effects if isinstance(e, DaemonEvent) and e.event == event]
    return found


# --- home agent ----------------------------------------------------------------------------------


def test_binding():
    """The tunnel first, then an authentic reply with the request's Identification."""
    agent = home_agent()
    effects = agent.handle_request(relayed(signed(request())), NOW + 1)
    assert effects[0] == Bind(MN, CARE_OF)
    reply = sent(effects)
    assert (reply.code, reply.lifetime_s, reply.home_agent) == (0, 300, HA)
    assert reply.identification == request().identification
    assert packets.is_authentic(reply, ExtensionType.MOBILE_HOME, KEY)
    assert agent.bindings[MN].care_of == CARE_OF
    assert effects[-1].to == Endpoint(CARE_OF, 434)


def test_lifetime_is_cut_and_binding_expires():
    """No longer than the agent's own limit; then it is over, and not before."""
    agent = home_agent(lifetime_s=100)
    assert sent(agent.handle_request(relayed(signed(request())), NOW)).lifetime_s == 100
    assert agent.deadline_s() == NOW + 100
    assert agent.expire(NOW + 99.9) == []
    effects = agent.expire(NOW + 100)
    assert effects[0] == Unbind(MN, CARE_OF)
    assert note(effects, "unbound")["reason"] == "expired"
    assert agent.bindings == {}
    assert agent.deadline_s() is None


def test_infinite_lifetime():
    """65535 never expires, where the agent allows it."""
    agent = home_agent(lifetime_s=65535)
    agent.handle_request(relayed(signed(request(lifetime_s=65535))), NOW)
    assert agent.deadline_s() is None
    assert agent.expire(NOW + 1e6) == []


def test_renewal_and_movement():
    """The same care-of address is a renewal; another one moves the binding."""
    agent = home_agent()
    agent.handle_request(relayed(signed(request())), NOW)
    effects = agent.handle_request(relayed(signed(request(NOW + 5))), NOW + 5)
    assert note(effects, "bound")["renewal"]
    effects = agent.handle_request(relayed(signed(request(NOW + 6, care_of=OTHER)), OTHER), NOW + 6)
    assert effects[0] == Bind(MN, OTHER)
    assert not note(effects, "bound")["renewal"]
    assert [binding.care_of for binding in agent.bindings.values()] == [OTHER]


def test_deregistration():
    """Lifetime 0 with the home address ends the binding; the node's link is told to all."""
    agent = home_agent()
    agent.handle_request(relayed(signed(request())), NOW)
    ending = signed(request(NOW + 1, lifetime_s=0, care_of=MN, flags=0))
    effects = agent.handle_request(replace(relayed(ending), source=Endpoint(MN, 50000, LINK)), NOW
                                   + 1)
    assert effects[0] == Unbind(MN, CARE_OF, LINK)
    assert (sent(effects).code, sent(effects).lifetime_s) == (0, 0)
    assert agent.bindings == {}


def test_deregistration_without_binding():
    """At home from the start: accepted, and nothing to undo."""
    effects = home_agent().handle_request(
        relayed(signed(request(lifetime_s=0, care_of=MN)), MN), NOW)
    assert kinds(effects) == [SendMessage]
    assert sent(effects).code == 0


def test_deregistering_another_care_of_address():
    """Only the care-of address that is named is deregistered (RFC 5944 section 3.8.2.2)."""
    agent = home_agent()
    agent.handle_request(relayed(signed(request())), NOW)
    effects = agent.handle_request(relayed(signed(request(NOW + 1, lifetime_s=0, care_of=OTHER))),
                                   NOW)
    assert kinds(effects) == [SendMessage]
    assert MN in agent.bindings


def test_simultaneous_bindings_are_not_had():
    """The S bit: accepted with code 1, as one binding."""
    effects = home_agent().handle_request(
        relayed(signed(request(flags=REVERSE | RequestFlag.SIMULTANEOUS))), NOW)
    assert sent(effects).code == Code.ACCEPTED_NO_SIMULTANEOUS


UNKNOWN = "10.1.0.99"
DENIALS = {
    "no authenticator": (request(), 131, True),
    "wrong key": (packets.add_authentication(request(), ExtensionType.MOBILE_HOME, PEER), 131,
                  True),
    "changed after signing": (replace(signed(request()), care_of=OTHER), 131, True),
    "stale": (signed(request(NOW - 8)), 133, True),
    "from the future": (signed(request(NOW + 8)), 133, True),
    "unknown home address": (signed(request(home_address=UNKNOWN)), 129, False),
    "unknown home agent": (signed(request(home_agent="10.1.0.77")), 136, False),
    "care-of is a group": (signed(request(care_of="224.0.0.9")), 134, False),
    "care-of is nothing": (signed(request(care_of="0.0.0.0")), 134, False),
    "care-of is the agent": (signed(request(care_of=HA)), 129, False),
    "broken extension": (request().encode() + b"\x20\x14\x00", 134, False),
    "minimal encapsulation": (signed(request(flags=RequestFlag.MINIMAL_ENCAPSULATION)), 139, False),
    "GRE": (signed(request(flags=RequestFlag.GRE)), 139, False),
}


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(("message", "code", "exception"), DENIALS.values(), ids=DENIALS)
def test_denials_by_the_home_agent(message, code, exception, bound):
    """The RFC's code, a note, and nothing changes; security exceptions are counted."""
    agent = home_agent()
    if bound:
        agent.handle_request(relayed(signed(request(NOW - 1))), NOW)
    before = dict(agent.bindings)
    effects = agent.handle_request(relayed(message), NOW)
    assert kinds(effects) == [SendMessage]
    assert sent(effects).code == note(effects, "denied")["code"] == code
    assert agent.bindings == before
    assert agent.security_exceptions == exception
    # It has not used up the Identification either: the right request is still accepted.
    assert sent(agent.handle_request(relayed(signed(request())), NOW)).code == 0


def test_replay_is_denied():
    """What was accepted once is not accepted again, nor anything older."""
    agent = home_agent()
    first, second = (relayed(signed(request(NOW + n))) for n in (0, 1))
    agent.handle_request(second, NOW)
    for late in (first, second):
        assert sent(agent.handle_request(late, NOW)).code == 133


def test_no_replay_after_a_restart():
    """An agent that has forgotten what it accepted takes nothing from before its start."""
    message = relayed(signed(request(NOW)))
    assert sent(home_agent().handle_request(message, NOW)).code == 0
    restarted = home_agent(NOW + 0.5)
    assert sent(restarted.handle_request(message, NOW + 0.6)).code == 133
    assert sent(restarted.handle_request(relayed(signed(request(NOW + 0.7))), NOW + 0.7)).code == 0


def test_a_slow_clock_is_set_right_after_the_start():
    """What 133 answers is accepted in the very second in which the agent has started."""
    agent, node = home_agent(NOW + 0.9), mobile_node(clock_offset_s=-60.25)
    denied = sent(agent.handle_request(relayed(abroad(node, NOW + 0.95)), NOW + 0.95))
    assert denied.code == 133
    corrected = sent(node.handle_reply(denied.encode(), NOW + 0.96))
    assert sent(agent.handle_request(relayed(corrected), NOW + 0.97)).code == 0


def test_stale_reply_sets_the_clock():
    """133 has the agent's time above and the request's fraction below."""
    stale = signed(request(NOW - 3600.25))
    reply = sent(home_agent().handle_request(relayed(stale), NOW))
    assert packets.seconds_from_identification(reply.identification) == pytest.approx(NOW, abs=1)
    assert packets.is_answered_identification(reply.identification, stale.identification)
    assert packets.is_authentic(reply, ExtensionType.MOBILE_HOME, KEY)


@pytest.mark.parametrize(("policy", "flags", "code"), [
    ({"reverse_tunnel": False}, REVERSE, 137),
    ({"reverse_tunnel_mandatory": True}, RequestFlag(0), 138),
    ({"reverse_tunnel": False}, RequestFlag(0), 0),
    ({"reverse_tunnel_mandatory": True}, REVERSE, 0)])
def test_reverse_tunnel_at_home(policy, flags, code):
    """RFC 3024 section 3.4: unavailable 137, mandatory 138."""
    effects = home_agent(**policy).handle_request(relayed(signed(request(flags=flags))), NOW)
    assert sent(effects).code == code


@pytest.mark.parametrize(("key", "code"), [(PEER, 0), (KEY, 132), (None, 132)])
def test_foreign_agents_with_an_association(key, code):
    """A foreign agent that shares a key must show it."""
    message = signed(request())
    if key:
        message = packets.add_authentication(message, ExtensionType.FOREIGN_HOME, key)
    effects = home_agent(peers={CARE_OF: PEER}).handle_request(relayed(message), NOW)
    assert sent(effects).code == code
    assert packets.is_authentic(sent(effects), ExtensionType.FOREIGN_HOME, PEER)


def test_what_must_be_understood_is_discarded():
    """An unknown extension below 128: silence; from 128 on it is skipped (section 1.9)."""
    for kind, answered in ((77, False), (177, True)):
        message = signed(request(extensions=(Extension(kind, b"x"),)))
        assert bool(home_agent().handle_request(relayed(message), NOW)) is answered


# --- foreign agent -------------------------------------------------------------------------------


def accepted(agent: ForeignAgent, now: float = NOW, **changes) -> list:
    """A request that is relayed and accepted; the effects of the reply."""
    message = signed(request(now))
    agent.from_radio(aired(message), now)
    reply = Reply(0, 300, MN, HA, message.identification)
    return agent.from_wire(Datagram(signed(replace(reply, **changes)).encode(),
                                    Endpoint(HA, 434), CARE_OF), now + 0.01)


def test_relays_unchanged():
    """The request goes on octet by octet, from the care-of address to the home agent."""
    agent = foreign_agent()
    (send,) = agent.from_radio(aired(signed(request())), NOW)
    assert send == SendMessage(signed(request()).encode(), CARE_OF, Endpoint(HA, 434))
    assert agent.visitors == {}


def test_admits_when_accepted():
    """The route first, then the reply, to the link-layer address the request came from."""
    agent = foreign_agent()
    effects = accepted(agent)
    assert kinds(effects) == [Admit, SendMessage]
    assert effects[0] == Admit(MN, HA, LINK, reverse_tunnel=True)
    assert effects[-1].to == Endpoint(MN, 50000, LINK)
    assert packets.is_authentic(sent(effects), ExtensionType.MOBILE_HOME, KEY)
    assert agent.pending == {}
    assert agent.deadline_s() == pytest.approx(NOW + 300.01)


def test_denied_reply_is_relayed_and_admits_nobody():
    """The node hears its home agent's code, the visitor list stays."""
    agent = foreign_agent()
    effects = accepted(agent, code=131, lifetime_s=0)
    assert kinds(effects) == [SendMessage]
    assert sent(effects).code == 131
    assert agent.visitors == {}
    assert agent.pending == {}


@pytest.mark.parametrize("reply", [
    Reply(0, 300, MN, HA, packets.make_identification(NOW) ^ 1),
    Reply(0, 300, UNKNOWN, HA, packets.make_identification(NOW))])
def test_unasked_replies_are_discarded(reply):
    """Another Identification, another node: silence."""
    agent = foreign_agent()
    agent.from_radio(aired(signed(request())), NOW)
    assert agent.from_wire(relayed(reply, HA), NOW) == []
    assert agent.from_wire(relayed(b"\3", HA), NOW) == []
    assert len(agent.pending) == 1


def test_reply_from_a_stranger_is_discarded():
    """Only the agent that was asked can answer."""
    agent = foreign_agent()
    agent.from_radio(aired(signed(request())), NOW)
    assert agent.from_wire(relayed(Reply(0, 300, MN, HA, request().identification), OTHER),
                           NOW) == []
    assert agent.visitors == {}


def test_pending_requests_time_out():
    """After 7 s the node is told, code 78."""
    agent = foreign_agent()
    agent.from_radio(aired(signed(request())), NOW)
    assert agent.deadline_s() == NOW + 7
    assert agent.expire(NOW + 6.9) == []
    effects = agent.expire(NOW + 7)
    assert sent(effects).code == 78
    assert agent.pending == {}


def test_pending_requests_are_limited():
    """One more than the limit: 66; the others keep waiting."""
    agent = foreign_agent(max_pending=2)
    codes = [agent.from_radio(aired(signed(request(NOW + n))), NOW) for n in range(3)]
    assert sent(codes[2]).code == 66
    assert len(agent.pending) == 2


def test_visits_expire_and_end():
    """With their lifetime, or when the node deregisters through the agent."""
    agent = foreign_agent()
    accepted(agent)
    assert kinds(agent.expire(NOW + 301)) == [Dismiss]
    accepted(agent)
    ending = signed(request(NOW + 2, lifetime_s=0, care_of=MN))
    agent.from_radio(aired(ending), NOW + 2)
    effects = agent.from_wire(relayed(signed(Reply(0, 0, MN, HA, ending.identification)), HA),
                              NOW + 2)
    assert kinds(effects) == [Dismiss, SendMessage]
    assert agent.visitors == {}


def test_lifetime_never_grows_on_the_way():
    """A reply with more than was asked counts as what was asked."""
    agent = foreign_agent()
    accepted(agent, lifetime_s=60000)
    assert agent.visitors[MN].expires_s == pytest.approx(NOW + 300.01)


FOREIGN_DENIALS = {
    "lifetime": ({}, signed(request(lifetime_s=601)), 255, 69),
    "broken": ({}, request().encode() + b"\x20\x14\x00", 255, 70),
    "home address": ({}, signed(request(home_address="0.0.0.0")), 255, 70),
    "home address of the agent's": ({}, signed(request(home_address=FA)), 255, 70),
    "home address of its wire": ({}, signed(request(home_address=CARE_OF)), 255, 70),
    "home agent": ({}, signed(request(home_agent="255.255.255.255")), 255, 70),
    "encapsulation": ({}, signed(request(flags=RequestFlag.GRE)), 255, 72),
    "no tunnel": ({"reverse_tunnel": False}, signed(request()), 255, 74),
    "mandatory": ({"reverse_tunnel_mandatory": True}, signed(request(flags=0)), 255, 75),
    "distant": ({}, signed(request()), 254, 76),
    "care-of": ({}, signed(request(care_of=OTHER)), 255, 77),
    "care-of home": ({}, signed(request(care_of=MN)), 255, 77),
    "delivery style": ({}, signed(request(extensions=(Extension(130, b""),))), 255, 79),
}


@pytest.mark.parametrize(("policy", "message", "ttl", "code"), FOREIGN_DENIALS.values(),
                         ids=FOREIGN_DENIALS)
def test_denials_by_the_foreign_agent(policy, message, ttl, code):
    """The RFC's code, a note, nobody admitted and nothing relayed."""
    agent = foreign_agent(**policy)
    effects = agent.from_radio(aired(message, ttl), NOW)
    assert sent(effects).code == note(effects, "denied")["code"] == code
    assert sent(effects).lifetime_s == (600 if code == 69 else 0)
    assert kinds(effects) == [SendMessage]
    assert (agent.visitors, agent.pending) == ({}, {})


def test_home_agents_with_an_association():
    """Foreign-Home extensions are added, wanted (else 68) and not passed on to the node."""
    agent = foreign_agent(peers={HA: PEER})
    (send,) = agent.from_radio(aired(signed(request())), NOW)
    assert packets.is_authentic(packets.parse_message(send.payload), ExtensionType.FOREIGN_HOME,
                                PEER)
    reply = signed(Reply(0, 300, MN, HA, request().identification))
    right = packets.add_authentication(reply, ExtensionType.FOREIGN_HOME, PEER)
    effects = agent.from_wire(relayed(right, HA), NOW)
    assert kinds(effects) == [Admit, SendMessage]
    assert [extension.kind for extension in sent(effects).extensions] == [ExtensionType.MOBILE_HOME]
    agent = foreign_agent(peers={HA: PEER})
    agent.from_radio(aired(signed(request())), NOW)
    assert sent(agent.from_wire(relayed(reply, HA), NOW)).code == 68
    assert (agent.visitors, agent.security_exceptions) == ({}, 1)


def test_mobile_nodes_with_an_association():
    """Who shares a key with the foreign agent shows it (else 67); nobody else is asked."""
    agent = foreign_agent(nodes={MN: PEER})
    for key in (None, KEY):
        message = signed(request())
        if key:
            message = packets.add_authentication(message, ExtensionType.MOBILE_FOREIGN, key)
        denied = sent(agent.from_radio(aired(message), NOW))
        assert denied.code == 67
        assert packets.is_authentic(denied, ExtensionType.MOBILE_FOREIGN, PEER)
    assert (agent.pending, agent.security_exceptions) == ({}, 2)
    right = packets.add_authentication(signed(request()), ExtensionType.MOBILE_FOREIGN, PEER)
    assert sent(agent.from_radio(aired(right), NOW)) == signed(request())


def test_what_is_for_the_foreign_agent_goes_no_further():
    """Extensions behind the Mobile-Home one are removed, from requests and from replies."""
    def extended(message):
        return packets.add_authentication(replace(signed(message), extensions=(
            *signed(message).extensions, Extension(177, b"for the next hop"))),
            ExtensionType.MOBILE_FOREIGN, KEY)

    agent = foreign_agent()
    assert sent(agent.from_radio(aired(extended(request())), NOW)) == signed(request())
    reply = Reply(0, 300, MN, HA, request().identification)
    assert sent(agent.from_wire(relayed(extended(reply), HA), NOW)) == signed(reply)


# --- mobile node ---------------------------------------------------------------------------------

SERVICES = AgentFlag.REGISTRATION_REQUIRED | AgentFlag.HOME_AGENT | AgentFlag.REVERSE_TUNNEL
AT_HOME = Advertisement(7, 600, SERVICES, (), ((HA, 0),))
ABROAD = Advertisement(7, 600, SERVICES | AgentFlag.FOREIGN_AGENT, (CARE_OF,), ((FA, 0),))


def mobile_node(clock_offset_s: float = 0.0, **changes) -> MobileNode:
    """A mobile node."""
    policy = NodePolicy(MN, HA, KEY, 300)
    return MobileNode(replace(policy, **changes), clock_offset_s=clock_offset_s)


def answer(asked: Request, code: int = 0, key: Association = KEY, **changes) -> bytes:
    """A reply to a request."""
    reply = Reply(code, asked.lifetime_s, MN, HA, asked.identification)
    return packets.add_authentication(replace(reply, **changes), ExtensionType.MOBILE_HOME,
                                      key).encode()


def abroad(node: MobileNode, now: float = NOW) -> Request:
    """The request it sends after it was attached somewhere else."""
    node.handle_attach(now)
    return sent(node.handle_advertisement(ABROAD, FA, FA_LINK, now))


def test_solicits_at_once():
    """Attached: a solicitation, a second later another, after three ever fewer."""
    node = mobile_node(deadline_s=100)
    assert kinds(node.handle_attach(NOW)) == [Solicit]
    times = []
    for _ in range(6):
        times.append(node.deadline_s() - NOW)
        assert kinds(node.tick(node.deadline_s())) == [Solicit]
    assert times == [1, 2, 3, 5, 9, 17]


def test_registers_abroad():
    """Care-of address and lifetime by the advertisement, T as wished; the route when accepted."""
    node = mobile_node()
    asked = abroad(node)
    assert (asked.care_of, asked.lifetime_s, asked.flags) == (CARE_OF, 300, REVERSE)
    assert packets.is_authentic(asked, ExtensionType.MOBILE_HOME, KEY)
    effects = node.handle_reply(answer(asked), NOW + 0.1)
    assert effects[0] == UseAgent(FA, FA_LINK, at_home=False)
    assert note(effects, "registered")["place"] == "foreign"
    assert node.deadline_s() == NOW + 200


def test_deregisters_at_home():
    """The route at once; lifetime 0, the home address as care-of address."""
    node = mobile_node()
    node.handle_attach(NOW)
    effects = node.handle_advertisement(AT_HOME, HA, HA_LINK, NOW)
    assert UseAgent(HA, HA_LINK, at_home=True) in effects
    asked = sent(effects)
    assert (asked.care_of, asked.lifetime_s, asked.flags) == (MN, 0, 0)
    effects = node.handle_reply(answer(asked), NOW)
    assert note(effects, "registered")["place"] == "home"
    assert note(effects, "deregistered")["code"] == 0
    assert node.deadline_s() is None


def test_retransmits_with_new_identifications():
    """After 1, 2, 4 s, each with a later Identification; then it gives up."""
    node = mobile_node()
    stamps = [abroad(node).identification]
    times = []
    while (now := node.deadline_s()) < NOW + 10:
        times.append(now - NOW)
        stamps.append(sent(node.tick(now)).identification)
    assert times == [1, 3, 7]
    assert stamps == sorted(set(stamps))
    assert note(node.tick(NOW + 10), "failed")["reason"] == "no answer"
    assert node.deadline_s() is None


def test_gives_up_without_an_agent():
    """No advertisement before the deadline."""
    node = mobile_node(deadline_s=2.5)
    node.handle_attach(NOW)
    assert note(node.tick(NOW + 2.5), "failed")["reason"] == "no agent has advertised itself"
    assert node.deadline_s() is None


def test_renews_in_time():
    """At two thirds of the lifetime, with retransmissions until it ends."""
    node = mobile_node()
    node.handle_reply(answer(abroad(node)), NOW)
    again = sent(node.tick(NOW + 200))
    effects = node.handle_reply(answer(again), NOW + 200)
    assert note(effects, "registered")["code"] == 0
    assert node.deadline_s() == NOW + 400


def test_sets_its_clock():
    """133, authentic: the agent's time, and at once another try; at most twice."""
    node = mobile_node()
    asked = abroad(node)
    for number in range(2):
        stamp = packets.make_resynchronisation(asked.identification, NOW + 3600)
        effects = node.handle_reply(answer(asked, 133, lifetime_s=0, identification=stamp), NOW)
        assert note(effects, "denied")["code"] == 133, number
        asked = sent(effects)
        assert packets.seconds_from_identification(asked.identification) == pytest.approx(
            NOW + 3600, abs=1)
    effects = node.handle_reply(answer(asked, 133, lifetime_s=0), NOW)
    assert note(effects, "failed")["reason"] == "denied with code 133"


def test_asks_for_less_when_told():
    """69 from the foreign agent says how long it may be."""
    node = mobile_node()
    asked = abroad(node)
    told = Reply(69, 50, MN, HA, asked.identification).encode()
    assert sent(node.handle_reply(told, NOW)).lifetime_s == 50


@pytest.mark.parametrize(("code", "ends"), [(66, False), (78, False), (70, True), (74, True)])
def test_foreign_denials(code, ends):
    """Passing troubles are waited out, others end the attempt."""
    node = mobile_node()
    asked = abroad(node)
    effects = node.handle_reply(Reply(code, 0, MN, HA, asked.identification).encode(), NOW)
    assert note(effects, "denied") == {"code": code, "authentic": False, "agent": HA}
    assert (node.attempt is None) is ends


def test_forged_replies_change_nothing():
    """A reply without the right authenticator is told of, and waited on."""
    node = mobile_node()
    asked = abroad(node)
    effects = node.handle_reply(answer(asked, key=PEER), NOW)
    assert note(effects, "denied")["authentic"] is False
    assert not node.registered
    assert kinds(node.handle_reply(answer(asked), NOW)) == [UseAgent]


def test_foreign_agents_that_share_a_key():
    """The request bears both authenticators; an answer without the agent's is not believed."""
    node = mobile_node(foreign_agents={FA: PEER})
    asked = abroad(node)
    assert packets.is_authentic(asked, ExtensionType.MOBILE_HOME, KEY)
    assert packets.is_authentic(asked, ExtensionType.MOBILE_FOREIGN, PEER)
    for forged in (Reply(70, 0, MN, HA, asked.identification).encode(), answer(asked)):
        assert note(node.handle_reply(forged, NOW), "denied")["authentic"] is False
    assert node.attempt is not None
    right = packets.add_authentication(packets.parse_message(answer(asked)),
                                       ExtensionType.MOBILE_FOREIGN, PEER)
    assert kinds(node.handle_reply(right.encode(), NOW)) == [UseAgent]


def test_at_home_there_is_no_foreign_agent():
    """The home agent is not shown a key that is shared with it as a foreign agent."""
    node = mobile_node(foreign_agents={HA: PEER})
    node.handle_attach(NOW)
    asked = sent(node.handle_advertisement(AT_HOME, HA, HA_LINK, NOW))
    assert [extension.kind for extension in asked.extensions] == [ExtensionType.MOBILE_HOME]


def test_other_answers_are_ignored():
    """Another Identification, another node, no message: nothing."""
    node = mobile_node()
    asked = abroad(node)
    for payload in (answer(asked, identification=asked.identification ^ 1),
                    answer(asked, home_address=UNKNOWN), b"", asked.encode()):
        assert node.handle_reply(payload, NOW) == []


def test_advertisement_mode_waits():
    """No solicitation; the next advertisement makes it register, another agent's makes it move."""
    node = mobile_node(by_event=False)
    assert node.handle_attach(NOW) == []
    asked = sent(node.handle_advertisement(AT_HOME, HA, HA_LINK, NOW + 0.7))
    node.handle_reply(answer(asked), NOW + 0.8)
    assert node.handle_advertisement(replace(AT_HOME, sequence=8), HA, HA_LINK, NOW + 1.7) == []
    assert sent(node.handle_advertisement(ABROAD, FA, FA_LINK, NOW + 2)).care_of == CARE_OF


def test_event_mode_ignores_other_agents():
    """Registered, and not told of a new link: what else is heard does not matter."""
    node = mobile_node()
    assert node.handle_advertisement(ABROAD, FA, FA_LINK, NOW) == []
    node.handle_reply(answer(abroad(node)), NOW)
    assert node.handle_advertisement(AT_HOME, HA, HA_LINK, NOW) == []


def test_agent_that_starts_anew():
    """A sequence number that falls below 256: it knows nothing of us any more."""
    node = mobile_node()
    node.handle_reply(answer(abroad(node)), NOW)
    assert sent(node.handle_advertisement(replace(ABROAD, sequence=0), FA, FA_LINK,
                                          NOW)).care_of == CARE_OF


def test_rollover_is_no_new_start():
    """65535, 256: the same agent."""
    node = mobile_node()
    node.handle_attach(NOW)
    node.handle_advertisement(replace(ABROAD, sequence=65535), FA, FA_LINK, NOW)
    assert node.handle_advertisement(replace(ABROAD, sequence=256), FA, FA_LINK, NOW) == []


@pytest.mark.parametrize("heard", [
    replace(ABROAD, services=SERVICES), replace(ABROAD, services=ABROAD.services | AgentFlag.BUSY),
    replace(ABROAD, services=SERVICES, routers=((OTHER, 0),))])
def test_useless_agents(heard):
    """No foreign agent, or a busy one: the search goes on."""
    node = mobile_node()
    node.handle_attach(NOW)
    assert node.handle_advertisement(heard, FA, FA_LINK, NOW) == []
    assert node.attempt is None


def test_agent_without_reverse_tunnel():
    """It is not asked for what it does not offer."""
    node = mobile_node()
    node.handle_attach(NOW)
    effects = node.handle_advertisement(replace(ABROAD, services=AgentFlag.FOREIGN_AGENT), FA,
                                        FA_LINK, NOW)
    assert "no reverse tunnel" in note(effects, "failed")["reason"]
    assert kinds(effects) == []


def test_detached():
    """Nothing is sent without a link."""
    node = mobile_node()
    asked = abroad(node)
    node.handle_detach()
    assert node.deadline_s() is None
    assert node.handle_reply(answer(asked), NOW) == []


# --- any packets ---------------------------------------------------------------------------------

ADDRESSES = st.sampled_from([MN, HA, FA, CARE_OF, OTHER, UNKNOWN, "0.0.0.0", "255.255.255.255"])
LIFETIMES = st.sampled_from([0, 1, 300, 601, 65535])
STAMPS = st.one_of(st.integers(0, 2**64 - 1),
                   st.floats(NOW - 20, NOW + 20).map(packets.make_identification))
EXTENSIONS = st.lists(
    st.builds(Extension, st.sampled_from([0, 32, 33, 34, 77, 130, 200]), st.binary(max_size=24)),
    max_size=3).map(tuple)
REQUESTS = st.builds(Request, st.integers(0, 255), LIFETIMES, ADDRESSES, ADDRESSES, ADDRESSES,
                     STAMPS, EXTENSIONS)
REPLIES = st.builds(Reply, st.integers(0, 255), LIFETIMES, ADDRESSES, ADDRESSES, STAMPS, EXTENSIONS)
GENUINE = signed(request(NOW - 2)).encode()
FLIPPED = st.tuples(st.integers(0, len(GENUINE) - 1), st.integers(1, 255)).map(
    lambda t: GENUINE[:t[0]] + bytes((GENUINE[t[0]] ^ t[1],)) + GENUINE[t[0] + 1:])
CUT = st.integers(0, len(GENUINE) - 1).map(lambda n: GENUINE[:n])
FUZZ = st.one_of(
    st.binary(max_size=80), FLIPPED, CUT, st.just(GENUINE),
    st.binary(max_size=8).map(lambda tail: GENUINE + tail),
    REQUESTS.map(Request.encode), REPLIES.map(Reply.encode),
    REQUESTS.map(lambda m: packets.add_authentication(m, ExtensionType.MOBILE_HOME, PEER).encode()),
    REPLIES.map(lambda m: packets.add_authentication(m, ExtensionType.MOBILE_HOME, PEER).encode()))


@settings(max_examples=200, deadline=None)
@given(payload=FUZZ, source=ADDRESSES, ttl=st.sampled_from([1, 64, 254, 255]))
def test_fuzz(payload, source, ttl):
    """500 packets without the key, replays among them: no crash, and nobody's state changes.

    The agents know a node that is bound and visiting, and the mobile node waits for a renewal.
    """
    home, foreign, node = home_agent(), foreign_agent(), mobile_node()
    home.handle_request(relayed(GENUINE), NOW)
    accepted(foreign)
    node.handle_reply(answer(abroad(node)), NOW)
    node.tick(NOW + 200)
    before = dict(home.bindings), dict(foreign.visitors), node.agent, node.registered
    wired = Datagram(payload, Endpoint(source, 434), HA, ttl)
    radio = Datagram(payload, Endpoint(source, 434, LINK), HA, ttl)
    effects = [*home.handle_request(wired, NOW), *home.handle_request(radio, NOW),
               *foreign.from_radio(radio, NOW), *foreign.from_wire(wired, NOW),
               *node.handle_reply(payload, NOW)]
    assert (home.bindings, foreign.visitors, node.agent, node.registered) == before
    assert {type(effect) for effect in effects} <= {SendMessage, DaemonEvent}
    for effect in effects:
        if isinstance(effect, SendMessage):
            packets.parse_message(effect.payload)
