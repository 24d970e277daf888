"""Common parts of the scripts in topologies/examples: a scenario on Mininet-WiFi alone."""
