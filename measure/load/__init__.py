"""Loads an authentication server with complete authentications that arrive whatever it does."""
