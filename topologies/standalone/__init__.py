"""Common parts of the scripts in topologies/examples, which run on Mininet-WiFi alone."""
