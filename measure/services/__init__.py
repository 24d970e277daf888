"""Daemons as services: each knows what it needs, starts, says when it is ready, and stops."""
