"""Authenticast (1998): streams whose receivers choose at run time how many packets to verify."""
