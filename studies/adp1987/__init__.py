"""Study of ADP, the Authenticated Datagram Protocol of 1987, which protects messages between hosts.

It repeats the measurements of the report by Anderson, Ferrari, Rangan and Sartirana (1987):
throughput, and latency of urgent messages. Real programs exchange messages in a test network.
Messages that are not urgent wait, so that one datagram carries several.

Terms of the study, beyond those of `protocols.adp`:

- trace: a list of messages with times, sizes and urgency. An *urgent* message does not wait for
  others.
- phase: a part of a repetition: `proof`, `latency` or `throughput` (see `workload`). A phase is
  *paced* if messages are sent at their own times.
- scope: encryption of a datagram, as in the paper: NE (none), PE (trailer) or FE (all)
- shipment: a sent datagram, with one or more messages. A *head* is its captured header.
- alpha, beta: the sending and the receiving host, also called source and sink. Host mid is the
  attacker's (Mallory).
- carrier: what carries messages between hosts: ADP or UDP
"""
