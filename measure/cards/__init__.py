"""Measure logins and roams with 802.11 cards of this machine, and restore the cards afterwards.

`wireless` reads and changes the state of a card, `users` finds programs that use it, `borrowing`
restores it, `station` logs in and roams, and `results` makes the record. These modules run on the
machine that has the card, as root.
"""
