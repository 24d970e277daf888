"""Study of host-to-host security with the Authenticated Datagram Protocol (1987)."""
