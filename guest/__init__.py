"""The guest: a User-Mode Linux machine in which networks are emulated, and its disk image.

This package imports no other package of the project.
"""
