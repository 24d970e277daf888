"""Live page of authenticast1998, with a control for each client's permitted verified fraction.

It shows a running or a recorded run. The 1998 paper calls such a control a security thermostat.
"""
