"""Toolkit to configure, measure, verify and record one repetition."""
