"""Study of EAP-TLS authentications under load, with the RADIUS server in another network."""
