"""Work whose size an object's author chooses is bounded, and a DaemonSet that fits nowhere costs nothing."""

from __future__ import annotations

from core.model.pod import LabelSelector, PodAffinityTerm, PodSpec, WeightedPodAffinityTerm
from core.model.snapshot import DaemonSet
from core.packing.settings import ArithmeticBoundSettings, OfferedItem, arithmetic_bound
from core.scheduling import Planner
from core.scheduling.pods import PREFERRED_TERMS_MAX, within_preferences
from core.scheduling.primitives import UNOFFERED, UNOFFERED_MAX, ResourceAxis
from tests.builders import a_pod, a_snapshot, a_type


def _daemon(cpu: int) -> DaemonSet:
    return DaemonSet(namespace="default", name="giant", spec=PodSpec(requests={"cpu": cpu, "pods": 1}))


def test_a_daemon_that_fits_on_no_type_takes_no_room() -> None:
    """Its pods wait alone, as kube-scheduler lets them; it used to stop every launch."""
    planner = Planner(a_snapshot(types=(a_type(),), pods=(a_pod(),), daemon_sets=(_daemon(1_000_000),)))
    assert [claim.pods for claim in planner.plan().claims] == [("default/p",)]
    assert [daemon.name for daemon in planner.context.oversized_daemons()] == ["giant"]


def test_a_daemon_that_fits_on_some_types_of_a_pool_rules_out_the_others() -> None:
    """It is meant for the pool's nodes, so smaller ones would lack it (Karpenter)."""
    large = a_type("m5.4xlarge", cpu="16", memory="64Gi", price=0.8)
    planner = Planner(a_snapshot(types=(a_type(), large), pods=(a_pod(),), daemon_sets=(_daemon(8000),)))
    assert planner.context.oversized_daemons() == ()
    (claim,) = planner.plan().claims
    assert claim.instance_types == ("m5.4xlarge",)


def test_resources_that_nothing_offers_share_a_place() -> None:
    """A pod may name thousands, and each would lengthen every vector; none of them has a node."""
    names = [f"example.com/r{n:03}" for n in range(100)]
    axis = ResourceAxis(["cpu", *names], {"cpu"})
    assert len(axis.names) == 1 + UNOFFERED_MAX + 1
    requested = dict(zip(axis.names, axis.vector({"cpu": 1, names[99]: 1}), strict=True))
    assert requested[UNOFFERED] == 1


def test_a_pod_with_many_unknown_resources_waits_alone() -> None:
    """The others are planned as if it were not there."""
    odd = a_pod("odd", extra={f"example.com/r{n}": "1" for n in range(60)})
    plan = Planner(a_snapshot(types=(a_type(),), pods=(odd, a_pod("healthy")))).plan()
    assert [unplaced.pod for unplaced in plan.unschedulable] == ["default/odd"]
    assert [claim.pods for claim in plan.claims] == [("default/healthy",)]


def test_a_bound_does_not_grow_with_the_cube_of_the_resources() -> None:
    """Weighting further resources in pairs would only raise it, and takes minutes for a hundred."""
    offers = [(1000, [100] * 100)] * 50
    item = OfferedItem([50] * 100, 4, offers)
    assert arithmetic_bound([item], ArithmeticBoundSettings()) == 2000


def test_resources_that_nothing_requests_do_not_change_a_bound() -> None:
    """Their parts are zero."""
    few = OfferedItem([50, 30], 4, [(1000, [100, 60])])
    many = OfferedItem([50, 0, 30, 0], 4, [(1000, [100, 0, 60, 7])])
    settings = ArithmeticBoundSettings()
    assert arithmetic_bound([few], settings) == arithmetic_bound([many], settings)


def test_preferences_between_pods_are_bounded_by_namespace() -> None:
    """A preference never prevents, so those beyond the bound are given up; other namespaces keep theirs."""

    def pod(name: str, namespace: str, terms: int):  # type: ignore[no-untyped-def]
        term = WeightedPodAffinityTerm(1, PodAffinityTerm("kubernetes.io/hostname", LabelSelector()))
        return a_pod(name, namespace=namespace, preferred_anti_affinity=(term,) * terms)

    many = [pod(f"p{n}", "many", 32) for n in range(PREFERRED_TERMS_MAX // 32 + 1)]
    kept = within_preferences([*many, pod("other", "few", 32)])
    assert [len(pod.spec.preferred_anti_affinity) for pod in kept] == [32] * (len(many) - 1) + [0, 32]
