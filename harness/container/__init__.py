"""The container image: an OCI archive that contains everything to measure in guests."""
