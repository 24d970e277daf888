"""Protocols that have no free implementation: logic without sockets, and programs that run it."""
