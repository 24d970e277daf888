"""The thermostat: a page with a dial for each client, for a run that lasts or is recorded."""
