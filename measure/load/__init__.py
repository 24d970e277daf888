"""Load generator for a RADIUS server: it starts complete EAP-TLS authentications on schedule."""
