"""Which kinds an observation lists, and what becomes of objects that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.observation.cluster_reader import UNBOUND, ClusterReader
from adapters.observation.current_node_classes import CURRENT_ONLY
from core.manifests.assemble import ObjectProblem
from core.manifests.wire import api_resources as kinds
from core.model.feature_gates import FeatureGates
from core.model.pod import TopologySpread
from core.model.snapshot import Options
from tests.builders import a_class_manifest
from tests.fakes.lab import Lab, a_joining_node, a_node_pool, a_pending_pod

ALWAYS = {"nodes", "nodepools", "ec2nodeclasses", "daemonsets", "poddisruptionbudgets", "namespaces", "priorityclasses"}
OWNERS = {"services", "replicasets", "statefulsets", "replicationcontrollers"}
SPREAD = TopologySpread("zone", 1, selector=None)


class SettingsWith:
    """The settings that a reader asks: these options, of a function that acts or only observes."""

    def __init__(self, is_shadow: bool, **options: Any) -> None:
        self.is_shadow = is_shadow
        self._options = Options(**options)

    def options(self) -> Options:
        return self._options


def reader(*, is_shadow: bool = False, **options: Any) -> tuple[ClusterReader, Lab, list[str]]:
    """A reader of a cluster with a pod and a node, and what it calls."""
    lab, called = Lab(), list[str]()
    lab.kubernetes.put(a_pending_pod("p"), a_joining_node("n", "aws:///us-east-1a/i-1"))
    lab.kubernetes.before_call = called.append
    settings: Any = SettingsWith(is_shadow, **options)
    return ClusterReader(lab.kubernetes, settings, lab.clock, CURRENT_ONLY), lab, called


def of_lists(calls: list[str]) -> list[str]:
    return [call.removeprefix("list ") for call in calls if call.startswith("list ")]


def test_an_observation_without_pods_lists_what_repair_needs() -> None:
    found, _, calls = reader()
    objects = found.without_pods()
    assert of_lists(calls) == ["nodes", "nodepools", "ec2nodeclasses"]
    assert [node.metadata.name for node in objects.by_kind[kinds.NODES]] == ["n"]
    assert (list(objects.node_pools()), list(objects.node_classes_by_name())) == (["default"], ["default"])


def test_a_whole_observation_lists_nodes_before_pods() -> None:
    """A pod that is bound in between counts on its node; the other way round its node would lack it."""
    found, _, calls = reader()
    assert found.complete().rejected == ()
    assert set(of_lists(calls)) == ALWAYS | {"pods"}
    assert of_lists(calls)[-1] == "pods"
    assert len(of_lists(calls)) == len(set(of_lists(calls)))


@pytest.mark.parametrize(
    ("settings", "more", "of_launches"),
    [
        ({}, set(), set()),
        ({"feature_gates": FeatureGates(node_overlay=True)}, {"nodeoverlays"}, {"nodeoverlays"}),
        ({"feature_gates": FeatureGates(capacity_buffer=True)}, {"capacitybuffers"}, set()),
        ({"is_shadow": True}, {"nodeclaims"}, set()),
        ({"default_spreads": (SPREAD,)}, OWNERS, set()),
    ],
)
def test_further_kinds_are_listed_where_a_setting_needs_them(
    settings: dict[str, Any], more: set[str], of_launches: set[str]
) -> None:
    """Each list of a large cluster costs the API server and the function time."""
    found, _, calls = reader(**settings)
    found.complete()
    assert set(of_lists(calls)) == ALWAYS | {"pods"} | more
    calls.clear()
    launches = found.for_launches()
    assert of_lists(calls) == ["nodepools", "ec2nodeclasses", *of_launches]
    assert list(launches.node_classes_by_name()) == ["default"]
    assert list(launches.node_pools()) == ["default"]
    calls.clear()
    assert not found.has_buffers()
    assert of_lists(calls) == sorted(more & {"capacitybuffers"})


def test_buffers_that_name_workloads_have_these_listed_once() -> None:
    found, lab, calls = reader(feature_gates=FeatureGates(capacity_buffer=True), default_spreads=(SPREAD,))
    scaled = {"apiGroup": "apps", "kind": "StatefulSet", "name": "web"}
    lab.kubernetes.put(
        {
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "default"}, "spec": {"replicas": 1, "scalableRef": scaled},
        }
    )  # fmt: skip
    assert found.has_buffers()
    calls.clear()
    found.complete()
    assert sorted(of_lists(calls)) == sorted(ALWAYS | {"pods", "capacitybuffers"} | OWNERS)


def test_an_object_that_cannot_be_read_is_named_and_keeps_no_other_from_being_read() -> None:
    found, lab, _ = reader()
    kind = kinds.NAMESPACES
    for name, label in (("odd", 3), ("good", "a")):
        lab.kubernetes.put(
            {"apiVersion": "v1", "kind": kind.kind, "metadata": {"name": name, "labels": {"team": label}}}
        )
    objects = found.complete()
    why = "metadata.labels.team: must be text, not a number"
    assert objects.rejected == (
        ObjectProblem(resource=kind, position=-1, subject="Namespace odd", field="", problem=why),
    )
    assert [namespace.metadata.name for namespace in objects.by_kind[kind]] == ["good"]


def test_pools_and_classes_are_found_by_name_in_order() -> None:
    found, lab, _ = reader()
    lab.kubernetes.put(a_node_pool("b"), a_node_pool("a"), a_class_manifest("b"), a_class_manifest("a"))
    objects = found.without_pods()
    assert list(objects.node_pools()) == ["a", "b", "default"]
    assert list(objects.node_classes_by_name()) == ["a", "b", "default"]
    assert found.node_class("b")["metadata"]["name"] == "b"
    assert objects.node_pools()["b"]["metadata"]["name"] == "b"


def test_pods_are_selected_by_the_api_server() -> None:
    found, _, calls = reader()
    assert [pod.name for pod in found.pods(UNBOUND)] == ["p"]
    assert of_lists(calls) == [f"pods {UNBOUND}"]
    assert found.pods("spec.nodeName=n") == ()
