"""Authenticast (Schneck and Schwan, 1998): a protocol for signed packet streams over UDP.

Verifying every signature can be too slow for a receiver. So each receiver chooses at run time which
fraction of the packets it verifies.

Terms of all modules:

- scheme: a way to authenticate packets (`settings.Scheme`). A *sealer* is its part at the sender,
  an *opener* its part at the receiver.
- level: the fraction of packets that the receiver verifies. The user permits a range; its lower end
  is the *floor*.
- bundle: a group of packets with a common signature
- shed: to drop packets without verification, which saves processor time
- setting: scheme, algorithm, level, fraction to shed and size of bundles. An *epoch* is all packets
  under one setting, with a number.
- modelled processor: operations take the times that a device file states, instead of the real ones.
  To *charge* an operation is to add its time to the time for which the program has to wait.
- fate: what happened to a packet at the receiver, such as verified or shed. A *verdict* is a packet
  with its fate. A *hole* is a gap between packets that the application gets.
"""
