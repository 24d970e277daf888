#!/usr/bin/env python3
"""Run scenario N1, N2 or N3: stations stay at their home access points and talk to a peer.

This example for users creates the network with Mininet-WiFi, starts hostapd, wpa_supplicant and
Mobile IP, and pings the peer. In N1, two stations of one subnet talk through their home agent, so
every packet passes the air twice: the access point does not let them talk directly (`ap_isolate`).
In N2, a station talks to its home agent. In N3, the stations are in two subnets, and their packets
pass both home agents and the router between them.

    sudo python3 topologies/examples/at_home.py N1           ping, then Mininet's command line
    sudo python3 topologies/examples/at_home.py N1 --plot    with Mininet-WiFi's plot
    sudo python3 topologies/examples/at_home.py N1 --no-cli  ping, and end
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

    scenario = load_scenario(args.scenario)
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
            movement.save_plot(net, f"{scenario.id}.png")

            if args.cli:
                info("*** Running CLI\n")
                CLI(net)
    return done


if __name__ == "__main__":
    sys.exit(command_line.main(run_scenario, __doc__, ("N1", "N2", "N3")))
