"""Authentication and key agreement of 3G (3GPP TS 33.102): card, subscriber server, EAP's keys."""
