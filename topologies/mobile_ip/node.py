"""Run a Mobile IP mobile node on a node of an emulated network.

The command is `python3 -m topologies.mobile_ip.node CONFIG.json`. `mobile_node` has the logic: it
takes received messages and returns effects (actions on sockets and kernel). This program receives
the messages, performs the effects, and prints events as JSON lines. Commands on standard input say
when the link is attached or detached, and end the program.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from typing import Any

from topologies.mobile_ip import discovery
from topologies.mobile_ip.daemon import (
    DaemonLoop,
    NodeConfig,
    load_node_config,
    now_s,
    print_event,
    run_daemon,
)
from topologies.mobile_ip.effects import DaemonEvent, Effect, SendMessage, Solicit, UseAgent
from topologies.mobile_ip.ipv4 import ICMP, multicast_link_address
from topologies.mobile_ip.kernel import NodeKernel
from topologies.mobile_ip.link import Radio, UdpRegistration
from topologies.mobile_ip.mobile_node import MobileNode, NodePolicy
from topologies.mobile_ip.packets import MessageError


class MobileNodeProgram:
    """A mobile node: it connects sockets, kernel and commands with the mobile node's logic."""

    def __init__(self, config: NodeConfig, loop: DaemonLoop) -> None:
        self._config = config
        self._loop = loop
        # The bits of an Identification below the clock's precision shall be unpredictable.
        noise = random.SystemRandom()
        self._logic = MobileNode(NodePolicy(
            config.home_address, config.home_agent, config.association, config.lifetime_s,
            config.by_event, config.reverse_tunnel, config.retry_s, config.deadline_s,
            config.foreign_agents),
            lambda: noise.getrandbits(10), config.clock_offset_s)
        self._placeholder = UdpRegistration(0, ignored_interface=config.interface)
        self._port = self._placeholder.port
        self._radio = Radio(config.interface, discovery.ADVERTISEMENT, self._port)
        self._kernel = NodeKernel(config.interface, config.home_address,
                                  self._radio.link_address, self._radio.claim_address)
        self._input = _Commands(self._handle_command, loop)
        loop.watch(self._radio, self._from_radio)
        loop.watch(self._placeholder, self._placeholder.receive)
        loop.watch(self._input, self._input.read)

    def start(self) -> None:
        """Prepare the kernel for the mobile node's address and routes."""
        self._kernel.start()

    def stop(self) -> None:
        """Undo the mobile node's changes to the kernel."""
        self._kernel.stop()
        self._radio.close()
        self._placeholder.close()

    def deadline_s(self) -> float | None:
        """Return when `tick` must be called next."""
        return self._logic.deadline_s()

    def tick(self, now: float) -> None:
        """Do all work that is due now, such as a retransmission."""
        self._perform_effects(self._logic.tick(now))

    def _handle_command(self, command: dict[str, Any]) -> None:
        match command.get("do"):
            case "attached":
                self._perform_effects(self._logic.handle_attach(now_s()))
            case "detached":
                self._perform_effects(self._logic.handle_detach())
            case "stop":
                self._loop.end()
            case other:
                print_event("error", reason=f"unknown command {other!r}")

    def _from_radio(self) -> None:
        received = self._radio.receive()
        if received is None:
            return
        packet, link = received
        if packet.protocol != ICMP:
            if packet.destination == self._config.home_address:
                self._perform_effects(self._logic.handle_reply(packet.payload, now_s()))
            return
        try:
            offer = discovery.parse_advertisement(packet.payload)
        except MessageError:
            return
        self._perform_effects(self._logic.handle_advertisement(offer, packet.source, link, now_s()))

    def _perform_effects(self, effects: list[Effect]) -> None:
        for effect in effects:
            try:
                self._perform_effect(effect)
            except OSError as error:
                # The link may be down: retransmissions and the deadline handle that.
                print_event("error", reason=f"{type(effect).__name__}: {error.strerror}")

    def _perform_effect(self, effect: Effect) -> None:
        match effect:
            case DaemonEvent():
                print_event(effect.event, **effect.fields)
            case SendMessage():
                self._radio.send_udp(effect, self._port)
            case Solicit():
                self._radio.send_icmp(discovery.encode_solicitation(), self._config.home_address,
                                      discovery.ALL_ROUTERS,
                                      multicast_link_address(discovery.ALL_ROUTERS))
            case UseAgent():
                self._kernel.use_agent(effect)


class _Commands:
    """The reader of commands as JSON lines on standard input. Its end means stop."""

    def __init__(self, act: Callable[[dict[str, Any]], None], loop: DaemonLoop) -> None:
        self._act = act
        self._loop = loop
        self._buffer = b""

    def fileno(self) -> int:
        """Return the descriptor of standard input."""
        return 0

    def read(self) -> None:
        """Read the available input, and execute every complete command line."""
        data = os.read(0, 65536)
        if not data:
            self._loop.end()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in filter(None, lines):
            try:
                command = json.loads(line)
            except ValueError:
                command = None
            if isinstance(command, dict):
                self._act(command)
            else:
                print_event("error", reason="a command is a JSON object on a line of its own")


def main(arguments: list[str]) -> int:
    """Run the mobile node until `stop`, the end of input or SIGTERM, and return the exit status."""
    return run_daemon(arguments, load_node_config, MobileNodeProgram, lambda config: {
        "interface": config.interface, "home_address": config.home_address})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
