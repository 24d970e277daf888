"""Let a mobile node join a network, and move to another access point (handoff)."""
