"""Start and control the daemons of a testbed, such as hostapd, FreeRADIUS and charon.

A site is a running testbed with its settings (`Site`).
"""
