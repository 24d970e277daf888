"""Make unmodified daemons take as long for public-key operations as an emulated device.

A library is preloaded into the daemons for that.
"""
