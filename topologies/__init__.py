"""Emulated networks: their description as data, and the code that builds them on Mininet."""
