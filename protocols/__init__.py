"""Protocols without a free implementation, each as socket-free logic and a thin program."""
