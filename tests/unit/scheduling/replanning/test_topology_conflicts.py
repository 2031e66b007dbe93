"""Waiting pods that keep others from a place by rules along shared domains."""

from __future__ import annotations

from core import labels
from core.model.pod import PodAffinityTerm, TopologySpread
from core.scheduling.replanning.topology_conflicts import conflicts_of
from tests.builders import ZONES, a_pod, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of

TYPE = a_type("m", cpu="8")


def test_pods_follow_those_of_their_affinity_and_are_kept_from_those_of_their_anti_affinity() -> None:
    """Otherwise, variations are tried that change nothing for the pods that wait."""
    near = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    apart = PodAffinityTerm(labels.ZONE, a_selector(app="batch"))
    pods = (
        a_pod("web", affinity=(near,), anti_affinity=(apart,)),
        a_pod("db", labels={"app": "db"}),
        a_pod("batch", labels={"app": "batch"}),
        a_pod("other", labels={"app": "other"}),
    )
    context = context_of(types=(TYPE,), pods=pods)
    number = {name: group_of(context, name).signature.index for name in ("web", "db", "batch", "other")}
    found = conflicts_of(context, group_of(context, "web"), frozenset(number.values()))
    assert found.followed == {labels.ZONE: (number["db"],)}
    assert found.repelled == {labels.ZONE: (number["batch"],)}
    assert found.values == {labels.ZONE: ZONES}
    assert found.signatures == (number["batch"], number["db"])
    assert found.round_robin() == {(number["db"], labels.ZONE, ZONES)}


def test_pods_that_wait_no_more_are_no_conflict() -> None:
    spread = TopologySpread(labels.ZONE, 1, selector=a_selector(app="a"))
    pods = (
        a_pod("one", labels={"app": "a"}, spreads=(spread,)),
        a_pod("two", cpu="2", labels={"app": "a", "v": "2"}),
    )
    context = context_of(types=(TYPE,), pods=pods)
    group = group_of(context, "one")
    found = conflicts_of(context, group, frozenset({group.signature.index}))
    assert (found.signatures, found.repelled, found.followed) == ((), {}, {})
