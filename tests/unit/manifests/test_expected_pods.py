"""Pods of CapacityBuffers, and the pod that comes when a pod goes: its controller's present template."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core.manifests.admission import PodAdmission
from core.manifests.assemble import ObjectProblem, assemble
from core.manifests.expected_pods import PODS_MAX, Successors, needed_kinds
from core.manifests.pods import PodTranslator
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.model.catalogue import Catalogue
from core.model.pod import Pod, Successor
from core.model.snapshot import CapacityBuffer
from core.pods import successor
from tests.builders import NOW

# CapacityBuffers: an error here pays for room without need, or makes a burst of pods wait for nodes.


POD = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}
TEMPLATE = {
    "metadata": {"name": "shape", "namespace": "shop"},
    "template": {"metadata": {"labels": {"app": "a"}}, "spec": POD},
}
CART = {
    "metadata": {"name": "cart", "namespace": "shop"},
    "spec": {"replicas": 10, "template": {"metadata": {"labels": {"app": "cart"}}, "spec": POD}},
}
BY_TEMPLATE = {"podTemplateRef": {"name": "shape"}}
BY_CART = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "cart"}}


def read_buffers(**spec: Any) -> tuple[tuple[CapacityBuffer, ...], tuple[ObjectProblem, ...]]:
    """The result for a buffer with this spec."""
    buffer = {"metadata": {"name": "spare", "namespace": "shop", "uid": "u"}, "spec": spec}
    given = {resources.POD_TEMPLATES: [TEMPLATE], resources.DEPLOYMENTS: [CART], resources.CAPACITY_BUFFERS: [buffer]}
    objects = {kind: [decoding.from_object(kind, obj) for obj in found] for kind, found in given.items()}
    snapshot, problems = assemble(objects, now=NOW, catalogue=Catalogue())
    return snapshot.buffers, problems


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({**BY_TEMPLATE, "replicas": 3}, 3),
        ({**BY_TEMPLATE, "limits": {"cpu": "2", "memory": "3500Mi"}}, 3),
        ({**BY_TEMPLATE, "replicas": 5, "limits": {"cpu": "2"}}, 4),
        ({**BY_TEMPLATE, "replicas": 5, "limits": {"nvidia.com/gpu": "1"}}, 5),
        ({**BY_TEMPLATE, "replicas": 5, "percentage": 900}, 5),
        ({**BY_CART, "percentage": 11}, 2),
        ({**BY_CART, "percentage": 1}, 1),
        ({**BY_CART, "percentage": 0}, 0),
        ({**BY_CART, "percentage": 50, "replicas": 2}, 5),
        ({**BY_CART, "percentage": 50, "limits": {"cpu": "1"}}, 2),
        ({**BY_CART, "limits": {"cpu": "1200m"}}, 2),
        (BY_CART, 0),
    ],
)
def test_how_many_pods_a_buffer_keeps_room_for(spec: dict[str, Any], pods: int) -> None:
    """The larger of replicas and percentage, within the limits; with neither, as many as the limits allow."""
    (buffer,), problems = read_buffers(**spec)
    assert (buffer.pods, problems) == (pods, ())


def test_a_buffer_has_the_labels_and_needs_of_its_template_and_no_volumes() -> None:
    """Otherwise, its pods wait for volume claims that never exist, or count for no spread."""
    held = {
        **POD,
        "nodeSelector": {"team": "a"},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}],
    }
    with_volume = {**TEMPLATE, "template": {**TEMPLATE["template"], "spec": held}}
    objects = {
        resources.POD_TEMPLATES: [decoding.from_object(resources.POD_TEMPLATES, with_volume)],
        resources.CAPACITY_BUFFERS: [
            decoding.from_object(
                resources.CAPACITY_BUFFERS,
                {
                    "metadata": {"name": "spare", "namespace": "shop", "uid": "u"},
                    "spec": {**BY_TEMPLATE, "replicas": 1},
                },
            )
        ],
    }
    (buffer,) = assemble(objects, now=NOW, catalogue=Catalogue())[0].buffers
    assert (buffer.namespace, buffer.name, buffer.uid) == ("shop", "spare", "u")
    assert (buffer.labels, buffer.spec.volumes, buffer.spec.requests["cpu"]) == ({"app": "a"}, (), 500)
    assert [requirement.key for requirement in buffer.spec.node_selector] == ["team"]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({**BY_TEMPLATE, "replicas": -1}, "spec.replicas: -1 is less than zero"),
        ({**BY_TEMPLATE}, "spec.replicas: replicas or limits must state how much room to keep"),
        (
            {**BY_TEMPLATE, **BY_CART, "replicas": 1},
            "spec.scalableRef: cannot be combined with podTemplateRef: keep one of them",
        ),
        (
            {**BY_TEMPLATE, "limits": {"cpu": "much"}},
            "spec.limits.cpu: 'much' is not a quantity",
        ),
        ({"scalableRef": {"kind": "Job", "name": "j"}}, "spec.scalableRef.kind: Job is none of"),
        (
            {"scalableRef": {"apiGroup": "x.io", "kind": "Deployment", "name": "j"}},
            "spec.scalableRef.kind: Deployment.x.io is",
        ),
        ({**BY_TEMPLATE, "replicas": 200_000}, "spec.replicas: 200000 pods are more than 100000"),
    ],
)
def test_a_mistake_names_buffer_and_field(spec: dict[str, Any], complaint: str) -> None:
    """A user has to find it among hundreds of objects."""
    buffers, (problem,) = read_buffers(**spec)
    assert buffers == ()
    assert str(problem).startswith(f"CapacityBuffer shop/spare: {complaint}")
    assert not problem.is_warning


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (
            {"podTemplateRef": {"name": "gone"}, "replicas": 1},
            "spec.podTemplateRef.name: there is no PodTemplate shop/gone",
        ),
        (
            {"scalableRef": {"kind": "Deployment", "name": "gone"}},
            "spec.scalableRef.name: there is no Deployment shop/gone",
        ),
        ({"replicas": 1}, "spec: names neither podTemplateRef nor scalableRef"),
        (
            {**BY_TEMPLATE, "replicas": 1, "provisioningStrategy": "buffer.gke.io/standby"},
            "spec.provisioningStrategy: ",
        ),
    ],
)
def test_a_buffer_with_a_missing_reference_is_left_out_with_a_warning(spec: dict[str, Any], complaint: str) -> None:
    """The referenced object may be applied a minute later; pending pods must not wait for it."""
    buffers, (problem,) = read_buffers(**spec)
    assert buffers == ()
    assert str(problem).startswith(f"CapacityBuffer shop/spare: {complaint}")
    assert problem.is_warning


def test_only_the_kinds_that_buffers_name_are_listed() -> None:
    """Otherwise, each plan lists all Deployments of a cluster for buffers that name none."""
    by_template, by_cart = (
        decoding.from_object(resources.CAPACITY_BUFFERS, {"metadata": {"name": "b"}, "spec": spec})
        for spec in (BY_TEMPLATE, BY_CART)
    )
    assert set(needed_kinds((by_template,))) == {resources.POD_TEMPLATES}
    assert set(needed_kinds((by_cart,))) == {resources.DEPLOYMENTS}


def test_a_buffer_may_have_as_many_pods_as_a_workload() -> None:
    """One more is a typing error."""
    (found,), problems = read_buffers(**BY_TEMPLATE, replicas=PODS_MAX)
    assert (found.pods, problems) == (PODS_MAX, ())
    none, (problem,) = read_buffers(**BY_TEMPLATE, replicas=PODS_MAX + 1)
    assert (none, problem.field) == ((), "spec.replicas")


def test_a_fault_of_the_template_is_named_in_the_template() -> None:
    wrong = {"metadata": {"name": "shape"}, "template": {"spec": {"tolerations": [{"operator": "Like"}]}}}
    objects = {
        resources.POD_TEMPLATES: [decoding.from_object(resources.POD_TEMPLATES, wrong)],
        resources.CAPACITY_BUFFERS: [
            decoding.from_object(
                resources.CAPACITY_BUFFERS, {"metadata": {"name": "spare"}, "spec": {**BY_TEMPLATE, "replicas": 1}}
            )
        ],
    }
    _, (problem,) = assemble(objects, now=NOW, catalogue=Catalogue())
    assert problem.field.endswith("template.spec.tolerations[0].operator")
    assert problem.field != "spec.tolerations[0].operator"


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


def test_a_pod_whose_resize_its_node_refuses_is_followed_by_one_of_the_full_size() -> None:
    """On its node it counts with what it has. The next pod asks for what the spec says, and kube-scheduler counts that."""
    refused = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    had = {"name": "main", "resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "500m"}}
    status = {"status": {"phase": "Running", "conditions": [refused], "containerStatuses": [had]}}
    pod = a_pod("Workflow", containers=containers(main="2")) | status
    assert read(pod).spec.requests["cpu"] == 500
    assert cpu_after(pod) == 2000
    assert cpu_after(a_pod("StatefulSet", containers=containers(main="2")) | status, a_controller()) == 3000


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
