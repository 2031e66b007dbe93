"""Steps under guidance."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.pod import DO_NOT_SCHEDULE, TopologySpread
from core.model.values.requirements import Requirement
from core.scheduling.greedy.guided_steps import DomainOrder, GuidedSteps
from tests.builders import ZONES, a_pod, a_selector, a_type
from tests.unit.scheduling.reading import context_of

SPREADING = 14
"""So many groups that numbers of steps meet where they can."""


def _spread(app: str) -> TopologySpread:
    return TopologySpread(labels.ZONE, 1, DO_NOT_SCHEDULE, a_selector(app=app))


def _arch(number: int) -> tuple[Requirement, ...]:
    return (Requirement.one_of(labels.ARCH, "amd64"),) if number % 2 else ()


def test_no_two_steps_share_a_number_whatever_guides_them() -> None:
    """Searches remember answers by the numbers: a pod once got the answer of another pod's step, and an arm64 node."""
    pods = tuple(
        a_pod(f"p{n}", cpu=f"{n + 1}00m", labels={"app": f"x{n}"}, spreads=(_spread(f"x{n}"),), node_selector=_arch(n))
        for n in range(SPREADING)
    )
    context = context_of(types=(a_type(cpu="64"),), pods=pods)
    groups = [context.pod_groups.of(pod) for pod in context.pending]
    barred = [(group.signature.index, labels.ZONE, ZONES[n % 3]) for n, group in enumerate(groups) if n % 2 == 0]
    guide = GuidedSteps(context.table, barred, (), DomainOrder(labels.ZONE, ZONES))
    asked: dict[int, tuple[object, ...]] = {}
    steps = [step for group in groups for step in guide.of(group, 0)]
    assert all(asked.setdefault(step.index, step.alternatives) == step.alternatives for step in steps)
    assert all(step.index < 0 for step in steps)
    assert len(asked) > len(ZONES)


def test_a_pod_that_leaves_a_value_to_others_still_needs_the_label() -> None:
    """`Exists` without one value is `NotIn`, which a node without the label meets: the pod was bound to such a node."""
    pod = a_pod("p", labels={"app": "x"}, node_selector=(Requirement("team"),), spreads=(
        msgspec.structs.replace(_spread("x"), topology_key="team"),))  # fmt: skip
    context = context_of(types=(a_type(cpu="64"),), pods=(pod,))
    (group,) = (context.pod_groups.of(pod) for pod in context.pending)
    (step,) = GuidedSteps(context.table, [(group.signature.index, "team", "y")], ()).of(group, 0)
    (asked,) = step.alternatives
    assert not context.table[asked]["team"].has("y")
    assert context.table.needed(asked) == {"team"}


def test_of_several_turns_of_one_group_the_same_counts_in_every_order() -> None:
    """They come from a set of texts, whose order each process draws: two processes planned 24 and 26 pods without a place."""
    context = context_of(types=(a_type(cpu="64"),), pods=(a_pod("p", labels={"app": "x"}, spreads=(_spread("x"),)),))
    (group,) = (context.pod_groups.of(pod) for pod in context.pending)
    turns = [(group.signature.index, labels.ZONE, zones) for zones in (ZONES, ZONES[1:], ZONES[:1])]
    found = [
        [step.alternatives for step in GuidedSteps(context.table, (), each).of(group, 1)]
        for each in (turns, turns[::-1])
    ]
    assert found[0] == found[1]
