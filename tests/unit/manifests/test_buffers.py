"""Reading CapacityBuffers: an error here pays for room without need, or makes a burst of pods wait for nodes."""

from __future__ import annotations

from typing import Any

import pytest

from core.manifests.assemble import ObjectProblem, assemble
from core.manifests.buffers import PODS_MAX, needed_kinds
from core.manifests.wire import decoding, resources
from core.model.catalogue import Catalogue
from core.model.snapshot import CapacityBuffer
from tests.builders import NOW

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


def read(**spec: Any) -> tuple[tuple[CapacityBuffer, ...], tuple[ObjectProblem, ...]]:
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
    (buffer,), problems = read(**spec)
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
    buffers, (problem,) = read(**spec)
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
    buffers, (problem,) = read(**spec)
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
    (found,), problems = read(**BY_TEMPLATE, replicas=PODS_MAX)
    assert (found.pods, problems) == (PODS_MAX, ())
    none, (problem,) = read(**BY_TEMPLATE, replicas=PODS_MAX + 1)
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
