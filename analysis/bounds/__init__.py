"""Upper bounds of throughput from headers and airtime, and verdicts on the bottleneck."""

from analysis.bounds.ceilings import Ceiling, Hop, Path
from analysis.bounds.packets import Esp, esp_of
from analysis.bounds.verdict import BoundVerdict, judge_bound

__all__ = ["BoundVerdict", "Ceiling", "Esp", "Hop", "Path", "esp_of", "judge_bound"]
