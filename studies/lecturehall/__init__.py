"""A lecture hall at nine o'clock: many stations join one cell and stream at once."""
