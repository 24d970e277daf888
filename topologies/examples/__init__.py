"""Scenarios as scripts on Mininet-WiFi's own API, each to be started by itself."""
