"""Study of Authenticast (Schneck and Schwan, 1998), a protocol for signed video streams.

The receivers are too slow to verify every packet. The study measures which fraction they can
verify, and how many packets they lose.

Terms of the study, beyond those of `protocols.authenticast`:

- heuristic: a way to authenticate a stream: what the client requests, and the server's *controller*
  that adapts it. The *blend* is the controller of the 1998 paper.
- load: a disturbance, such as other work on the clients or losses on the wire
- gap (DELTA): number of packets that were sent but not yet read. LIMIT is the gap at which
  heuristics react.
- exposure: time in which a smaller fraction was verified than the user wants
"""
