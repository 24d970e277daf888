"""Attacks on an emulated network: injected and replayed frames, evil twin, guessed passphrases."""
