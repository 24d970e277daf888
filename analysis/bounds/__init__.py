"""What bounded a throughput: ceilings from headers and airtime, and a verdict for every cell."""

from analysis.bounds.arithmetic import arithmetic
from analysis.bounds.ceilings import Ceiling, Path, path
from analysis.bounds.packets import Esp, esp_of
from analysis.bounds.tables import table
from analysis.bounds.verdict import Verdict, judge

__all__ = ["Ceiling", "Esp", "Path", "Verdict", "arithmetic", "esp_of", "judge", "path", "table"]
