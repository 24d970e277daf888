"""The engine: it turns a plan of any study into records."""
