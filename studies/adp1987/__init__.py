"""The 1987 study of host-to-host security: the Authenticated Datagram Protocol."""
