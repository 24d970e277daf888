"""The embedded machine: a User-Mode Linux guest and its image. Imports nothing of ours."""
