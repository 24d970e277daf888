"""The files of a results folder: records (one per repetition) and the plan (manifest)."""
