"""Authenticated Datagram Protocol (ADP): secure messages between hosts, below the transport layer.

The study `adp1987` measures it. There are two versions: the protocol of the 1987 report by
Anderson, Ferrari, Rangan and Sartirana (Berkeley), and the modern version, with today's
cryptography.

Terms of all modules (docs/adp.md has more):

- owner: a user or service with a name and a key pair. A *kernel owner* represents a host itself.
- channel: the secure connection of two hosts. The *initiator* requests it, the *acceptor* is the
  other end.
- session: the time from the start of a host's program to its end, named by a random number
- frame: the fields of a datagram in clear. The rest is *sealed*: signatures, confirmations and
  messages. The *trailer* is at its end.
- scope: how much of a datagram is encrypted: nothing, the trailer, or all
- challenge: the random number that owners sign in the version of 1987
- suite: the cryptography of one version
- modelled processor: operations take the times that a device file states, instead of the real ones.
  To *charge* an operation is to add its time to the time for which the program has to wait.
"""
