"""Schemes: how a sender seals packets and how a receiver opens them, one module each."""
