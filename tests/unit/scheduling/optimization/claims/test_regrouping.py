"""Pods share new nodes as planned, as far as they exist and the rules allow it."""

from __future__ import annotations

from core import labels
from core.model.pod import Pod, PodAffinityTerm
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling.optimization.claims.claim_builder import ClaimBuilder
from core.scheduling.optimization.claims.regrouping import regrouped
from core.scheduling.optimization.items.hostname_caps import HostnameCaps
from core.scheduling.optimization.items.item_extraction import ItemExtraction
from tests.builders import a_pod, a_selector
from tests.unit.scheduling.optimization.clusters import a_cluster, greedily_solved, plain_pods


def by_name(pod: Pod) -> str:
    return pod.name


def test_pods_are_grouped_as_planned_and_the_others_stay_together() -> None:
    context, solution = greedily_solved(a_cluster())
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    nodes = [extraction.items_of(claim, scope) for claim in solution.claims]
    builder = ClaimBuilder(context, scope, DEFAULT_SETTINGS.repack)
    single = [one.pods[0] for of_node in nodes for one in of_node if len(one.pods) == 1][:2]
    found = regrouped(builder, nodes, [{pod.name: 1 for pod in single}, {"nobody": 3}], by_name)
    assert {pod.key for pod in found[0].pods} == {pod.key for pod in single}
    before = sorted(pod.key for claim in solution.claims for pod in claim.pods)
    assert sorted(pod.key for claim in found for pod in claim.pods) == before


def test_pods_that_must_share_a_node_stay_together() -> None:
    """Otherwise, a pod of the set has no node: whoever asked for a new grouping would launch nothing for it."""
    beside = PodAffinityTerm(labels.HOSTNAME, a_selector(app="own"))
    own = tuple(a_pod(f"own{n}", cpu="300m", labels={"app": "own"}, affinity=(beside,)) for n in range(3))
    context, solution = greedily_solved(a_cluster(pods=(*plain_pods(6), *own)))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    nodes = [extraction.items_of(claim, scope) for claim in solution.claims]
    found = regrouped(
        ClaimBuilder(context, scope, DEFAULT_SETTINGS.repack), nodes, [{"p000": 1, "own0": 1}, {"p001": 1}], by_name
    )
    shared = [{pod.name for pod in claim.pods} for claim in found]
    assert {"p000"} in shared
    assert sum({pod.name for pod in own} <= names for names in shared) == 1
    assert sorted(name for names in shared for name in names) == sorted(pod.name for pod in (*plain_pods(6), *own))
