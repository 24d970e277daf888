"""Ceilings from headers and airtime, and a verdict on what bounded a throughput."""

from analysis.bounds.ceilings import Ceiling, Hop, Path
from analysis.bounds.packets import Esp, esp_of
from analysis.bounds.verdict import Verdict, judge

__all__ = ["Ceiling", "Esp", "Hop", "Path", "Verdict", "esp_of", "judge"]
