"""Claims have the names that the plan gives them, and the terms of their NodePools."""

from __future__ import annotations

from datetime import timedelta

from core import labels
from core.model.plan import PlannedClaim
from core.model.snapshot import BEST_EFFORT, DaemonSet, Options
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint, Toleration
from core.scheduling.pods import Avoids
from core.scheduling.results import planned_claims
from core.scheduling.scheduler import GreedyScheduler, queue_of
from tests.builders import CLASS_REF, ZONES, a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of, plan_of


def test_claims_are_numbered_by_pool_and_list_their_types_by_price() -> None:
    """Otherwise, two claims of a plan have one name, or a launch begins with an expensive type."""
    expensive, cheap = a_type("a", cpu="4", price=0.4), a_type("b", cpu="4", price=0.3)
    own_team = Requirement.one_of("team", "x")
    context = context_of(
        types=(expensive, cheap),
        pods=(a_pod("p", cpu="3"), a_pod("q", cpu="3")),
        node_pools=(a_pool("main", own_team),),
    )
    solution = GreedyScheduler(
        context, queue_of(context, [(context.pending, Avoids.NO_NODE)]), frozenset(), frozenset()
    ).run()
    first, second = planned_claims(solution.claims, context.axis, context.table.well_known)
    assert (first.name, second.name) == ("main-0", "main-1")
    assert first.instance_types == ("b", "a")
    assert first.labels["team"] == "x"
    assert sorted((*first.pods, *second.pods)) == ["default/p", "default/q"]
    values_by_key = {requirement.key: requirement.values for requirement in first.requirements}
    assert values_by_key[labels.CAPACITY_TYPE] == tuple(sorted((labels.ON_DEMAND, labels.SPOT)))
    assert first.resources["cpu"] == 3000


def test_a_claim_has_the_terms_of_its_node_pool() -> None:
    """A term that is lost here reaches no node: it would never expire, and its drain would never end."""
    terms = {"expire_after": timedelta(hours=1), "termination_grace_period": timedelta(minutes=1)}
    flexible = Requirement(labels.INSTANCE_TYPE, True, (), min_values=1)
    context = context_of(types=(a_type(),), pods=(a_pod(),), node_pools=(a_pool("main", flexible, **terms),))
    solution = GreedyScheduler(
        context, queue_of(context, [(context.pending, Avoids.NO_NODE)]), frozenset(), frozenset()
    ).run()
    (claim,) = planned_claims(solution.claims, context.axis, context.table.well_known)
    assert {name: getattr(claim, name) for name in terms} == terms
    assert (claim.annotations[labels.MIN_VALUES_RELAXED], claim.min_values_relaxed) == ("false", False)


def test_every_field_of_a_claim_comes_from_pool_pods_and_types() -> None:
    """What is lost here is missing on the node: a taint keeps no pod off, a hash tells no drift, a label binds no pod."""
    keep_out, boots = Taint("team", NO_SCHEDULE), Taint("boots", NO_SCHEDULE)
    pool = a_pool(
        "main",
        Requirement.of(labels.INSTANCE_TYPE, "Exists", (), 2),
        Requirement.of("rack", "Exists"),
        Requirement.one_of("team", "x"),
        labels={"own": "1"},
        annotations={"note": "n"},
        template_hash="h",
        taints=(keep_out,),
        startup_taints=(boots,),
    )
    zones = Requirement.one_of(labels.ZONE, *ZONES[:2])
    pod = a_pod("p", tolerations=(Toleration("team", "Exists"),), node_selector=(zones,))
    types = (a_type("a", price=0.2), a_type("b", price=0.1, zones=ZONES[:1]))
    (claim,) = plan_of(types=types, node_pools=(pool,), pods=(pod,)).claims
    both = (labels.ON_DEMAND, labels.SPOT)
    assert claim == PlannedClaim(
        name="main-0",
        node_pool="main",
        node_class=CLASS_REF,
        labels={
            f"{CLASS_REF.group}/ec2nodeclass": "default",
            labels.NODEPOOL: "main",
            "own": "1",
            "rack": "0",
            "team": "x",
        },
        annotations={
            labels.MIN_VALUES_RELAXED: "false",
            labels.NODEPOOL_HASH: "h",
            labels.NODEPOOL_HASH_VERSION: labels.HASH_VERSION,
            "note": "n",
        },
        taints=(keep_out,),
        startup_taints=(boots,),
        requirements=(
            Requirement.one_of(f"{CLASS_REF.group}/ec2nodeclass", "default"),
            Requirement.one_of(labels.CAPACITY_TYPE, *both),
            Requirement.one_of(labels.NODEPOOL, "main"),
            Requirement(labels.INSTANCE_TYPE, False, ("a", "b"), min_values=2),
            Requirement.one_of("own", "1"),
            Requirement.of("rack", "Exists"),
            Requirement.one_of("team", "x"),
            zones,
        ),
        instance_types=("b", "a"),
        zones=ZONES[:2],
        capacity_types=both,
        resources={"cpu": 1000, "memory": 2**30, "pods": 1},
        pods=("default/p",),
        price=nanodollars(0.04),
    )


def test_a_claim_of_a_pool_without_hash_or_min_values_carries_neither() -> None:
    (claim,) = plan_of(types=(a_type(),), pods=(a_pod("p"),)).claims
    assert claim.annotations == {}


def test_pods_of_daemon_sets_count_in_the_resources() -> None:
    """A node that is too small for its agents leaves a pod without a place."""
    agent = DaemonSet(namespace="kube-system", name="agent", spec=a_pod(cpu="200m", memory="1Gi").spec)
    (claim,) = plan_of(types=(a_type(),), pods=(a_pod("p"), a_pod("q", cpu="500m")), daemon_sets=(agent,)).claims
    assert claim.pods == ("default/p", "default/q")
    assert claim.resources == {"cpu": 1700, "memory": 3 * 2**30, "pods": 3}


def test_min_values_that_were_lowered_are_written_as_lowered() -> None:
    """BestEffort says what the claim was launched with, and that it is less than was asked for."""
    pool = a_pool("main", Requirement.of(labels.INSTANCE_TYPE, "Exists", (), 3))
    options = Options(min_values_policy=BEST_EFFORT)
    (claim,) = plan_of(types=(a_type("a"), a_type("b")), node_pools=(pool,), pods=(a_pod("p"),), options=options).claims
    (type_requirement,) = (requirement for requirement in claim.requirements if requirement.key == labels.INSTANCE_TYPE)
    assert (type_requirement.values, type_requirement.min_values) == (("a", "b"), 2)
    assert (claim.min_values_relaxed, claim.annotations[labels.MIN_VALUES_RELAXED]) == (True, "true")
