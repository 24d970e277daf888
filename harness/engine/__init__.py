"""The measurement engine: it executes the plan of any study and writes records of the results."""
