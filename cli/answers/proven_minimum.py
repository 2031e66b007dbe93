"""Formats the proven minimum of a fleet as data, for the reports that compare costs with it."""

from __future__ import annotations

from datetime import timedelta

from cli.answers import money
from core.api.objects import JsonObject
from core.counterfactual.proven_minimum import ProvenMinimum
from core.model.values.quantity import dollars


def minimum_answer(minimum: ProvenMinimum | None) -> JsonObject | None:
    """Return `provenMinimum`, None if no minimum is proven."""
    if minimum is None:
        return None
    return {
        "dollars": money.amount(dollars(minimum.cost)),
        "spentMeanwhile": money.amount(dollars(minimum.spent)),
        "hours": money.hours(minimum.over / timedelta(hours=1)),
    }
