"""Claims that cost more than a node for each of their pods."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.model.plan import Plan
from core.model.pod import Pod, PodAffinityTerm, VolumeUse, WeightedPodAffinityTerm
from core.model.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim, StorageClass
from core.model.values.requirements import Requirement
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling import schedule
from core.scheduling.optimization.claims.claim_builder import ClaimBuilder
from core.scheduling.optimization.claims.separate_claims import separate_claims
from core.scheduling.optimization.items.hostname_caps import HostnameCaps
from core.scheduling.optimization.items.item_extraction import ItemExtraction
from tests.builders import ZONES, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedily_solved

SMALL = a_type("small", cpu="1", memory="4Gi", price=0.04)
LARGE = a_type("large", cpu="8", memory="32Gi", price=0.23)
GP3 = StorageClass(name="gp3", provisioner="ebs.csi.aws.com", binding_mode=WAIT_FOR_FIRST_CONSUMER)
SCRATCH = VolumeUse("", ephemeral="scratch", storage_class="gp3")
DATA = PersistentVolumeClaim(namespace="default", name="data", storage_class="gp3")
BESIDE = PodAffinityTerm(labels.HOSTNAME, a_selector(app="own"))


def pods(count: int, **changes: Any) -> tuple[Pod, ...]:
    return tuple(a_pod(f"p{n}", cpu="1", memory="1Gi", labels={"app": "own"}, **changes) for n in range(count))


def planned(*own: Pod, **changes: Any) -> Plan:
    return schedule(a_cluster(types=(SMALL, LARGE), pods=own, storage_classes=(GP3,), **changes))


@pytest.mark.parametrize("rules", [{"volumes": (SCRATCH,)}, {}], ids=["volumes", "plain"])
def test_pods_get_nodes_of_their_own_where_one_for_all_costs_more(rules: dict[str, Any]) -> None:
    """Pods with volumes are never moved between nodes, so five of them stayed together for the price of six nodes."""
    plan = planned(*pods(5, **rules))
    assert [len(claim.pods) for claim in plan.claims] == [1] * 5
    assert plan.cost.hourly == 5 * 40_000_000


def test_pods_share_a_node_that_costs_less() -> None:
    plan = planned(*pods(6, volumes=(SCRATCH,)))
    assert [len(claim.pods) for claim in plan.claims] == [6]


@pytest.mark.parametrize(
    "rules",
    [
        {"affinity": (BESIDE,)},
        {"preferred_affinity": (WeightedPodAffinityTerm(100, BESIDE),)},
        {"volumes": (VolumeUse("data"),)},
    ],
    ids=["affinity", "preferred", "one volume"],
)
def test_pods_that_belong_together_stay_together(rules: dict[str, Any]) -> None:
    """Otherwise, a pod loses what its affinity asks for, or waits for a volume that another node has attached."""
    plan = planned(*pods(5, **rules), volume_claims=(DATA,))
    assert [len(claim.pods) for claim in plan.claims] == [5]


def test_limits_keep_pods_together() -> None:
    """Otherwise, a plan has more nodes than its NodePool may have."""
    plan = planned(*pods(5, volumes=(SCRATCH,)), node_pools=(a_pool("default", ON_DEMAND, limits={"nodes": 3}),))
    assert [len(claim.pods) for claim in plan.claims] == [5]


def test_each_pod_of_a_claim_gets_one_of_its_own() -> None:
    context, solution = greedily_solved(a_cluster(types=(SMALL, LARGE), pods=pods(5), storage_classes=(GP3,)))
    (claim,) = solution.claims
    scope = ItemExtraction(context, HostnameCaps(context.topology.groups)).scope(claim)
    builder = ClaimBuilder(context, scope, DEFAULT_SETTINGS.repack)
    found = separate_claims(builder, solution.state.constraints, claim)
    assert [one.pods for one in found] == [[pod] for pod in claim.pods]
    assert sum(one.price for one in found) < claim.price


@pytest.mark.parametrize(
    "rules",
    [{"preferred_affinity": (WeightedPodAffinityTerm(100, BESIDE),)}, {"volumes": (VolumeUse("data"),)}],
    ids=["preferred", "one volume"],
)
def test_pods_that_belong_together_stay_so_beside_others_that_are_separated(rules: dict[str, Any]) -> None:
    """One claim that costs too much is no reason to take the others apart."""
    zones = [{"node_selector": (Requirement.one_of(labels.ZONE, zone),)} for zone in ZONES[:2]]
    apart = tuple(a_pod(f"q{n}", cpu="1", memory="1Gi", volumes=(SCRATCH,), **zones[1]) for n in range(5))
    plan = planned(*pods(5, **rules, **zones[0]), *apart, volume_claims=(DATA,))
    assert sorted(len(claim.pods) for claim in plan.claims) == [1] * 5 + [5]
