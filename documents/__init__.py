"""Read the YAML files that users write, with messages about their errors."""
