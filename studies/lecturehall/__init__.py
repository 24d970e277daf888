"""Study of a full lecture hall: many stations join one access point and stream at once."""
