"""Study of EAP-TLS under load: a station and other clients authenticate at one RADIUS server.

The server is in another network than the station. The study measures how long an authentication
takes.

Terms of the study:

- station: the mobile node whose authentication times are measured
- background: the authentications of other clients, which a load generator starts at random times.
  An authentication is *due* at its planned time. The *journal* is the generator's log.
- alone: a single client of the generator, without other load
- saturation: several clients, so that the server always has work. Their rate is the server's
  *capacity*.
- resumed session: a TLS session that continues an earlier one, without public-key operations
- calibration: values before and after the load, from which the queueing model gets its inputs
"""
