"""The proven minimum in reports."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cli.answers.proven_minimum import minimum_answer
from cli.schemas.period import MinimumAnswer
from core.counterfactual.proven_minimum import ProvenMinimum


def test_a_minimum_is_compared_with_what_was_spent_in_the_same_time() -> None:
    """Otherwise, an hour's minimum stands beside a week's cost."""
    found = minimum_answer(ProvenMinimum(cost=1_250_000_000, spent=2_000_000_000, over=timedelta(minutes=90)))
    assert msgspec.convert(found, MinimumAnswer) == MinimumAnswer(dollars=1.25, spent_meanwhile=2.0, hours=1.5)


def test_without_a_proof_there_is_none() -> None:
    assert minimum_answer(None) is None


def test_dollars_have_six_digits_and_hours_four() -> None:
    found = minimum_answer(ProvenMinimum(cost=1_234_567_891, spent=2_000_000_449, over=timedelta(hours=1) / 3))
    assert found == {"dollars": 1.234568, "spentMeanwhile": 2.0, "hours": 0.3333}
