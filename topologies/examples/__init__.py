"""Scenarios as scripts that run on Mininet-WiFi alone, without the rest of qop."""
