"""Run a Mobile IP agent (home and foreign) on a node of an emulated network.

The command is `python3 -m topologies.mobile_ip.agent FILE`, with a JSON configuration. `home_agent`
and `foreign_agent` have the logic: they take received messages and return effects (actions on
sockets and kernel). This program receives the messages, performs the effects, sends advertisements
and prints events as JSON lines.
"""

from __future__ import annotations

import contextlib
import random
import sys

from topologies.mobile_ip import discovery, packets
from topologies.mobile_ip.daemon import (
    AgentConfig,
    DaemonLoop,
    load_agent_config,
    now_s,
    print_event,
    run_daemon,
)
from topologies.mobile_ip.discovery import Advertisement, AgentFlag
from topologies.mobile_ip.effects import (
    Admit,
    Bind,
    DaemonEvent,
    Datagram,
    Dismiss,
    Effect,
    Endpoint,
    SendMessage,
    Unbind,
)
from topologies.mobile_ip.foreign_agent import ForeignAgent, ForeignPolicy
from topologies.mobile_ip.home_agent import HomeAgent, HomePolicy
from topologies.mobile_ip.ipv4 import ICMP, multicast_link_address
from topologies.mobile_ip.kernel import AgentKernel
from topologies.mobile_ip.link import Radio, UdpRegistration
from topologies.mobile_ip.packets import PORT, MessageError

# RFC 1256 section 6.2.1 asks for random intervals, so that neighbours do not synchronise.
_JITTER = 0.05


