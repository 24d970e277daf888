"""A lecture hall at nine o'clock: many stations get onto one cell, and stream, all at once."""
