"""What the scripts of topologies/ have in common: a scenario on Mininet-WiFi, without a harness."""
