"""Authenticated Datagram Protocol: host to host, below transport, as of 1987 and modernised."""
