"""New nodes within commitments, up to their edge."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.explain import explain_pod
from core.model.catalogue import Offering
from core.model.plan import Plan
from core.model.pod import Pod
from core.model.snapshot import Options
from core.model.values.commitment import Commitment, CommittedRate, ReservedInstances, SavingsPlan
from core.model.values.quotas import STANDARD
from core.model.values.requirements import Requirement
from core.reasons.pods import PodReason
from core.scheduling import schedule
from core.scheduling.constraints.commitments import Commitments
from core.scheduling.pods import Avoids
from core.scheduling.scheduler import GreedyScheduler, queue_of
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, plan_of, reasons_of

SIZES = {"large": 2, "xlarge": 4, "2xlarge": 8}
TYPES = tuple(
    a_type(f"{family}.{size}", cpu=str(cores), memory=f"{4 * cores}Gi", pods="110", price=price * cores)
    for family, price in (("m6", 0.04), ("m7", 0.05))
    for size, cores in SIZES.items()
)
ONE = ReservedInstances(name="one", instance_type="m7.2xlarge", count=1)
PLAN = SavingsPlan(name="plan", amount=200_000_000, rates=(CommittedRate(ppm=500_000),))


def _plan(*commitments: Commitment, pods: int, cpu: str = "7", **world: object) -> Plan:
    waiting = tuple(a_pod(f"p{n:02}", cpu=cpu) for n in range(pods))
    return plan_of(**{"types": TYPES, "pods": waiting, "options": Options(commitments=commitments), **world})


def test_the_first_node_is_covered_and_the_second_costs_what_it_costs() -> None:
    """A discount on the family would take both from it: the second is dearer than spot elsewhere."""
    covered, other = _plan(ONE, pods=2).claims
    assert (covered.commitment, covered.instance_types, covered.capacity_types) == (
        "one",
        ("m7.2xlarge",),
        ("on-demand",),
    )
    assert covered.price == 40
    assert (other.commitment, other.instance_types[0], other.price) == ("", "m6.2xlarge", 128_000_000)
    assert covered.annotations[labels.COMMITMENT] == "one"


def test_small_nodes_share_what_a_large_one_was_bought_for() -> None:
    """Eight vCPUs are four nodes of two, and a fifth costs the list price."""
    apart = a_pool("default", Requirement.one_of(labels.INSTANCE_TYPE, "m7.large"))
    plan = _plan(ONE, pods=5, cpu="1500m", node_pools=(apart,))
    assert [claim.commitment for claim in plan.claims].count("one") == 4


def test_nodes_that_run_leave_nothing_to_new_ones() -> None:
    """The hour is used already."""
    claim, node = a_node_of(TYPES[-1])
    full = a_pod("full", cpu="8", node_name=node.name)
    pods, options = (full, a_pod("waits", cpu="7")), Options(commitments=(ONE,))
    (new,) = plan_of(types=TYPES, nodes=(node,), node_claims=(claim,), pods=pods, options=options).claims
    assert (new.commitment, new.instance_types[0]) == ("", "m6.2xlarge")


def test_a_savings_plan_covers_the_cheapest_type_at_its_rate() -> None:
    """$0.20 an hour at half the price is $0.40 of list price: one m6.2xlarge at $0.32, and no second."""
    plan = _plan(PLAN, pods=2)
    assert [(claim.commitment, claim.instance_types[0]) for claim in plan.claims] == [
        ("plan", "m6.2xlarge"),
        ("", "m6.2xlarge"),
    ]


def test_what_is_bound_to_a_zone_covers_that_zone() -> None:
    """An instance elsewhere would be billed in full."""
    zonal = msgspec.structs.replace(ONE, zone=ZONES[1])
    (claim,) = _plan(zonal, pods=1).claims
    assert (claim.commitment, claim.zones) == ("one", (ZONES[1],))


def test_a_place_in_a_capacity_reservation_comes_first() -> None:
    """It is paid for, too, and covers nothing else."""
    place = Offering("m6.2xlarge", ZONES[0], labels.RESERVED, 3, reservation_id="cr", reservation_capacity=1)
    types = tuple(
        msgspec.structs.replace(instance_type, offerings=(*instance_type.offerings, place))
        if instance_type.name == "m6.2xlarge"
        else instance_type
        for instance_type in TYPES
    )
    first, second = _plan(ONE, pods=2, types=types).claims
    assert (first.capacity_types, second.commitment) == (("reserved",), "one")


def test_a_pool_that_may_not_use_it_does_without() -> None:
    """A NodePool for spot alone stays on spot."""
    spot = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT))
    (claim,) = _plan(ONE, pods=1, node_pools=(spot,)).claims
    assert (claim.commitment, claim.capacity_types) == ("", ("spot",))


def test_dedicated_hardware_is_not_covered() -> None:
    """Reserved instances are bought for one tenancy."""
    types = tuple(
        msgspec.structs.replace(
            instance_type, labels={**instance_type.labels, labels.TENANCY: ("dedicated", "default")}
        )
        for instance_type in TYPES
    )
    for tenancy, commitment in (("dedicated", ""), ("default", "one")):
        pool = a_pool("default", Requirement.one_of(labels.TENANCY, tenancy))
        (claim,) = _plan(ONE, pods=1, types=types, node_pools=(pool,)).claims
        assert claim.commitment == commitment


def test_a_short_quota_of_on_demand_capacity_keeps_no_pod_out() -> None:
    """Where the covered nodes do not fit the quota, spot still does."""
    plan = _plan(ONE, pods=2, vcpu_quotas={STANDARD.on_demand: 4})
    assert plan.unschedulable == ()
    assert {claim.capacity_types for claim in plan.claims} == {("spot",)}


@pytest.mark.parametrize("steps", [None, 0, 200])
def test_no_search_undoes_or_outbids_what_is_covered(steps: int | None) -> None:
    """The rest of the pods are packed as well as without, and the bound stays below the price."""
    options = Options(commitments=(ONE,), improve_iterations=steps)
    plan = _plan(pods=30, cpu="900m", options=options)
    plain = _plan(pods=30, cpu="900m", options=msgspec.structs.replace(options, commitments=()))
    assert sum(bool(claim.commitment) for claim in plan.claims) >= 1
    assert plan.cost.hourly < plain.cost.hourly
    assert plan.cost.lower_bound is None or plan.cost.lower_bound <= plan.cost.hourly


def test_a_copy_keeps_what_was_left() -> None:
    """A search that is given up must not use an hour up."""
    context = context_of(types=TYPES, options=Options(commitments=(ONE,)))
    commitments = context.plan_constraints(()).commitments
    assert isinstance(commitments, Commitments)
    before = commitments.copy()
    commitments.left[0] = 0
    assert before.left == [ONE.amount]
    assert context.with_commitments_last().plan_constraints(()).commitments is not None
    assert context_of(types=TYPES).plan_constraints(()).commitments is None


def test_the_worth_of_what_is_left_bounds_what_it_takes_off() -> None:
    """Half price: what is committed is worth twice as much of the list. Eight vCPUs of m7 are $0.40."""
    world = a_snapshot(types=TYPES)
    for one, worth in ((PLAN, 400_000_000), (ONE, 400_000_000)):
        context = context_of(types=TYPES, node_pools=world.node_pools, options=Options(commitments=(one,)))
        assert context.remaining.committed_worth() == worth


def test_a_commitment_that_is_used_up_hides_no_other() -> None:
    """Pods alike share what was found for the first of them, and each node takes a part of the commitment."""
    pair = ReservedInstances(name="two", instance_type="m6.2xlarge", count=2)
    claim, node = a_node_of(TYPES[-1])
    full = a_pod("full", cpu="8", node_name=node.name)
    waiting = tuple(a_pod(f"p{n}", cpu="7") for n in range(3))
    options = Options(commitments=(ONE, pair))
    plan = plan_of(types=TYPES, nodes=(node,), node_claims=(claim,), pods=(full, *waiting), options=options)
    assert sorted((claim.commitment, claim.capacity_types) for claim in plan.claims) == [
        ("", ("on-demand", "spot")),
        ("two", ("on-demand",)),
        ("two", ("on-demand",)),
    ]


def test_each_of_several_commitments_is_named_by_the_node_that_it_covers() -> None:
    """The bill shows which purchase is used."""
    small = ReservedInstances(name="small", instance_type="m6.large", count=1)
    pods = (a_pod("a", cpu="7"), a_pod("b", cpu="1500m", node_selector=(Requirement.one_of("size", "s"),)))
    pools = (a_pool("default"), a_pool("s", Requirement.one_of("size", "s")))
    plan = plan_of(types=TYPES, pods=pods, node_pools=pools, options=Options(commitments=(ONE, small)))
    used_commitments = {
        claim.pods[0]: (claim.commitment, claim.instance_types, claim.annotations[labels.COMMITMENT])
        for claim in plan.claims
    }
    assert used_commitments == {
        "default/a": ("one", ("m7.2xlarge",), "one"),
        "default/b": ("small", ("m6.large",), "small"),
    }


def test_only_a_plan_that_extends_covers_claims_that_nothing_covers_yet() -> None:
    """EC2's quotas have chosen the capacity type of its claims: a covered one would become on-demand capacity beyond them."""
    options = Options(commitments=(ONE,))
    context = context_of(types=TYPES, pods=(a_pod("p", cpu="7"),), options=options).with_commitments_last()
    solution = GreedyScheduler(
        context, queue_of(context, [(context.pending, Avoids.NO_NODE)]), frozenset(), frozenset()
    ).run()
    commitments = solution.state.constraints.commitments
    assert commitments is not None
    (claim,) = solution.claims
    covered = []
    for extends in (False, True):
        commitments.settle(solution.claims, extends=extends)
        covered.append((claim.commitment, claim.price, commitments.left))
    assert covered == [("", 128_000_000, [ONE.amount]), ("one", 40, [0])]


