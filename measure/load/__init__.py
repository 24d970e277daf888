"""Open-loop load generator for a RADIUS server, with complete EAP-TLS authentications."""
