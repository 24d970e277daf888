"""Quality of protection: sigma, its sensitivity to the weights and dominance."""

from __future__ import annotations

from analysis.protection.score import Score, group_of, score_policies, score_policy
from analysis.protection.sensitivity import Sensitivity, rank_sensitivity

__all__ = ["Score", "Sensitivity", "group_of", "rank_sensitivity", "score_policies", "score_policy"]
