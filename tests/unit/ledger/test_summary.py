"""A decision in one sentence."""

from __future__ import annotations

import pytest

from core.ledger.summary import command_sentence, observed, of_disruption, of_provisioning
from core.model.plan import Blocked, Command, DisruptionPlan
from core.reasons.claim import ClaimReason
from tests.builders import NOW

GOES = Command(reason="Empty", method="emptiness", nodes=("a", "b"), claims=("ca", "cb"), savings=5)


@pytest.mark.parametrize(
    ("bindings", "refused", "what", "reason"),
    [
        ((), (), "nothing to do", ""),
        ((("shop/a", "n"),), (), "1 pod", ClaimReason.FITS_EXISTING),
        ((("shop/a", "n"),), (("shop/b", "NoOffering"), ("shop/c", "LimitReached")), "2 pods", "LimitReached"),
    ],
)
def test_a_plan_without_launches_says_what_becomes_of_its_pods(
    bindings: tuple[tuple[str, str], ...], refused: tuple[tuple[str, str], ...], what: str, reason: str
) -> None:
    found = of_provisioning((), bindings, refused)
    assert (what in found.what, found.reason) == (True, reason)
    assert (found.bindings, found.refused) == (bindings, refused)


def test_commands_that_wait_are_proposed_and_save_nothing_yet() -> None:
    found = of_disruption(DisruptionPlan(now=NOW), [("one", GOES)], [("two", GOES, "more than ten nodes")])
    assert found.what == "remove a, b; propose to remove a, b"
    assert [(part.id, part.hourly, part.waits) for part in found.parts] == [
        ("one", -5, ""),
        ("two", -5, "more than ten nodes"),
    ]
    assert observed(found).what == "only observed: remove a, b; propose to remove a, b"


def test_nodes_that_stay_have_their_most_common_reason() -> None:
    plan = DisruptionPlan(
        now=NOW,
        blocked=tuple(Blocked(name, why, "") for name, why in (("a", "Y"), ("b", "X"), ("c", "X"))),
    )
    found = of_disruption(plan, [])
    assert (found.what, found.reason) == ("3 nodes stay", "X")


def test_a_command_without_replacements_removes() -> None:
    assert command_sentence(GOES) == "remove a, b"
