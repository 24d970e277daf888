"""All tables of a study, in the order in which a report shows them."""

from __future__ import annotations

import numpy as np

from analysis.study.deviations import table_deviations
from analysis.study.model import Study
from analysis.study.protection_tables import table_1, table_2, table_3
from analysis.study.robustness import table_9
from analysis.study.time_tables import figure_2, table_4
from analysis.study.traffic_tables import table_5, table_6, table_7, table_8, table_n2
from analysis.study.view_tables import table_attacks, table_sensitivity, table_views
from analysis.table import Table

#: The seed of the sensitivity analysis: one report of the same records is like the other.
SEED = 2007


def tables(study: Study, generator: np.random.Generator | None = None) -> list[Table]:
    """Tables 1 to 9, the data of Fig. 2, and what stands beside them; empty ones are left out.

    The generator draws the weights of the sensitivity analysis; by default one of a fixed seed.
    """
    random = generator or np.random.default_rng(SEED)
    found = [table_1(study), table_2(study), table_3(study), table_views(study),
             table_sensitivity(study, random), table_attacks(study), table_4(study),
             figure_2(study), table_5(study), table_6(study), table_7(study), table_8(study),
             table_9(study), table_9(study, "udp"), table_n2(), table_deviations()]
    return [table for table in found if table.rows]
