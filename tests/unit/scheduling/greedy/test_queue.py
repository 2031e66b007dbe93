"""The order in which pods get their places."""

from __future__ import annotations

from datetime import timedelta

from core.scheduling.greedy.queue import least_of, least_requests_from, queue_of
from tests.builders import NOW, a_pod, a_type
from tests.unit.scheduling.reading import context_of


def test_the_largest_first_then_the_oldest_and_equal_pods_together() -> None:
    """Otherwise, small pods fill the nodes that large ones need, and the order depends on the listing."""
    pods = (
        a_pod("young", cpu="1", created_at=NOW - timedelta(minutes=1)),
        a_pod("wide", cpu="1", memory="2Gi"),
        a_pod("large", cpu="2"),
        a_pod("old", cpu="1", created_at=NOW - timedelta(minutes=5)),
    )
    context = context_of(types=(a_type(),), pods=pods)
    queue = queue_of(context, [(context.pending, False)])
    assert [[pod.name for pod in group.pods] for group in queue] == [["large"], ["wide"], ["old", "young"]]
    cpu = context.axis.names.index("cpu")
    assert [least[cpu] for least in least_requests_from(queue)] == [1000, 1000, 1000]


def test_pods_that_may_not_use_resting_nodes_form_their_own_group() -> None:
    """Otherwise, consolidation moves pods onto a node that must rest."""
    context = context_of(types=(a_type(),), pods=(a_pod("a"), a_pod("b")))
    first, second = context.pending
    queue = queue_of(context, [((first,), False), ((second,), True)])
    assert [group.avoids_recently_changed for group in queue] == [False, True]
    assert queue[0].pod_group is queue[1].pod_group


def test_pods_that_a_target_moves_form_their_own_group() -> None:
    """Otherwise, equal pods of both kinds get places in the order of their age: pods that wait in any case come first."""
    context = context_of(types=(a_type(),), pods=(a_pod("a"), a_pod("b")))
    queue = queue_of(context, [(context.pending, False)], {"default/b"})
    assert [([pod.name for pod in group.pods], group.is_displaced) for group in queue] == [
        (["a"], False),
        (["b"], True),
    ]


def test_pods_that_a_pinned_context_releases_are_marked() -> None:
    """They are placed once all pods that keep their domains are counted there."""
    context = context_of(types=(a_type(),), pods=(a_pod("a"), a_pod("b", cpu="2")))
    assert not any(group.is_released for group in queue_of(context, [(context.pending, False)]))
    context.released = frozenset({"default/b"})
    queue = queue_of(context, [(context.pending, False)])
    assert {group.pods[0].name: group.is_released for group in queue} == {"a": False, "b": True}


def test_an_absent_bound_does_not_bound() -> None:
    """Otherwise, the last pod of a queue is compared with nothing."""
    assert (least_of((3, 4), None), least_of((3, 4), (4, 1))) == ((3, 4), (3, 1))
