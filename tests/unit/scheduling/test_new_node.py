"""Zone ids and open labels of NodePools: existing nodes have a zone id, new ones cannot be chosen by it."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import msgspec
import pytest

from core import labels
from core.model.catalogue import PRICE_SHARE
from core.model.node_pool import NodeClass
from core.model.plan import Plan
from core.model.state_node import state_nodes
from core.model.values import quantity
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement
from core.reasons.code import Refusal
from core.reasons.pods import (
    BEING_DELETED,
    IS_STATIC,
    NOT_READY,
    ONLY_OBSERVED,
    ClassBeingDeleted,
    ClassInvalid,
    ClassNotReady,
    PodReason,
    PoolContradicts,
    PoolInvalid,
    PoolLabelsInvalid,
)
from core.scheduling import schedule
from core.scheduling.new_node import (
    ClaimDraft,
    ClaimIndex,
    ClaimProfiles,
    InFlightClaim,
    RemainingLimits,
    RoomLevels,
    any_value,
    copies,
    largest_amount,
    room_of,
    sizes_of,
    used_by_pool,
    why_unusable,
)
from core.scheduling.planner import Planner
from core.scheduling.primitives import IMPOSSIBLE, NO_TYPES, TypeMask
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, group_of, places, plan_of

# A claim while it is tried.


def test_a_draft_is_possible_while_a_type_with_enough_room_is_left() -> None:
    """Otherwise, a node is opened that holds no pod."""
    context = context_of(types=(a_type("a", cpu="4", zones=ZONES[:1]),), pods=(a_pod("p", cpu="3"),))
    (template,), requests = context.templates, group_of(context, "p").requests
    draft = ClaimDraft(template, template.offered, template.mask, requests)
    assert draft.is_possible
    assert not draft.restricted_to(NO_TYPES).is_possible
    assert not draft.narrowed(IMPOSSIBLE).is_possible
    assert draft.narrowed(IMPOSSIBLE).price > draft.price
    elsewhere = context.table.with_value(draft.reqs, labels.ZONE, ZONES[1])
    assert not draft.narrowed(elsewhere).is_possible
    assert draft.with_min_values({labels.INSTANCE_TYPE: 2}).missing_values() == {labels.INSTANCE_TYPE: 1}
    assert draft.with_min_values({labels.INSTANCE_TYPE: 2}).without_min_values().missing_values() == {}


# Claims as bit sets, by number of pods and by profile.


def test_sets_follow_the_changes_of_claims() -> None:
    """Otherwise, a search tries full claims, or misses open ones."""
    (template,) = context_of(types=(a_type("a"), a_type("b"))).templates
    profiles, index = ClaimProfiles(), ClaimIndex()
    wide, narrow = (profiles.of(template, template.offered, TypeMask(mask)) for mask in (0b11, 0b01))
    assert profiles.of(template, template.offered, TypeMask(0b11)) is wide
    for _ in range(3):
        index.add(wide)
    index.add_pod(1, 0)
    index.change_profile(2, narrow)
    index.close(0)
    assert (wide.claims, narrow.claims) == (0b011, 0b100)
    assert (index.by_count, index.open) == ({0: 0b101, 1: 0b010}, 0b110)


def test_no_set_of_claims_with_equal_numbers_of_pods_is_empty() -> None:
    """A search goes through all of them for each pod, and a node may hold a thousand pods."""
    (template,) = context_of(types=(a_type("a"),)).templates
    index = ClaimIndex()
    for _ in range(3):
        index.add(ClaimProfiles().of(template, template.offered, TypeMask(1)))
    numbers = [0, 0, 0]
    for claim in (1, 1, 1, 0, 0, 0, 0, 2):
        index.add_pod(claim, numbers[claim])
        numbers[claim] += 1
        expected = {pods: sum(1 << n for n in range(3) if numbers[n] == pods) for pods in sorted(set(numbers))}
        assert (index.by_count, index.counts) == (expected, list(expected))


def test_levels_of_room_rule_out_no_claim_with_room_and_nearly_all_without() -> None:
    """Ten thousand pods of different sizes would each look at every claim; a claim ruled out wrongly is one too many."""
    drawn = Random(0)  # noqa: S311 - not for secrets
    (template,) = context_of(types=(a_type("a", cpu="64", memory="256Gi"),), pods=(a_pod(),)).templates
    profiles, levels, claims = ClaimProfiles(), RoomLevels(), list[InFlightClaim]()
    profile = profiles.of(template, template.offered, template.mask)
    (most,) = template.types.room.vectors
    for turn in range(400):
        if turn % 4 == 0:
            claims.append(InFlightClaim(len(claims), template, profile.reqs, profile.allowed, (0,) * len(most)))
        claim = drawn.choice(claims) if turn % 4 else claims[-1]
        claim.used = tuple(drawn.randint(used, room) for used, room in zip(claim.used, most, strict=True))
        levels.change(claim.index)
        asked = (drawn.randint(0, most[0]), drawn.randint(0, most[1]), *(0 for _ in most[2:]))
        lacking = levels.lacking(asked, claims, [profile] * len(claims))
        shares = [min(((most[k] - c.used[k]) / asked[k] for k in (0, 1) if asked[k]), default=1.0) for c in claims]
        for share, tried in zip(shares, claims, strict=True):
            is_out = bool(lacking >> tried.index & 1)
            assert is_out <= (share < 1), (turn, tried.index)
            assert is_out >= (share < 15 / 16), (turn, tried.index)


# Constraints that many claims share.


WIDE, TALL = a_type("wide", cpu="16", memory="16Gi"), a_type("tall", cpu="4", memory="64Gi")


def test_equal_constraints_are_one_profile() -> None:
    """Otherwise, a pod that one claim refuses is tried on each of its like."""
    (template,) = context_of(types=(WIDE, TALL), pods=(a_pod(),)).templates
    profiles = ClaimProfiles()
    whole = profiles.of(template, template.offered, template.mask)
    assert profiles.of(template, template.offered, template.mask) is whole
    none = profiles.of(template, template.offered, NO_TYPES)
    assert (whole.index, none.index) == (0, 1)
    assert (whole.mask, none.mask) == (template.mask, NO_TYPES)


def test_a_profile_holds_what_one_of_its_types_holds_alone() -> None:
    """The largest CPU and the largest memory of two types are on no machine."""
    context = context_of(types=(WIDE, TALL), pods=(a_pod(),))
    (template,) = context.templates
    profile = ClaimProfiles().of(template, template.offered, template.mask)
    for cpu, memory in product((1, 4, 5, 16, 17), (1, 16, 17, 64, 65)):
        fits = (cpu <= 16 and memory <= 16) or (cpu <= 4 and memory <= 64)
        total = context.axis.vector({"cpu": cpu * 1000, "memory": memory * 2**30, "pods": 1})
        assert profile.holds(total) == fits


# What a claim costs while it fills.


SMALL, LARGE = a_type("small", cpu="2", price=0.1), a_type("large", cpu="8", price=0.4)


def test_a_claim_costs_its_cheapest_type_with_room_for_its_pods() -> None:
    """Otherwise, repacking compares plans by prices that no launch has."""
    context = context_of(types=(SMALL, LARGE), pods=(a_pod("p"),))
    (template,) = context.templates
    claim = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    assert claim.price == 40_000_000
    claim.used = context.axis.vector({"cpu": 3000, "memory": 2**30, "pods": 1})
    assert claim.price == 160_000_000
    claim.commitment = "reserved"
    assert claim.price == -(-160_000_000 // PRICE_SHARE)


def test_its_signatures_are_those_of_its_pods_in_order() -> None:
    pods = (a_pod("a", labels={"app": "a"}), a_pod("b", cpu="2"))
    context = context_of(types=(LARGE,), pods=pods)
    (template,) = context.templates
    claim = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    groups = [group_of(context, name) for name in ("b", "a", "b")]
    for pod, group in zip((pods[1], pods[0], pods[1]), groups, strict=True):
        claim.add_pod(pod, group)
    assert claim.signatures == [group.signature for group in groups]


# Amounts under a NodePool's limits.


def test_what_is_charged_is_refunded() -> None:
    """Otherwise, a plan under tight limits loses room for good."""
    (template,) = context_of(types=(a_type("a", cpu="4"), a_type("b", cpu="8")), node_pools=(a_pool(),)).templates
    limits = RemainingLimits({"cpu": 9_000, quantity.NODES: 2})
    limits.charge(template.types, TypeMask(0b11))
    assert limits.left == {"cpu": 1_000, quantity.NODES: 1}
    assert largest_amount(template.types, TypeMask(0b01), "cpu") == 4_000
    assert limits.mask(template.types, TypeMask(0b11)) == 0
    limits.refund(template.types, TypeMask(0b11))
    assert limits.left == {"cpu": 9_000, quantity.NODES: 2}
    assert limits.mask(template.types, TypeMask(0b11)) == 0b11


def test_a_pool_over_one_of_its_limits_launches_nothing_that_has_none_of_it_either() -> None:
    """Karpenter: whatever is exceeded, the pool launches no more; a limit may be lowered below what runs."""
    (template,) = context_of(types=(a_type("a", cpu="4"),), node_pools=(a_pool(),)).templates
    for exceeded in ("cpu", "nvidia.com/gpu", quantity.NODES):
        limits = RemainingLimits(room_of({"cpu": 10_000, exceeded: 1}, {exceeded: 2}))
        assert limits.mask(template.types, TypeMask(0b1)) == 0, exceeded
    assert RemainingLimits({"cpu": 10_000}).mask(template.types, TypeMask(0b1)) == 0b1


def test_node_pools_of_a_group_share_its_limits() -> None:
    """The least of what remains holds; copies share among themselves what the originals share, and nothing with these."""
    (template,) = context_of(types=(a_type("a", cpu="4"), a_type("b", cpu="8")), node_pools=(a_pool(),)).templates
    group = {"cpu": 10_000}
    first, second = (
        RemainingLimits({quantity.NODES: 5}, {"team": group}),
        RemainingLimits({"cpu": 9_000}, {"team": group}),
    )
    other, _ = copies((first, second))
    first.charge(template.types, TypeMask(0b01))
    assert (first.left, second.left) == ({"cpu": 6_000, quantity.NODES: 4}, {"cpu": 6_000})
    assert (first.binding("cpu"), first.binding(quantity.NODES)) == ("team", "")
    assert second.mask(template.types, TypeMask(0b11)) == 0b01
    assert other.left == {"cpu": 10_000, quantity.NODES: 5}


def test_a_plan_keeps_within_limits_that_node_pools_share() -> None:
    """Both NodePools together get what the group may have, running nodes included; the lowest amount that one names counts."""
    claim, node = a_node_of(a_type("a", cpu="4"))
    zones = [Requirement.one_of(labels.ZONE, zone) for zone in ZONES[:2]]
    pods = tuple(
        a_pod(f"p{index}", requests={"cpu": 3_000, "pods": 1}, node_selector=(zones[index % 2],)) for index in range(6)
    )

    def bought(cpu: int, **running: Any) -> tuple[int, set[str]]:
        pools = (
            a_pool("default", zones[0], shared_limits={"team": {"cpu": cpu}}),
            a_pool("other", zones[1], shared_limits={"team": {"cpu": 64_000}, "all": {quantity.NODES: 5}}),
        )
        plan = schedule(a_snapshot(types=(a_type("a", cpu="4"),), node_pools=pools, pods=pods, **running))
        return len(plan.claims), {refused.reason for refused in plan.unschedulable}

    assert bought(24_000) == (6, set())
    assert bought(16_000) == (4, {PodReason.LIMIT_REACHED})
    assert bought(16_000, node_claims=(claim,), nodes=(node,))[0] <= 4
    assert bought(4_000, node_claims=(claim,), nodes=(node,))[0] == 0


def test_nodes_count_with_what_they_have_and_claims_without_an_instance_with_what_they_request() -> None:
    """Otherwise, what has just been ordered is ordered again, beyond the limit."""
    claim, node = a_node_of(a_type("a", cpu="4"))
    ordered = msgspec.structs.replace(claim, name="ordered", provider_id="", resources={"cpu": 3_000})
    foreign = msgspec.structs.replace(ordered, labels={**claim.labels, labels.NODEPOOL: "gone"})
    states = state_nodes(a_snapshot(nodes=(node,), node_claims=(claim,)))
    used = used_by_pool(states, (a_pool(), a_pool("other")), (ordered, ordered, foreign))
    assert sorted(used) == ["default", "other"]
    assert (used["default"]["cpu"], used["default"][quantity.NODES]) == (4_000 + 2 * 3_000, 3)
    assert used["other"] == {}


def test_a_limit_in_dollars_counts_running_nodes_at_their_price_and_claims_at_what_they_hold() -> None:
    claim, node = a_node_of(a_type("a", cpu="4"))
    holding = msgspec.structs.replace(claim, name="b", provider_id="x", node_name="", capacity={quantity.HOURLY: 7})
    states = state_nodes(a_snapshot(nodes=(node,), node_claims=(claim, holding)))
    capped, other = a_pool(limits={quantity.HOURLY: 100}), a_pool()
    assert used_by_pool(states, (capped,), (), lambda _: 5)["default"][quantity.HOURLY] == 5 + 7
    assert used_by_pool(states, (other,), (), lambda _: 5)["default"].get(quantity.HOURLY) == 7


def test_a_plan_keeps_within_a_limit_in_dollars_at_the_price_at_the_most() -> None:
    """A type costs as much as its dearest offering that the NodePool admits, whatever is chosen later."""
    kind = a_type("a", cpu="4", price=0.3)  # spot at 0.12
    pods = tuple(a_pod(f"p{number}", requests={"cpu": 3_000, "pods": 1}) for number in range(3))
    claim, node = a_node_of(kind)

    def bought(dollars: str, *requirements: Requirement, **running: Any) -> tuple[int, list[str]]:
        pool = a_pool("default", *requirements, limits={quantity.HOURLY: quantity.parse(dollars, quantity.HOURLY)})
        plan = schedule(a_snapshot(types=(kind,), node_pools=(pool,), pods=pods, **running))
        return len(plan.claims), sorted({unplaced.reason for unplaced in plan.unschedulable})

    assert bought("0.9") == (3, [])
    assert bought("0.89") == (2, ["BudgetExhausted"])
    assert bought("0.36", Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT)) == (3, [])
    assert bought("0.29") == (0, ["BudgetExhausted"])
    price = min(o.price for o in kind.offerings if o.capacity_type == claim.labels[labels.CAPACITY_TYPE])
    cap = quantity.render(price + nanodollars(0.6), quantity.HOURLY)
    assert bought(cap, node_claims=(claim,), nodes=(node,))[0] == 2


# The bound on node sizes, which limits what one failing node takes down, and its exceptions for large pods.


TYPES = tuple(
    a_type(f"m{size}", cpu=str(size), memory=f"{4 * size}Gi", pods="200", price=0.04 * size * (1 - size / 1000))
    for size in (2, 8, 16, 32, 64, 96)
)
"""The larger, the cheaper by vCPU, so that an unbounded plan takes few large nodes."""


def planned(*cpus: str, **bound: int) -> Plan:
    """The improved plan for pods of this many CPUs under a bound."""
    pods = tuple(a_pod(f"p{number:03}", cpu=cpu) for number, cpu in enumerate(cpus))
    return Planner(a_snapshot(types=TYPES, node_pools=(a_pool(largest_node=bound),), pods=pods)).plan(lambda: False)


@pytest.mark.parametrize("improves", [False, True])
def test_no_node_is_larger_than_the_bound(improves: bool) -> None:
    """In the greedy and the improved plan, every type that a claim may become is within the bound."""
    pods = tuple(a_pod(f"p{number:03}", cpu="3") for number in range(60))
    snapshot = a_snapshot(types=TYPES, node_pools=(a_pool(largest_node={"cpu": 16_000}),), pods=pods)
    plan = schedule(snapshot, (lambda: False) if improves else None)
    assert {name for claim in plan.claims for name in claim.instance_types} <= {"m2", "m8", "m16"}
    assert sum(len(claim.pods) for claim in plan.claims) == 60


def test_without_a_bound_nodes_are_larger() -> None:
    """Otherwise, the test above could not fail."""
    assert {claim.instance_types[0] for claim in planned(*["3"] * 60).claims} & {"m64", "m96"}


def test_a_pod_that_needs_more_gets_the_smallest_node_that_holds_it() -> None:
    """Small pods do not use it: it is only as large as necessary."""
    plan = planned("20", *["3"] * 10, cpu=16_000)
    large = [claim for claim in plan.claims if "default/p000" in claim.pods]
    assert [claim.instance_types for claim in large] == [("m32",)]
    others = {name for claim in plan.claims if claim not in large for name in claim.instance_types}
    assert others <= {"m2", "m8", "m16"}


def test_memory_bounds_as_cpu_does() -> None:
    """A bound of 32 GiB admits types of up to 8 vCPU."""
    plan = planned(*["1"] * 30, memory=32 << 30)
    assert {name for claim in plan.claims for name in claim.instance_types} <= {"m2", "m8"}


def test_larger_sizes_follow_one_cpu_size_at_a_time() -> None:
    """Otherwise, a pod that fits no node within the bound gets a node that is larger than necessary."""
    types = (a_type("a", cpu="2"), a_type("b", cpu="8"), a_type("c", cpu="4"), a_type("d", cpu="8"))
    (template,) = context_of(types=types, node_pools=(a_pool(),)).templates
    assert sizes_of(template.types, template.mask, {"cpu": 2_000}) == (0b0001, 0b0100, 0b1010)
    assert sizes_of(template.types, template.mask, {}) == (0b1111,)


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
    assert why_unusable(a_pool("p"), snapshot) is None
    assert why_unusable(a_pool("p", is_ready=False), snapshot) == NOT_READY
    assert why_unusable(contradiction, snapshot) == PoolContradicts("team")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"problem": "spec.weight: 101"}, PoolInvalid("spec.weight: 101")),
        ({"deleted_at": NOW}, BEING_DELETED),
        ({"own_annotations": {labels.MODE: labels.OBSERVE}}, ONLY_OBSERVED),
        ({"replicas": 2}, IS_STATIC),
    ],
)
def test_a_pool_that_answers_to_no_pod_says_so(changes: dict[str, Any], why: Refusal | None) -> None:
    assert why_unusable(a_pool("p", **changes), a_snapshot(types=(TYPE,))) == why


def test_a_pool_whose_labels_no_node_can_have_names_the_label() -> None:
    refusal = why_unusable(a_pool("p", labels={"a b": "c"}), a_snapshot(types=(TYPE,)))
    assert isinstance(refusal, PoolLabelsInvalid)
    assert "a b" in refusal.fault


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"is_ready": True}, None),
        ({"is_ready": False}, ClassNotReady("default")),
        ({"deleted_at": NOW}, ClassBeingDeleted("default")),
        ({"problem": "spec.role"}, ClassInvalid("default", "spec.role")),
    ],
)
def test_a_pool_waits_for_its_class(changes: dict[str, Any], why: Refusal | None) -> None:
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
