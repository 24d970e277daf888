"""Fail repetitions that lack a required metric, whatever their judge returns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from studies.parts import Judged, Repetition

if TYPE_CHECKING:
    from studies.study import Study

_NO_CAUSE = "nothing that the repetition left has a value for it"


def judge_repetition(study: Study, repetition: Repetition) -> Judged:
    """Judge a repetition, and fail it with a cause if a required metric is missing.

    Under a negative control no metric is required, because the control may suppress metrics.

    Args:
        study: The study of the repetition.
        repetition: The repetition to judge.

    Returns:
        The result of the study's judge; "failed" if a required metric is missing.

    Raises:
        Exception: Any exception of the study's own judge.
    """
    verdict = study.judge(repetition)
    if verdict.status != "ok" or verdict.reason or repetition.fault:
        return verdict
    lacking = list(_missing_metrics(study, repetition, verdict))
    return replace(verdict, status="failed", reason="; ".join(lacking)) if lacking else verdict


def _missing_metrics(study: Study, repetition: Repetition, verdict: Judged) -> Iterator[str]:
    """Generate a reason for each required metric that is absent, null or no finite number."""
    try:
        row: Mapping[str, Any] = {} if verdict.measured is None else study.values(verdict.measured)
    except Exception as error:  # noqa: BLE001 - a study's own code may raise anything
        yield f"not measured: the study cannot say what its values are ({error!r})"
        return
    for metric in study.required_metrics(repetition.cell, repetition.asked, repetition.clock):
        if not is_measured(row.get(metric.name)):
            yield f"not measured: {metric.title} ({verdict.causes.get(metric.name, _NO_CAUSE)})"


def is_measured(value: object) -> bool:
    """Return whether a value is a finite number."""
    return (isinstance(value, int | float) and not isinstance(value, bool)
            and math.isfinite(value))
