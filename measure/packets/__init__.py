"""Parse and decrypt frames and messages in captures, and find their keys."""
