"""Schemes, one module each: how a sender seals packets and a receiver opens them."""
