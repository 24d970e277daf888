"""Authenticated Datagram Protocol (ADP): host-to-host security below transport.

There are two versions: the protocol of 1987 and a modern one.
"""
