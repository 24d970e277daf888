"""Study of the 2007 paper: the cost of twelve policies, at home and roaming.

The paper is Agarwal and Wang (2007).

docs/glossary.md defines the terms. Some of them:

- handoff: a move of the mobile node to another access point. It is *roaming* after it.
- companion: a further station, which stays at home
- part: a piece of a repetition with captures of its own, such as one authentication
- component: a negotiation that counts as authentication time
"""
