"""Authentication schemes of Authenticast streams, one per module.

A scheme says how the sender signs packets, and how the receiver verifies them.
`protocols.authenticast` lists the terms.
"""
