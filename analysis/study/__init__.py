"""The study of the 2007 paper: its tables and its figure, from records or from what it printed.

study = analysis.study.measured(results)          # or analysis.study.published()
tables = analysis.study.tables(study)             # Tables 1 to 9, Fig. 2 and the views beside
"""

from __future__ import annotations

from analysis.study.measured import measured
from analysis.study.model import Observation, Place, Profile, Study
from analysis.study.printed import published
from analysis.study.tables import tables

__all__ = ["Observation", "Place", "Profile", "Study", "measured", "published", "tables"]
