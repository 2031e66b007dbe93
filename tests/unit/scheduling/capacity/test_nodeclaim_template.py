"""Zone ids and open labels of NodePools: existing nodes have a zone id, new ones cannot be chosen by it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.model.node_pool import NodeClass
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.capacity.nodeclaim_template import any_value, why_unusable
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, places, plan_of

TYPE = a_type("m")
ASKED = Requirement.one_of(labels.ZONE_ID, "use1-az1")


def test_no_node_is_launched_for_a_zone_id() -> None:
    """A node in the wrong zone would be launched, and another one after it, again and again."""
    (entry,) = plan_of(types=(TYPE,), pods=(a_pod("p", node_selector=(ASKED,)),)).unschedulable
    assert entry.reason == PodReason.REQUIREMENT_NOT_MET
    assert labels.ZONE_ID in entry.message


def test_a_node_that_carries_the_zone_id_is_used() -> None:
    """Otherwise, a pod would wait although a node fits."""
    claim, node = a_node_of(TYPE, "n")
    node = msgspec.structs.replace(node, labels={**node.labels, labels.ZONE_ID: "use1-az1"})
    plan = plan_of(types=(TYPE,), nodes=(node,), node_claims=(claim,), pods=(a_pod("p", node_selector=(ASKED,)),))
    assert places(plan) == {"p": "n"}


def test_a_pool_that_requires_a_zone_id_is_told_the_alternative() -> None:
    """Otherwise, its nodes would be labelled with a zone id that is not theirs."""
    (entry,) = plan_of(types=(TYPE,), node_pools=(a_pool("default", ASKED),), pods=(a_pod("p"),)).unschedulable
    assert entry.reason == PodReason.NO_NODE_POOL
    assert f"use {labels.ZONE}" in entry.message


def test_a_pool_says_why_it_launches_nothing() -> None:
    """Otherwise, pods wait for a NodePool that is broken without any report."""
    snapshot = a_snapshot(types=(TYPE,))
    contradiction = a_pool("p", Requirement.one_of("team", "a"), Requirement.one_of("team", "b"))
    assert why_unusable(a_pool("p"), snapshot) == ""
    assert why_unusable(a_pool("p", is_ready=False), snapshot) == "is not ready"
    assert "no value of team" in why_unusable(contradiction, snapshot)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"problem": "spec.weight: 101"}, "is invalid: spec.weight: 101"),
        ({"labels": {"a b": "c"}}, "is invalid: its name, class and labels"),
        ({"deleted_at": NOW}, "is being deleted"),
        ({"own_annotations": {labels.MODE: labels.OBSERVE}}, "is only observed"),
        ({"replicas": 2}, "is static"),
    ],
)
def test_a_pool_that_answers_to_no_pod_says_so(changes: dict[str, Any], why: str) -> None:
    found = why_unusable(a_pool("p", **changes), a_snapshot(types=(TYPE,)))
    assert found.startswith(why)
    assert bool(found) == bool(why)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"is_ready": True}, ""),
        ({"is_ready": False}, "uses EC2NodeClass default, which is not ready"),
        ({"deleted_at": NOW}, "uses EC2NodeClass default, which is being deleted"),
        ({"problem": "spec.role"}, "uses EC2NodeClass default, which is invalid: spec.role"),
    ],
)
def test_a_pool_waits_for_its_class(changes: dict[str, Any], why: str) -> None:
    """A class whose status nobody has written yet is launched from: without that no first node would come."""
    classes = (NodeClass(name="other", problem="no"), NodeClass(name="default", **changes))
    assert why_unusable(a_pool("p"), a_snapshot(types=(TYPE,), node_classes=classes)) == why


def test_an_open_label_gets_the_first_free_value() -> None:
    """Otherwise, two nodes that must differ in it get the same one."""
    assert any_value(Requirement.one_of("team", "a", "b"), ("a",)) == "b"
    assert any_value(Requirement.one_of("team", "a"), ("a",)) is None
    assert any_value(Requirement.of("rack", "Gt", ["3"]), ("4",)) == "5"


@pytest.mark.parametrize("gte", [None, -1, 0, 1, 2])
@pytest.mark.parametrize("lte", [None, 0, 1, 2])
@pytest.mark.parametrize("excluded", [(), ("0",), ("0", "1"), ("1", "2"), ("0", "1", "2")])
@pytest.mark.parametrize("taken", [(), ("0",), ("1",), ("0", "1", "2")])
def test_an_open_label_gets_the_lowest_number_that_is_allowed_and_free(
    gte: int | None, lte: int | None, excluded: tuple[str, ...], taken: tuple[str, ...]
) -> None:
    """By trying all numbers: a value that the NodePool excludes would be a node that it does not own."""
    rack = Requirement("rack", True, excluded, gte=gte, lte=lte)
    free = [n for n in range(9) if str(n) not in {*excluded, *taken}]
    allowed = [n for n in free if (gte is None or n >= gte) and (lte is None or n <= lte)]
    assert any_value(rack, taken) == (str(allowed[0]) if allowed else None)


def test_a_template_below_a_price_has_only_what_costs_less() -> None:
    """Consolidation launches what is cheaper than the nodes that go: of any size, no type may cost as much."""
    types = tuple(a_type(f"m{cpu}", cpu=str(cpu), price=cpu / 10) for cpu in (1, 2, 4, 8, 16))
    context = context_of(types=types, pods=tuple(a_pod(f"p{cpu}", cpu=str(cpu)) for cpu in (1, 2, 4)))
    (template,) = context.templates
    price = min(offering.price for offering in types[3].offerings)
    less = template.below(price)
    assert sorted(less.types.names(less.mask)) == ["m1", "m2", "m4"]
    assert all(size & ~less.mask == 0 for size in less.sizes)
    assert [size & less.mask for size in template.sizes] == list(less.sizes)
    assert template.below(1).mask == 0


def test_a_claim_begins_with_the_smallest_size_that_has_room() -> None:
    """Pods that come later may still join; all types are left where none of the sizes has room."""
    types = tuple(a_type(f"m{cpu}", cpu=str(cpu), price=cpu / 10) for cpu in (2, 4, 8, 16))
    context = context_of(types=types, pods=(a_pod("p", cpu="1"),))
    (template,) = context.templates
    sizes = [template.size_for(context.axis.vector({"cpu": 1000 * cpu, "memory": 1, "pods": 1})) for cpu in (1, 3, 15)]
    for size, cpu in zip(sizes, (1, 3, 15), strict=True):
        assert any(int(name[1:]) >= cpu for name in template.types.names(size))
    assert sizes == sorted(sizes, key=lambda size: max(int(name[1:]) for name in template.types.names(size)))
    assert template.size_for(context.axis.vector({"cpu": 10**9})) == template.mask
