"""Live pages: web pages on this machine that show and steer a running measurement.

The content of a page belongs to its study.
"""
