"""Live pages: web pages on this machine that show and steer a run.

The content of a page belongs to its study.
"""
