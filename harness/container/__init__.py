"""Build the container image of qop: an OCI archive with everything to measure in guests."""
