"""Protocols that nobody else implements, each a core without sockets and a thin program."""
