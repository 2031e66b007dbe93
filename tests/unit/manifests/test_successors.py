"""What comes when a pod goes: its controller's present template, with what only the running pod has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core.manifests.admission import PodAdmission
from core.manifests.assemble import assemble
from core.manifests.pods import PodTranslator
from core.manifests.successors import Successors
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.model.catalogue import Catalogue
from core.model.pod import Pod, Successor
from core.pods import successor
from tests.builders import NOW

REVISED = {"app": "web", "controller-revision-hash": "web-new", "tier": "new"}


def containers(**cpu: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "resources": {"requests": {"cpu": amount} if amount else {}}} for name, amount in cpu.items()
    ]


def a_controller(kind: str = "StatefulSet", *, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers(main="3")}}
    return {"kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": template, **spec}} | {
        "status": status or {}
    }


def a_pod(
    kind: str = "StatefulSet", name: str = "web-2", *, owner: str = "web", meta: Any = None, **spec: Any
) -> dict[str, Any]:
    owners = [{"kind": kind, "name": owner, "controller": True}]
    metadata = {"name": name, "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": owners, "uid": "1"}
    return {
        "kind": "Pod",
        "metadata": metadata | (meta or {}),
        "spec": {"nodeName": "n1", "containers": containers(main="500m"), **spec},
        "status": {"phase": "Running"},
    }


def read(*objects: dict[str, Any]) -> Pod:
    by_kind: dict[Resource, list[Any]] = {}
    for obj in objects:
        resource = resources.BY_KIND[obj["kind"]]
        by_kind.setdefault(resource, []).append(decoding.from_object(resource, obj))
    snapshot, problems = assemble(by_kind, now=NOW, catalogue=Catalogue())
    assert not problems
    return snapshot.pods[0]


def cpu_after(*objects: dict[str, Any]) -> int:
    return successor(read(*objects)).spec.requests["cpu"]


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController", "Job", "StatefulSet"])
def test_a_resized_pod_is_followed_by_one_of_its_templates_size(kind: str) -> None:
    """A resize changes the pod, not the template (KEP-1287)."""
    assert cpu_after(a_pod(kind), a_controller(kind)) == 3000
    grown = a_pod(kind, containers=containers(main="8"))
    assert cpu_after(grown, a_controller(kind)) == 3000


def test_a_replica_set_that_is_not_given_has_its_deployments_template() -> None:
    """The pods' hash tells which Deployment it is."""
    labels = {"labels": {"app": "web", "pod-template-hash": "7f9"}}
    assert cpu_after(a_pod("ReplicaSet", owner="web-7f9", meta=labels), a_controller("Deployment")) == 3000


def test_a_pod_of_an_unknown_controller_is_followed_by_its_like() -> None:
    """Nothing says otherwise."""
    pod = read(a_pod("Workflow"), a_controller())
    assert pod.successor is None
    assert successor(pod) is pod


def test_the_sizes_of_a_vertical_autoscaler_stay() -> None:
    """It sets them again on the next pod."""
    assert (
        read(a_pod(meta={"annotations": {"vpaUpdates": "Pod resources updated by web"}}), a_controller()).successor
        is None
    )


def test_what_a_webhook_added_stays() -> None:
    """It adds the same to the next pod: a sidecar, and a request that the template leaves open."""
    template = {"spec": {"containers": containers(main="")}}
    injected = a_pod(containers=containers(main="500m", proxy="100m"))
    assert read(injected, a_controller(template=template)).successor is None
    assert cpu_after(injected, a_controller()) == 3100


def test_the_next_pod_goes_through_admission() -> None:
    """A LimitRange that is newer than the pod gives it a size."""
    bounds = {
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "shop"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]},
    }
    template = {"spec": {"containers": containers(main="")}}
    assert cpu_after(a_pod(containers=containers(main="")), a_controller(template=template), bounds) == 2000


