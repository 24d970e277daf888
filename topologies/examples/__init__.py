"""Scenarios as scripts on Mininet-WiFi's API. Each can be started by itself."""
