"""Measure one repetition of any study in an emulated network, from starting daemons to its record.

A study says what is measured. A repetition is one measurement, and its record is a JSON file with
values and checks. The subpackages run daemons and measure in the guest (the network's virtual
machine), or check the captures on the host. Terms that they use:

- testbed: the started network of a policy. A *site* is a testbed with the settings of its run
  (`agent.workload.Site`).
- session: receives time stamps and raw values of a repetition (`agent.workload.Session`)
- part, point: a capture's name has the part of the repetition and the point of the network, such as
  `auth-air`
- attachment: the time that a mobile node spends at one access point
- companion: a further station, which stays at home
- duty: what a node is for, such as access point or home agent
- control: a fault that takes one protection away on purpose

docs/glossary.md defines all terms.
"""
