"""Which pods are planned for."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.model.pod import NodeSelectorTerm, Owner
from core.model.snapshot import Options
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.pods.pending_pods import is_virtual, pending_pods
from tests.builders import NOW, a_pod, a_snapshot, a_type
from tests.unit.scheduling.reading import places, plan_of, reasons_of

TYPE = a_type("m", cpu="4", memory="16Gi")


@pytest.mark.parametrize(
    "changes",
    [
        {"node_name": "gone"},
        {"nominated_node_name": "n"},
        {"is_gated": True},
        {"phase": "Succeeded"},
        {"deleted_at": NOW},
        {"owners": (Owner("DaemonSet", "d"),)},
        {"owners": (Owner("Node", "n"),)},
    ],
)
def test_pods_that_need_no_node_are_ignored(changes: dict[str, Any]) -> None:
    """Otherwise, a node would be launched for a pod that never comes."""
    plan = plan_of(types=(TYPE,), pods=(a_pod("p", **changes),))
    assert (plan.claims, plan.bindings, plan.unschedulable) == ((), (), ())


def test_in_a_live_cluster_only_pods_marked_unschedulable_are_planned_for() -> None:
    """Otherwise, nodes would be launched for pods that are about to be bound."""
    live = Options(requires_unschedulable_mark=True)
    pods = (a_pod("fresh", cpu="500m"), a_pod("marked", is_marked_unschedulable=True))
    assert set(places(plan_of(types=(TYPE,), pods=pods, options=live))) == {"marked"}


def selecting(key: str, operator: str = "Exists") -> Any:
    return a_pod("p", required_terms=(NodeSelectorTerm((Requirement.of(key, operator),)),))


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (selecting("karpenter.sh/custom"), PodReason.RESTRICTED_LABEL),
        (selecting(labels.HOSTNAME), PodReason.RESTRICTED_LABEL),
        (selecting(labels.NODEPOOL, "DoesNotExist"), PodReason.OPTED_OUT),
        (a_pod("p", required_terms=(NodeSelectorTerm(uses_fields=True),)), PodReason.UNSUPPORTED_AFFINITY),
        (a_pod("p", required_terms=(NodeSelectorTerm(),)), PodReason.UNSUPPORTED_AFFINITY),
        (a_pod("p", resource_claims=("gpu",)), PodReason.UNSUPPORTED_RESOURCE_CLAIM),
        (a_pod("p", problem="spec.nodeSelector[a]: 'b c' cannot be the value of a label"), PodReason.INVALID_POD),
    ],
)
def test_pods_that_cannot_be_planned_for_say_why(pod: Any, reason: str) -> None:
    """Otherwise, they would be reported as too large, or silently dropped."""
    plan = plan_of(types=(TYPE,), pods=(pod,))
    assert (reasons_of(plan), plan.claims) == ({"p": reason}, ())


def test_one_impossible_pod_does_not_affect_the_others() -> None:
    """Otherwise, one bad object stops all others."""
    plan = plan_of(types=(TYPE,), pods=(selecting("karpenter.sh/custom"), a_pod("q")))
    assert set(places(plan)) == {"q"}


def test_pending_pods_are_sorted_by_name() -> None:
    """Otherwise, the plan depends on how the API server lists them."""
    found = pending_pods(a_snapshot(pods=(a_pod("b"), a_pod("a"), a_pod("bound", node_name="n"))))
    assert [pod.name for pod in found] == ["a", "b"]
    assert not any(map(is_virtual, found))
