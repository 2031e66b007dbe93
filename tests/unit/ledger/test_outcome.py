"""Outcomes of decisions, as they are stored."""

from __future__ import annotations

import pytest

from core.errors import InvalidInputError
from core.ledger.outcome import DecisionOutcome, OutcomeState, approval_part, decode_outcomes, encode_outcomes
from tests.builders import NOW


def test_outcomes_are_read_as_they_were_written() -> None:
    found = [DecisionOutcome(decision="d", part=approval_part("c"), state=OutcomeState.DONE, at=NOW, reason="Approved")]
    assert decode_outcomes(encode_outcomes(found)) == found


def test_an_approval_is_not_the_end_of_its_command() -> None:
    """Otherwise, an approved command would count as carried out, with its saving."""
    assert approval_part("c") != "c"


@pytest.mark.parametrize("raw", [b"", b"{}", b"\xff", b'[{"decision": 1}]'])
def test_what_is_no_outcome_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInputError):
        decode_outcomes(raw)
