"""Checks of adp1987: prove from packet captures that messages were protected and sent in time."""
