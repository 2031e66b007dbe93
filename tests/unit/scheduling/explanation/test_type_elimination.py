"""Each type is counted once, by the first rule that it fails."""

from __future__ import annotations

from core import labels
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.explanation.type_elimination import TypeElimination
from tests.builders import a_pod, a_type
from tests.unit.scheduling.reading import context_of, group_of


def test_the_last_rule_gives_the_reason_and_the_nearest_miss() -> None:
    """Otherwise, a user corrects the wrong field."""
    types = (a_type("arm", cpu="64", **{labels.ARCH: "arm64"}), a_type("a", cpu="4"), a_type("b", cpu="8"))
    amd64 = (Requirement.one_of(labels.ARCH, "amd64"),)
    context = context_of(types=types, pods=(a_pod("p", cpu="10", node_selector=amd64),))
    (template,), group = context.templates, group_of(context, "p")
    reqs = context.table.narrowed(template.offered, asked=group.steps[0].alternatives[0])
    found = TypeElimination(context, context.plan_constraints(()), template, group, reqs).finding()
    assert (found.reason, found.ruled_out) == (PodReason.NO_OFFERING_FITS, {labels.ARCH: 1, "cpu": 2})
    assert found.nearest == "b lacks 2 cpu"
