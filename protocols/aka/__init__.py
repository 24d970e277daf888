"""Authentication with SIM cards (AKA, 3GPP TS 33.102): the card, its server (HSS) and EAP keys."""
