"""Authentication and Key Agreement of 3G (3GPP TS 33.102): USIM, HSS and EAP keys."""
