"""Quality of protection: sigma, its sensitivity to the weights and dominance."""

from __future__ import annotations

from analysis.protection.score import Score, group_of, score, scores
from analysis.protection.sensitivity import Sensitivity, sensitivity

__all__ = ["Score", "Sensitivity", "group_of", "score", "scores", "sensitivity"]
