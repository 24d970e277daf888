"""EAP-TLS authentications under load: a supplicant in one network, its server in another."""
