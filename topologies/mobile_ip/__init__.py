"""Mobile IPv4 on the wire: home agent, foreign agent and mobile node as small daemons."""
