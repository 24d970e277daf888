"""The container image: an OCI archive with everything that measuring in embedded guests takes."""
