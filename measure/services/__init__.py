"""Daemons as services: each states its needs, starts, reports readiness and stops."""
