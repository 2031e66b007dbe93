"""A new constraint is one class and one entry, and the planner keeps it everywhere.

The one defined here limits the pods of one owner per node, by an annotation. It is not part of the product:
kube-scheduler does not know it and would bind the pods together, see docs/engineering/handbook/constraints.md.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from core import labels
from core.model.pod import Owner, Pod
from core.model.snapshot import Options, Snapshot
from core.model.values.commitment import CommittedRate, ReservedInstances, SavingsPlan
from core.reasons.code import Stated
from core.reasons.pods import PodReason
from core.scheduling import Planner
from core.scheduling.constraints.constraint import CommitmentCharges, Constraint, PlanStart
from core.scheduling.constraints.registry import CONSTRAINTS
from core.scheduling.context import SchedulingContext
from core.scheduling.existing_node import ExistingNode
from core.scheduling.new_node import InFlightClaim
from core.scheduling.pods import PodGroup, PodSignature
from core.scheduling.primitives import NO_TYPES, TypeMask
from core.scheduling.volume_binding import VolumeNeeds
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of

# What launches take of commitments.


TYPES = tuple(
    a_type(name, cpu=cpu, price=price) for name, cpu, price in (("m7.large", "2", 0.1), ("m7.xlarge", "4", 0.2))
)
OTHER = a_type("c7.large", cpu="2", price=0.1)
RESERVED = ReservedInstances(name="r", instance_type="m7.xlarge", count=1)
PLAN = SavingsPlan(name="s", amount=100_000_000, rates=(CommittedRate(ppm=500_000, families=("m7",)),))


def test_types_are_within_an_amount_up_to_what_they_take_of_it() -> None:
    """Otherwise, a node that is billed counts as covered."""
    context = context_of(types=(*TYPES, OTHER), pods=(a_pod(),))
    charges = CommitmentCharges((RESERVED, PLAN), context.templates)
    names = context.templates[0].types.names
    assert [names(charges.of(0, 0).within(amount)) for amount in (15, 16, 31, 32)] == [
        (),
        ("m7.large",),
        ("m7.large",),
        ("m7.large", "m7.xlarge"),
    ]
    assert names(charges.of(1, 0).within(50_000_000)) == ("m7.large",)
    assert charges.of(0, 0).largest(context.templates[0].mask) == 32


def test_an_amount_is_worth_the_list_price_of_what_it_covers() -> None:
    """A dollar of a Savings Plan at half the price takes two dollars off; spot is never covered."""
    context = context_of(types=(*TYPES, OTHER), pods=(a_pod(),))
    charges = CommitmentCharges((RESERVED, PLAN), context.templates)
    assert charges.worth(0, RESERVED.amount) == 200_000_000
    assert charges.worth(1, PLAN.amount) == 200_000_000
    offered = tuple(o for o in TYPES[0].offerings if o.capacity_type == labels.SPOT)
    only_spot = context_of(types=(msgspec.structs.replace(TYPES[0], offerings=offered),), pods=(a_pod(),))
    assert CommitmentCharges((RESERVED,), only_spot.templates).worth(0, RESERVED.amount) == 0


ANNOTATION = "fleetwright.dev/max-pods-per-node-of-owner"
LARGE = a_type("m.4xlarge", cpu="16", memory="64Gi", price=1.0, capacity_types=(labels.ON_DEMAND,))
SMALL = a_type("m.large", cpu="2", memory="8Gi", price=0.2, capacity_types=(labels.ON_DEMAND,))


class OwnerCap(Constraint):
    """At most this many pods of one owner on a node."""

    label = "pods of one owner"
    reason = PodReason.POD_ANTI_AFFINITY

    def __init__(self, start: PlanStart) -> None:
        super().__init__(start)
        self._on_nodes: Counter[tuple[int, str]] = Counter()
        self._on_claims: Counter[tuple[int, str]] = Counter()

    @classmethod
    def reads(cls, pod: Pod) -> tuple[str, int] | None:
        cap = pod.annotations.get(ANNOTATION)
        return (pod.owners[0].uid, int(cap)) if cap is not None and pod.owners else None

    @classmethod
    def concerns(cls, signature: PodSignature, volumes: VolumeNeeds) -> bool:  # noqa: ARG003
        return signature.facts[cls] is not None

    @classmethod
    def cap(cls, pods: PodGroup) -> tuple[str, int]:
        owner, cap = pods.signature.facts[cls]
        return owner, cap

    def admits(self, node: ExistingNode, pods: PodGroup) -> bool:
        owner, cap = self.cap(pods)
        running = sum(owner in (o.uid for o in pod.owners) for pod in node.state.pods)
        return running + self._on_nodes[node.index, owner] < cap

    def reserve_on_node(self, node: ExistingNode, pods: PodGroup) -> None:
        self._on_nodes[node.index, self.cap(pods)[0]] += 1

    def types(self, claim: InFlightClaim, pods: PodGroup) -> TypeMask:
        owner, cap = self.cap(pods)
        return claim.template.types.full if self._on_claims[claim.index, owner] < cap else NO_TYPES

    def reserve_on_claim(self, claim: InFlightClaim, pods: PodGroup) -> None:
        self._on_claims[claim.index, self.cap(pods)[0]] += 1


def replicas(count: int, cap: int, owner: str = "web", **changes: object) -> tuple[Pod, ...]:
    return tuple(
        a_pod(
            f"{owner}-{number}",
            owners=(Owner("ReplicaSet", owner, uid=owner, is_controller=True),),
            annotations={ANNOTATION: str(cap)},
            **changes,
        )
        for number in range(count)
    )


def plan(snapshot: Snapshot) -> tuple[list[Counter[str]], Counter[str], dict[str, str]]:
    """Pods of each owner on every new node, on existing ones together, and pod → code for unschedulable ones."""
    planned = Planner(snapshot, SchedulingContext(snapshot, (*CONSTRAINTS, OwnerCap))).plan()
    owner = {pod.key: pod.owners[0].name if pod.owners else "" for pod in snapshot.pods}
    on_claims = [Counter(owner[pod] for pod in claim.pods) for claim in planned.claims]
    on_nodes = Counter(owner[binding.pod] for binding in planned.bindings)
    return on_claims, on_nodes, {entry.pod: entry.reason for entry in planned.unschedulable}


@pytest.mark.parametrize("iterations", [None, 40])
def test_new_nodes_respect_it_even_after_repacking(iterations: int | None) -> None:
    """Otherwise, a constraint holds in the greedy plan and is lost in the improved one."""
    pods = replicas(8, 2, cpu="500m") + tuple(a_pod(f"any-{n}", cpu="500m") for n in range(40))
    snapshot = a_snapshot(types=(LARGE, SMALL), pods=pods, options=Options(improve_iterations=iterations))
    on_claims, _, reasons = plan(snapshot)
    assert reasons == {}
    assert sum((counted for counted in on_claims), Counter()) == {"web": 8, "": 40}
    assert max(counted["web"] for counted in on_claims) == 2


def test_an_existing_node_counts_its_running_pods() -> None:
    """Otherwise, the plan places pods on a node that refuses them."""
    claim, node = a_node_of(LARGE)
    (running,) = replicas(1, 2, owner="web", node_name=node.name, phase="Running")
    running = msgspec.structs.replace(running, name="running")
    snapshot = a_snapshot(
        types=(SMALL,), pods=(running, *replicas(3, 2)), nodes=(node,), node_claims=(claim,), node_pools=(a_pool(),)
    )
    on_claims, on_nodes, reasons = plan(snapshot)
    assert (on_nodes, reasons) == (Counter({"web": 1}), {})
    assert sum(counted["web"] for counted in on_claims) == 2


def test_pods_without_it_are_never_checked() -> None:
    """Otherwise, every constraint costs time for every pod."""
    snapshot = a_snapshot(types=(LARGE,), pods=(a_pod("plain"), *replicas(1, 1)))
    context = SchedulingContext(snapshot, (*CONSTRAINTS, OwnerCap))
    groups = [context.pod_groups.of(pod) for pod in context.pending]
    assert [group.is_plain for group in groups] == [True, False]
    assert context.plan_constraints(()).concerning(groups[0]) == ()


def test_an_explanation_names_it() -> None:
    """Otherwise, a pod waits for a reason that is not reported."""
    snapshot = a_snapshot(types=(LARGE,), pods=replicas(1, 0))
    _, _, reasons = plan(snapshot)
    assert reasons == {"default/web-0": PodReason.POD_ANTI_AFFINITY}


def test_a_rule_that_says_nothing_else_lets_everything_be() -> None:
    """So a new one states only what it changes."""
    context = SchedulingContext(a_snapshot(types=(LARGE, SMALL), pods=(a_pod("p"),)))
    (template,), (pod,) = context.templates, context.pending
    group, table = context.pod_groups.of(pod), context.table
    claim = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    rule = Constraint(PlanStart(context.templates, (), table))
    assert (rule.copy(), rule.reads(pod), rule.label, rule.reason) == (rule, None, "", PodReason.NO_OFFERING_FITS)
    assert (rule.concerns(group.signature, group.volumes), rule.may_move(group)) == (False, True)
    assert (rule.types(claim, group), rule.launchable(template, TypeMask(1))) == (template.types.full, 1)
    draft = claim.draft
    assert (rule.narrowed(draft), rule.narrowed_after_topology(draft), rule.changes_drafts) == (draft, draft, False)
    assert (rule.make_room([claim], lambda *_: None), rule.nearest_miss(template, NO_TYPES, group)) == (False, "")
    assert (rule.may_replace(claim, pods_wait=True), rule.replace([claim], [])) == (True, True)
    assert OwnerCap(PlanStart(context.templates, (), table)).shortage(draft) == Stated(OwnerCap.reason, OwnerCap.label)
