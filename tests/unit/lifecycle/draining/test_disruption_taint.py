"""What a leaving node says about why it leaves."""

from __future__ import annotations

import pytest

from core.lifecycle.draining.disruption_taint import REASON_ANNOTATION, lacks_marks, must_leave_for, taint_of
from core.model.values.taints import DISRUPTED
from core.reasons.termination import TerminationReason
from tests.unit.lifecycle.records_for_tests import a_node


@pytest.mark.parametrize(
    ("written", "reason", "after"),
    [
        pytest.param("Drifted", "SpotInterrupted", "SpotInterrupted", id="now it must"),
        pytest.param("SpotInterrupted", "Drifted", "SpotInterrupted", id="it must anyway"),
        pytest.param("Drifted", "Empty", "Drifted", id="the first of our choice"),
    ],
)
def test_a_node_is_marked_with_the_reason_for_which_it_must_go(written: str, reason: str, after: str) -> None:
    """A restored table would have the mark of an earlier drift taken off, and pods on an instance that ends."""
    node = a_node(leaving=True, annotations={REASON_ANNOTATION: written})
    assert lacks_marks(node, reason) == (written != after)
    assert taint_of(node, reason).annotations == {REASON_ANNOTATION: after}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("SpotInterrupted", TerminationReason.SPOT_INTERRUPTED),
        ("Drifted", None),
        ("ReasonOfTomorrow", None),
        ("", None),
    ],
)
def test_only_a_known_reason_that_is_never_called_off_counts(written: str, found: TerminationReason | None) -> None:
    """Marks of a voluntary reason may be those of a command that was given up: its node would be drained for nothing."""
    assert must_leave_for(a_node(leaving=True, annotations={REASON_ANNOTATION: written})) == found


def test_a_reason_counts_only_with_the_taint() -> None:
    """A kubelet may annotate its node; it cannot taint it."""
    node = a_node(annotations={REASON_ANNOTATION: "SpotInterrupted"})
    assert DISRUPTED not in node.taints
    assert must_leave_for(node) is None
