#!/usr/bin/env python3
"""Run scenario N3: stations of two subnets talk to each other, each at home.

This example for users creates the network with Mininet-WiFi, starts hostapd, wpa_supplicant and
Mobile IP, and pings the peer. Station a2 in subnet A talks to b1 in subnet B, each at its own
access point. Their packets pass both home agents and the router between them.

    sudo python3 topologies/examples/two_subnets.py           ping, then Mininet's command line
    sudo python3 topologies/examples/two_subnets.py --plot    with Mininet-WiFi's plot
    sudo python3 topologies/examples/two_subnets.py --no-cli  ping, and end
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if not __package__:  # started as a file: the imports are in the checkout
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from topologies.standalone import command_line


def run_scenario(args: argparse.Namespace) -> bool:
    """Create the network, and return whether the peer answers."""
    from mininet.log import info
    from mn_wifi.cli import CLI
    from mn_wifi.net import Mininet_wifi

    from topologies.loader import load_scenario
    from topologies.standalone import daemons, movement, network

    scenario = load_scenario("N3")
    plan = scenario.network
    net = Mininet_wifi(controller=None, accessPoint=network.StandaloneAccessPoint,
                        allAutoAssociation=False)
    with network.remove_at_end(net):
        info("*** Creating nodes\n")
        for name in plan.of_duty("station"):
            net.addStation(name, **network.wireless_parameters(plan, name))
        for name in plan.of_duty("access_point"):
            net.addAccessPoint(name, **network.wireless_parameters(plan, name))
        for name in network.wired_nodes(plan):
            net.addHost(name, ip=None)

        info("*** Configuring propagation model\n")
        net.setPropagationModel(model="logDistance", exp=4)

        info("*** Configuring nodes\n")
        net.configureNodes()

        info("*** Creating links\n")
        network.add_links(net, plan)
        network.add_addresses(net, plan)

        if args.plot:
            net.plotGraph(max_x=200, min_y=-20, max_y=120)

        info("*** Starting daemons\n")
        with movement.follow_station(net, scenario), daemons.run_daemons(net, scenario) as stations:
            info("*** Starting network\n")
            movement.start_network(net)
            done = movement.watch_station(net, scenario, stations[scenario.mobile_node])
            movement.save_plot(net, "N3.png")

            if args.cli:
                info("*** Running CLI\n")
                CLI(net)
    return done


if __name__ == "__main__":
    sys.exit(command_line.main(run_scenario, __doc__))