OLD = {"labels": {"app": "web", "controller-revision-hash": "web-old", "apps.kubernetes.io/pod-index": "2"}}
ROLLOUT = {"currentRevision": "web-old", "updateRevision": "web-new"}


@pytest.mark.parametrize(
    ("strategy", "follows"),
    [
        ({"type": "OnDelete"}, True),
        ({"type": "RollingUpdate"}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}, False),
    ],
)
def test_a_stateful_sets_pod_is_followed_by_the_update_revision(strategy: dict[str, Any], *, follows: bool) -> None:
    """Unless the partition keeps its ordinal at the current one (pkg/controller/statefulset, newVersionedStatefulSetPod)."""
    template = {
        "metadata": {"labels": {"app": "web", "tier": "new"}},
        "spec": {"containers": containers(main="3"), "nodeSelector": {"disk": "fast"}},
    }
    pod = read(a_pod(meta=OLD), a_controller(status=ROLLOUT, updateStrategy=strategy, template=template))
    after = successor(pod)
    assert (pod.successor is not None) == follows
    if follows:
        assert after.spec.requests["cpu"] == 3000
        assert [requirement.key for requirement in after.spec.node_selector] == ["disk"]
        assert after.labels == {"app": "web", "tier": "new", "apps.kubernetes.io/pod-index": "2"}
        assert after.key == pod.key


def test_a_new_revision_keeps_the_volumes_of_its_ordinal() -> None:
    """They are the StatefulSet's claims, which the template does not name."""
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}},
        {"name": "shared", "persistentVolumeClaim": {"claimName": "old-shared"}},
    ]
    template = {
        "spec": {
            "containers": containers(main="3"),
            "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "new-shared"}}],
        }
    }
    controller = a_controller(status=ROLLOUT, updateStrategy={"type": "OnDelete"}, template=template)
    after = successor(read(a_pod(meta=OLD, volumes=volumes), controller))
    assert sorted(after.claim_names()) == ["data-web-2", "new-shared"]


def test_a_pod_that_cannot_be_read_is_followed_by_its_like() -> None:
    """What would be compared with the template is not known."""
    wire = decoding.from_object(resources.PODS, a_pod(containers=containers(main="lots")))
    controllers = {resources.STATEFUL_SETS: [decoding.from_object(resources.STATEFUL_SETS, a_controller())]}
    successors = Successors(controllers, PodAdmission(controllers), PodTranslator())
    assert successors.of(msgspec.structs.replace(wire, unreadable="is wrong"), read(a_pod())) is None


def test_a_pending_pod_has_no_successor() -> None:
    """It is planned itself."""
    assert read(a_pod() | {"spec": {"containers": containers(main="500m")}}, a_controller()).successor is None


def test_a_template_that_cannot_be_read_changes_nothing() -> None:
    """The running pod shows what is needed."""
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "lots"}}}]}}
    assert read(a_pod(), a_controller(template=template)).successor is None


def test_a_successor_is_part_of_a_snapshot_that_is_stored() -> None:
    """A replay of the decision reads it."""
    from core import codec

    pod = read(a_pod(), a_controller())
    assert isinstance(pod.successor, Successor)
    by_kind = {resources.PODS: [decoding.from_object(resources.PODS, a_pod())]}
    snapshot, _ = assemble(by_kind, now=NOW, catalogue=Catalogue())
    stored = msgspec.structs.replace(snapshot, pods=(pod,))
    assert codec.decode_snapshot(codec.encode_snapshot(stored)) == stored


def test_a_pod_whose_controllers_are_not_given_has_no_other_successor() -> None:
    """Then nothing tells what comes; the same pod with its controller has one."""
    written = decoding.from_object(resources.PODS, a_pod())
    controller = decoding.from_object(resources.STATEFUL_SETS, a_controller())
    pods = PodTranslator()
    for objects, follows in (({}, False), ({resources.STATEFUL_SETS: [controller]}, True)):
        found = Successors(objects, PodAdmission(objects), pods).of(written, pods.pod(written))
        assert (found is not None) == follows
