"""What measures and breaks the harness itself."""
