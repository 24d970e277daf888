"""Ceilings from headers and airtime, and a verdict on what bounded a throughput."""

from analysis.bounds.ceilings import Ceiling, Hop, Path
from analysis.bounds.packets import Esp, esp_of
from analysis.bounds.verdict import BoundVerdict, judge

__all__ = ["BoundVerdict", "Ceiling", "Esp", "Hop", "Path", "esp_of", "judge"]
