"""The paper's tables and the study's own additions, in the order of a report."""

from __future__ import annotations

import numpy as np

from analysis.table import Table
from studies.qop2007.report.basis import Basis
from studies.qop2007.report.deviations import table_deviations
from studies.qop2007.report.protection_tables import table_1, table_2, table_3
from studies.qop2007.report.robustness import table_9
from studies.qop2007.report.time_tables import figure_2, table_4
from studies.qop2007.report.traffic_tables import table_5, table_6, table_7, table_8, table_n2
from studies.qop2007.report.view_tables import table_attacks, table_sensitivity, table_views

#: Seed of the sensitivity analysis, so that reports of equal records are equal.
SEED = 2007


def all_tables(basis: Basis, generator: np.random.Generator | None = None) -> list[Table]:
    """Return Tables 1 to 9, the data of Fig. 2 and additions, but no empty tables.

    The generator draws the weights of the sensitivity analysis. By default it has a fixed seed.
    """
    random = generator or np.random.default_rng(SEED)
    candidates = [table_1(basis), table_2(basis), table_3(basis), table_views(basis),
                  table_sensitivity(basis, random), table_attacks(basis), table_4(basis),
                  figure_2(basis), table_5(basis), table_6(basis), table_7(basis), table_8(basis),
                  table_9(basis), table_9(basis, "udp"), table_n2(), table_deviations()]
    return [table for table in candidates if table.rows]