class AgentProgram:
    """A Mobile IP agent: it connects sockets and kernel with the logic of both agents."""

    def __init__(self, config: AgentConfig, loop: DaemonLoop) -> None:
        self._config = config
        self._home = HomeAgent(HomePolicy(
            config.address, config.home, config.lifetime_s, config.peers, config.care_of,
            config.reverse_tunnel, config.reverse_tunnel_mandatory), now_s())
        self._foreign = ForeignAgent(ForeignPolicy(
            config.address, config.care_of, config.lifetime_s, config.peers, config.visitors,
            config.reverse_tunnel, config.reverse_tunnel_mandatory)) if config.foreign else None
        self._sequence = 0
        self._radio = Radio(config.interface, discovery.SOLICITATION, PORT, discovery.ALL_ROUTERS)
        self._wire = UdpRegistration(ignored_interface=config.interface)
        self._kernel = AgentKernel(config.interface, config.address, config.care_of,
                                   self._radio.link_address, self._radio.claim_address,
                                   config.wired_interface)
        # Random numbers for jitter, not for secrets.
        self._random = random.Random()  # noqa: S311
        self._advertise_s = now_s() if config.advertisement_interval_s else None
        loop.watch(self._radio, self._from_radio)
        loop.watch(self._wire, self._from_wire)

    def start(self) -> None:
        """Prepare the kernel for the agent's tunnels and routes."""
        self._kernel.start()

    def stop(self) -> None:
        """Undo the agent's changes to the kernel."""
        self._kernel.stop()
        self._radio.close()
        self._wire.close()

    def deadline_s(self) -> float | None:
        """Return when `tick` must be called next, in seconds since 1970."""
        times = [self._advertise_s, self._home.deadline_s(),
                 self._foreign.deadline_s() if self._foreign else None]
        return min((time for time in times if time is not None), default=None)

    def tick(self, now: float) -> None:
        """Send due advertisements and end expired bindings, visits and requests."""
        if self._advertise_s is not None and self._advertise_s <= now:
            # Counted from now: after a long delay a burst would follow otherwise.
            interval_s = self._config.advertisement_interval_s
            self._advertise_s = now + interval_s * (1 + self._random.uniform(0, _JITTER))
            self._send_advertisement(discovery.ALL_SYSTEMS,
                                     multicast_link_address(discovery.ALL_SYSTEMS))
        self._perform_effects(self._home.expire(now))
        if self._foreign:
            self._perform_effects(self._foreign.expire(now))

    def _send_advertisement(self, to: str, link: bytes) -> None:
        services = AgentFlag.REGISTRATION_REQUIRED
        if self._config.home:
            services |= AgentFlag.HOME_AGENT
        if self._foreign:
            services |= AgentFlag.FOREIGN_AGENT
            if len(self._foreign.pending) >= self._foreign.policy.max_pending:
                services |= AgentFlag.BUSY
        if self._config.reverse_tunnel:
            services |= AgentFlag.REVERSE_TUNNEL
        # RFC 1256: three advertisements may be lost before an agent counts as gone.
        lifetime_s = max(3, round(3 * self._config.advertisement_interval_s))
        message = Advertisement(
            self._sequence, self._config.lifetime_s, services,
            (self._config.care_of,) if self._foreign else (), ((self._config.address, 0),),
            lifetime_s)
        self._sequence = discovery.next_sequence(self._sequence)
        try:
            self._radio.send_icmp(message.encode(), self._config.address, to, link)
        except OSError as error:
            print_event("error", reason=f"advertisement: {error.strerror}")
            return
        print_event("advertised", to=to, sequence=message.sequence)

    def _from_radio(self) -> None:
        """Answer a solicitation, or process a registration message, that arrived by radio."""
        received = self._radio.receive()
        if received is None:
            return
        packet, link = received
        if packet.protocol == ICMP:
            with contextlib.suppress(MessageError):
                discovery.check_solicitation(packet.payload)
                # RFC 1256 section 4.2: answer only the sender, at once, unless it has no address
                # yet.
                if packet.source == "0.0.0.0":  # noqa: S104 - not to listen at
                    self._send_advertisement(discovery.ALL_SYSTEMS,
                                             multicast_link_address(discovery.ALL_SYSTEMS))
                else:
                    self._send_advertisement(packet.source, link)
            return
        if packet.destination == self._config.address:
            self._dispatch_message(Datagram(packet.payload,
                                            Endpoint(packet.source, packet.source_port, link),
                                            packet.destination, packet.ttl))

    def _from_wire(self) -> None:
        datagram = self._wire.receive()
        if datagram is not None:
            self._dispatch_message(datagram)

    def _dispatch_message(self, datagram: Datagram) -> None:
        """Pass a registration message to the home agent if addressed, else to the foreign agent."""
        now = now_s()
        if datagram.payload[:1] == bytes((packets.REPLY,)):
            if self._foreign and datagram.source.link is None:
                self._perform_effects(self._foreign.from_wire(datagram, now))
        elif datagram.source.link is None or self._is_ours(datagram.payload):
            self._perform_effects(self._home.handle_request(datagram, now))
        elif self._foreign:
            self._perform_effects(self._foreign.from_radio(datagram, now))

    def _is_ours(self, payload: bytes) -> bool:
        try:
            request: packets.Request | None = packets.parse_request(payload)
        except MessageError as error:
            request = error.request
        return request is not None and (request.home_agent == self._config.address
                                        or request.home_address in self._config.home)

    def _perform_effects(self, effects: list[Effect]) -> None:
        """Perform actions in order up to the first failure, so that no success is reported then."""
        for effect in effects:
            try:
                self._perform_effect(effect)
            except OSError as error:
                print_event("error", reason=f"{type(effect).__name__}: {error.strerror}")
                if isinstance(effect, Bind):
                    self._home.forget_binding(effect.home_address)
                    self._kernel.unbind(Unbind(effect.home_address, effect.care_of))
                elif isinstance(effect, Admit) and self._foreign:
                    self._foreign.forget_visitor(effect.home_address)
                    self._kernel.dismiss(Dismiss(effect.home_address))
                return

    def _perform_effect(self, effect: Effect) -> None:
        match effect:
            case DaemonEvent():
                print_event(effect.event, **effect.fields)
            case SendMessage() if effect.to.link is not None:
                self._radio.send_udp(effect, PORT)
            case SendMessage():
                self._wire.send(effect)
            case Bind():
                self._kernel.bind(effect)
            case Unbind():
                self._kernel.unbind(effect)
            case Admit():
                self._kernel.admit(effect)
            case Dismiss():
                self._kernel.dismiss(effect)


def main(arguments: list[str]) -> int:
    """Run the Mobile IP agent until SIGTERM, and return the exit status."""
    return run_daemon(arguments, load_agent_config, AgentProgram, lambda config: {
        "interface": config.interface, "address": config.address})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
