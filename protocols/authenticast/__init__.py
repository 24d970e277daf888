"""Authenticast (1998): streams whose receivers choose, while they run, how much they verify."""