@pytest.mark.parametrize(("used", "changes"), [((), True), (("one",), True), (("one", "two"), False)])
def test_drafts_change_while_any_commitment_was_unused(used: tuple[str, ...], changes: bool) -> None:
    """Pods alike share no new claim then: the next one may find less of a commitment."""
    pair = ReservedInstances(name="two", instance_type="m6.2xlarge", count=1)
    types = {"one": TYPES[-1], "two": TYPES[2]}
    nodes = [a_node_of(types[name], name) for name in used]
    context = context_of(
        types=TYPES,
        nodes=tuple(node for _, node in nodes),
        node_claims=tuple(claim for claim, _ in nodes),
        pods=tuple(a_pod(f"on-{name}", cpu="8", node_name=name) for name in used),
        options=Options(commitments=(ONE, pair)),
    )
    commitments = context.plan_constraints(()).commitments
    assert commitments is not None
    assert commitments.changes_drafts is changes


# Pods that may wait take what is paid for already.


def _patient(name: str, **annotations: str) -> Pod:
    return a_pod(name, cpu="7", annotations={labels.START_BEFORE: "8h", **annotations})


@pytest.mark.parametrize("kind", ["spot", "room"])
def test_a_pod_that_may_wait_takes_an_idle_commitment_at_once(kind: str) -> None:
    only_on_demand = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND))
    pods = tuple(_patient(name, **{labels.WAITS_FOR: kind}) for name in ("first", "second"))
    world = {"types": TYPES, "pods": pods, "node_pools": (only_on_demand,), "options": Options(commitments=(ONE,))}
    snapshot = a_snapshot(**world)
    plan = schedule(snapshot)
    assert [(claim.commitment, claim.pods) for claim in plan.claims] == [("one", ("default/first",))]
    assert reasons_of(plan) == {"second": PodReason.HELD_BACK}
    details = explain_pod(snapshot, pods[0]).details
    assert "it may wait, but commitment one lies idle and pays for the node" in details


def test_a_pod_that_may_not_wait_takes_the_commitment_first() -> None:
    only_on_demand = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND))
    pods = (_patient("a-patient"), a_pod("urgent", cpu="7"))
    plan = plan_of(types=TYPES, pods=pods, node_pools=(only_on_demand,), options=Options(commitments=(ONE,)))
    assert [(claim.commitment, claim.pods) for claim in plan.claims] == [("one", ("default/urgent",))]
    assert reasons_of(plan) == {"a-patient": PodReason.HELD_BACK}


def test_a_pod_that_waits_for_room_takes_an_idle_capacity_reservation() -> None:
    held = Offering("m7.2xlarge", ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1)
    types = tuple(
        msgspec.structs.replace(instance_type, offerings=(*instance_type.offerings, held))
        if instance_type.name == held.instance_type
        else instance_type
        for instance_type in TYPES
    )
    pods = tuple(_patient(name, **{labels.WAITS_FOR: "room"}) for name in ("first", "second"))
    plan = plan_of(types=types, pods=pods)
    assert [(claim.capacity_types, claim.pods) for claim in plan.claims] == [((labels.RESERVED,), ("default/first",))]
    assert reasons_of(plan) == {"second": PodReason.HELD_BACK}
