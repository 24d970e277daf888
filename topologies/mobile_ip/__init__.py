"""Mobile IPv4 as small daemons: home agent, foreign agent and mobile node."""
