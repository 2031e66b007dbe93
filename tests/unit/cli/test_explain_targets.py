"""What a name means, in the order in which a person would mean it; and what it might have meant."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cli.errors import InputError
from cli.explain_targets import NamedTarget, explain_code
from core import labels
from core.model.pod import Owner, Pod
from core.model.snapshot import ProvisioningRequest, RequestedPods
from core.provisioning_requests import ATOMIC_SCALE_UP
from core.reasons.code import PAGE
from core.reasons.nodes import NodeReason
from core.reasons.pods import PodReason
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type

TYPE = a_type("m5.large")
CLAIM, NODE = a_node_of(TYPE, "ip-10-0-0-4.ec2.internal")
HASH = {"pod-template-hash": "7f9"}


def owned(name: str, kind: str, owner: str, **changes: Any) -> Pod:
    return a_pod(name, owners=(Owner(kind=kind, name=owner, is_controller=True),), **changes)


PODS = (
    owned("web-7f9-a", "ReplicaSet", "web-7f9", labels=HASH),
    owned("web-7f9-b", "ReplicaSet", "web-7f9", labels=HASH),
    owned("log-a", "DaemonSet", "log"),
    owned("plain-a", "ReplicaSet", "plain-7f9"),
    a_pod("twice"),
    a_pod("twice", namespace="shop"),
    owned("db-0", "StatefulSet", "db"),
    owned("db-1", "StatefulSet", "db", namespace="shop"),
)
LEAVING = msgspec.structs.replace(CLAIM, name="unborn", node_name="")
WORLD = a_snapshot(
    types=(TYPE,), pods=PODS, nodes=(NODE,), node_claims=(CLAIM, LEAVING), node_pools=(a_pool(), a_pool("gpu"))
)


def subject(text: str, namespace: str | None = None) -> str:
    return NamedTarget(WORLD, text, namespace).explained(lambda: 1.0).subject


@pytest.mark.parametrize(
    ("text", "namespace", "found"),
    [
        ("log-a", None, "pod default/log-a"),
        ("default/log-a", None, "pod default/log-a"),
        ("pod/log-a", None, "pod default/log-a"),
        ("Pods/log-a", None, "pod default/log-a"),
        ("po/log-a", "default", "pod default/log-a"),
        ("shop/twice", None, "pod shop/twice"),
        ("twice", "shop", "pod shop/twice"),
        (NODE.name, None, f"node {NODE.name}"),
        (f"node/{NODE.name}", None, f"node {NODE.name}"),
        ("ip-10-0-0-4", None, f"node {NODE.name}"),
        ("nodes/ip-10-0-0-4", None, f"node {NODE.name}"),
        (CLAIM.name, None, f"node {NODE.name}"),
        (f"nodeclaim/{CLAIM.name}", None, f"node {NODE.name}"),
    ],
)
def test_a_name_means_a_pod_or_a_node(text: str, namespace: str | None, found: str) -> None:
    assert subject(text, namespace) == found


@pytest.mark.parametrize(
    ("text", "namespace", "named"),
    [
        ("web", None, "Deployment default/web"),
        ("deploy/web", None, "Deployment default/web"),
        ("deployments/web", None, "Deployment default/web"),
        ("default/web", None, "Deployment default/web"),
        ("rs/web-7f9", None, "ReplicaSet default/web-7f9"),
        ("plain-7f9", None, "ReplicaSet default/plain-7f9"),
        ("ds/log", None, "DaemonSet default/log"),
        ("shop/db", None, "StatefulSet shop/db"),
        ("sts/db", "shop", "StatefulSet shop/db"),
        ("gpu", None, "NodePool gpu"),
        ("nodepools/gpu", None, "NodePool gpu"),
    ],
)
def test_or_a_workload_or_a_node_pool(text: str, namespace: str | None, named: str) -> None:
    assert named.lower() in subject(text, namespace).lower()


@pytest.mark.parametrize(
    ("text", "namespace", "problem"),
    [
        ("twice", None, "'twice' names several pods, give one with its namespace: default/twice, shop/twice"),
        (
            "db",
            None,
            "names several workloads, give one with its namespace: StatefulSet default/db, StatefulSet shop/db",
        ),
        ("log-a", "shop", "there is no pod, node, workload, group or NodePool 'log-a' in the input"),
        ("sts/log", None, "there is no pod, node, workload, group or NodePool 'sts/log' in the input"),
        ("plain", None, "there is no pod, node, workload, group or NodePool 'plain' in the input"),
        ("pod/ip-10-0-0-4", None, "there is no pod, node, workload, group or NodePool"),
        ("node/log-a", None, "there is no pod, node, workload, group or NodePool"),
        ("ip-10-0-0", None, "there is no pod, node, workload, group or NodePool"),
    ],
)
def test_a_name_of_several_or_of_none_is_refused(text: str, namespace: str | None, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        subject(text, namespace)
    assert problem in raised.value.problem


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("logg-a", "near it there is log-a"),
        ("gpus", "near it there is gpu"),
        ("webb", "near it there is web"),
        ("unborm", "near it there is unborn"),
        ("qqqqqqqq", "the pods of a workload are named <workload>-<n>"),
        ("nodepool/qqqqqqqq", "NodePools in the input: default, gpu"),
    ],
)
def test_names_of_every_kind_with_a_similar_spelling_are_suggested(text: str, hint: str) -> None:
    with pytest.raises(InputError) as raised:
        subject(text)
    assert hint in raised.value.hint


@pytest.mark.parametrize("code", [*PodReason, *NodeReason])
def test_every_code_is_explained_and_nothing_else_is_one(code: PodReason | NodeReason) -> None:
    found = explain_code(code.value)
    assert found is not None
    assert (found.subject, found.outcome) == (f"code {code.value}", f"means: {code.meaning}")
    assert found.details == tuple(line for line in (code.advice, f"more: {PAGE}#{code.value.lower()}") if line)
    assert explain_code(code.value.lower()) is None


@pytest.mark.parametrize(("text", "hint"), [("LimitReachd", "did you mean LimitReached?"), ("Qqqq", PAGE)])
def test_a_misspelt_code_is_no_object(text: str, hint: str) -> None:
    """The cluster was read for it, and people without one were told that they have no kubeconfig."""
    with pytest.raises(InputError, match="there is no reason code") as raised:
        explain_code(text)
    assert hint in raised.value.hint
    assert explain_code(f"Deployment/{text}") is None


def test_a_node_is_meant_before_a_pod_of_its_name() -> None:
    world = msgspec.structs.replace(WORLD, pods=(a_pod(NODE.name),))
    assert NamedTarget(world, NODE.name, None).explained(lambda: 1.0).subject == f"node {NODE.name}"
    assert NamedTarget(world, f"pod/{NODE.name}", None).explained(lambda: 1.0).subject == f"pod default/{NODE.name}"


def a_grouped_world(minimum: int, **changes: Any) -> Any:
    notes = {labels.GROUP: "train", labels.GROUP_MINIMUM: str(minimum), labels.GROUP_TOPOLOGY: labels.ZONE}
    pods = tuple(a_pod(f"t-{i}", annotations=notes, **changes) for i in range(2))
    return a_snapshot(types=(TYPE,), pods=pods, node_pools=(a_pool(),))


@pytest.mark.parametrize(
    ("name", "namespace"), [("group/train", None), ("group/train", "default"), ("default/train", None)]
)
def test_a_group_is_found_by_its_name(name: str, namespace: str | None) -> None:
    found = NamedTarget(a_grouped_world(2), name, namespace).explained(None)
    assert (found.subject, found.outcome, found.has_no_place) == ("group default/train", "has 2 of 2 places", False)
    assert "all members share one value of topology.kubernetes.io/zone" in found.details


def test_a_group_that_waits_says_why_and_so_do_its_pods() -> None:
    for name in ("group/train", "t-0"):
        found = NamedTarget(a_grouped_world(3), name, None).explained(None)
        assert (found.reason, found.has_no_place) == (PodReason.GROUP_INCOMPLETE, True)
        assert any("2 of 3 members can be planned for" in line for line in found.details)


def test_a_group_that_runs_needs_no_plan() -> None:
    found = NamedTarget(a_grouped_world(2, node_name="n"), "group/train", None).explained(None)
    assert (found.outcome, found.reason) == ("runs", "")
    assert "2 run on n" in found.details


def test_a_group_whose_members_are_all_gated_waits() -> None:
    found = NamedTarget(a_grouped_world(2, is_gated=True), "group/train", None).explained(None)
    assert (found.outcome, found.reason) == ("waits", PodReason.GROUP_INCOMPLETE)


def test_the_kind_tells_groups_of_one_name_apart() -> None:
    kueue = tuple(
        a_pod(f"k-{i}", labels={labels.KUEUE_GROUP: "train"}, annotations={labels.KUEUE_GROUP_COUNT: "2"})
        for i in range(2)
    )
    world = a_grouped_world(2)
    room = RequestedPods(pods=3, spec=a_pod().spec)
    request = ProvisioningRequest(
        namespace="default", name="train", provisioning_class=ATOMIC_SCALE_UP, pod_sets=(room,)
    )
    world = msgspec.structs.replace(world, pods=(*world.pods, *kueue), provisioning_requests=(request,))
    outcomes = {
        name: NamedTarget(world, name, None).explained(None).details[0]
        for name in ("group/train", "provisioningrequest/train")
    }
    assert outcomes["group/train"].startswith("written as Annotation: 2 members")
    assert outcomes["provisioningrequest/train"].startswith("written as ProvisioningRequest: 3 members")


def test_a_group_that_is_not_there_names_those_that_contain_its_name() -> None:
    """Each group of a LeaderWorkerSet has a name of its own, which ends in a number."""
    with pytest.raises(InputError) as error:
        NamedTarget(a_grouped_world(2), "group/trai", None).explained(None)
    assert error.value.hint == "groups in the input: group/default/train"
