"""Counting what the input holds."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cli.errors import InputError
from cli.manifests import checks, cluster_refusals
from cli.manifests.inventory import (
    Document,
    Inventory,
    field_in,
    named_region,
    refusals_of,
    refused_version_of,
    take_inventory,
)
from cli.manifests.reading import parse
from cli.validation.examine import refused_fields, template_findings
from core import labels
from core.manifests.wire import resources
from tests.e2e.parts.processes import LackingError
from tests.oracle_scheduler import creating

# How a document names its object and its place in errors.


@pytest.mark.parametrize(
    ("obj", "subject", "namespace"),
    [
        ({"kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}}, "Pod shop/p", "shop"),
        ({"kind": "Node", "metadata": {"name": "n"}}, "Node n", "default"),
        ({"kind": "Node", "metadata": {"name": None, "namespace": None}}, "Node without a name", "default"),
        ({"metadata": {"name": "x"}}, "object x", "default"),
        ({"kind": "Pod", "metadata": 7}, "Pod without a name", "default"),
        ({"kind": "Pod"}, "Pod without a name", "default"),
    ],
)
def test_an_object_is_named_by_kind_namespace_and_name(obj: dict[str, Any], subject: str, namespace: str) -> None:
    found = Document("a.yaml", 0, obj)
    assert (found.subject, found.namespace) == (subject, namespace)


@pytest.mark.parametrize(
    ("problem", "told"),
    [("spec: is odd", "Pod p: spec: is odd"), ("Pod p: spec: is odd", "Pod p: spec: is odd")],
)
@pytest.mark.parametrize(("source", "given"), [("a.yaml", "a.yaml"), ("my file.yaml", "'my file.yaml'"), ("-", "-")])
def test_an_error_names_its_object_once_and_says_how_to_see_all(
    problem: str, told: str, source: str, given: str
) -> None:
    error = Document(source, 2, {"kind": "Pod", "metadata": {"name": "p"}}, "items[1]").error(problem)
    assert (error.problem, error.source, error.index, error.place) == (told, source, 2, "items[1]")
    assert error.hint == f"`fleetwright validate -f {given}` lists every problem of every object"


def inventory(text: str) -> Inventory:
    return take_inventory(parse(text, "x.yaml"))


def fault(text: str) -> str:
    with pytest.raises(InputError) as caught:
        inventory(text)
    return str(caught.value)


def test_unknown_kinds_are_counted_in_one_line() -> None:
    """A cluster dump has hundreds of them."""
    secret, widget = (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: %s}",
        "apiVersion: x/v1\nkind: Widget\nmetadata: {name: a}",
    )
    found = inventory("\n---\n".join([secret % "a", widget, secret % "b"]))
    assert list(found.warnings()) == ["skipped 3 objects of kinds that are not read here: Secret 2, Widget 1"]


def test_an_unknown_kind_needs_no_name() -> None:
    """Many folders of manifests contain a kustomization.yaml."""
    found = inventory("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []")
    assert found.skipped == {"Kustomization": 1}


def test_a_kind_of_another_group_is_another_kind() -> None:
    """Knative has Services too."""
    found = inventory("apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: a}")
    assert found.skipped == {"Service": 1}
    assert resources.SERVICES not in found.objects


def test_an_object_given_twice_counts_once() -> None:
    """The later one counts, as with kubectl apply; a pod counted twice would launch a node too many."""
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a%s}\nspec: {priority: %d}"
    found = inventory("\n---\n".join([pod % ("", 1), pod % (", namespace: b", 2), pod % (", namespace: default", 3)]))
    assert [(p.metadata.namespace, p.spec.priority) for p in found.objects[resources.PODS]] == [
        ("b", 2),
        ("default", 3),
    ]
    assert len(list(found.warnings())) == 1


def test_workloads_are_expanded_with_their_document() -> None:
    """A fault in a template must be reported with the workload's document."""
    text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: cart}\nspec: {replicas: 2}"
    found = inventory(text)
    assert [pod.metadata.name for pod in found.objects[resources.PODS]] == ["cart-0", "cart-1"]
    assert {document.subject for document in found.documents[resources.PODS]} == {"Deployment cart"}


def test_older_karpenter_objects_are_converted() -> None:
    """The contract accepts v1beta1 and v1alpha5."""
    text = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: old}
spec: {providerRef: {name: old}}
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: old}
spec: {subnetSelector: {a: b}, securityGroupSelector: {a: b}}
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: newer}
spec: {template: {spec: {nodeClassRef: {name: old}, requirements: []}}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: present}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: old}, requirements: []}}}
"""
    found = inventory(text)
    assert {pool["apiVersion"] for pool in found.objects[resources.NODE_POOLS]} == {"karpenter.sh/v1"}
    assert [pool["metadata"]["name"] for pool in found.objects[resources.NODE_POOLS]] == ["old", "newer", "present"]
    assert [obj["kind"] for obj in found.objects[resources.EC2_NODE_CLASSES]] == ["EC2NodeClass"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("apiVersion: v1\nmetadata: {name: a}", ("document 1", "kind: is required")),
        ("apiVersion: v1\nkind: [Pod]", ("document 1", "kind: must be text")),
        ("apiVersion: v1\nkind: 5\nmetadata: {name: a}", ("document 1", "object a: kind: must be text")),
        ("apiVersion: 1\nkind: Foo\nmetadata: {name: a}", ("document 1", "Foo a: apiVersion: must be text")),
    ],
)
def test_an_object_of_no_kind_is_named_with_file_document_and_field(text: str, parts: tuple[str, ...]) -> None:
    """No part of the input is used, and the place is easy to find."""
    message = fault(text)
    assert all(part in message for part in parts), message


def template(amount: str, replicas: int = 1) -> str:
    return (
        f"spec: {{replicas: {replicas}, template: {{spec: {{containers: "
        f"[{{name: c, image: i, resources: {{requests: {{cpu: {amount}}}}}}}]}}}}}}"
    )


@pytest.mark.parametrize(
    ("text", "aside"),
    [
        ("apiVersion: v1\nkind: Pod", "Pod/default/without a name: metadata.name: is missing"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: shop}\nspec: {containers: 3}",
            "Pod/shop/b: spec.containers: must be a list, not a number",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: shop, labels: 7}",
            "Pod/shop/b: metadata.labels: must be an object, not a number",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: {overhead: {memory: {}}}",
            "Pod/default/b: spec.overhead.memory: must be a number or text, not an object",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\nspec: {replicas: -1}",
            "Deployment/default/b: spec.replicas: -1 is not between 0 and 200000",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\nspec: {replicas: 200001}",
            "Deployment/default/b: spec.replicas: 200001 is not between 0 and 200000",
        ),
        (
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: b}\nspec: {parallelism: many}",
            "Job/default/b: spec.parallelism: must be a number, not text",
        ),
        (
            "apiVersion: v1\nkind: LimitRange\nmetadata: {name: b}\nspec: {limits: [{type: Pod, min: {cpu: 1x}}]}",
            "LimitRange/default/b: spec.limits[0].min.cpu: '1x' is not a quantity such as 500m, 2 or 1.5Gi",
        ),
        (
            "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: b, uid: '1'}\nspec: {hard: {cpu: 1x}}",
            "ResourceQuota/default/b: spec.hard: '1x' is not a quantity such as 500m, 2 or 1.5Gi",
        ),
        (
            "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: b, uid: '1'}\noverhead: {podFixed: {cpu: 1x}}",
            "RuntimeClass/b: overhead.podFixed.cpu: '1x' is not a quantity such as 500m, 2 or 1.5Gi",
        ),
        (
            "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: b}\nspec: {launchTemplate: x}",
            (
                "AWSNodeTemplate/b: spec.launchTemplate: custom launch templates were removed in v1beta1; "
                "describe the nodes with userData and amiSelector"
            ),
        ),
    ],
)
def test_an_object_that_cannot_be_read_is_set_aside_with_file_document_and_field(text: str, aside: str) -> None:
    """One amount ended the whole plan: what one object says costs nobody else anything."""
    other = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}"
    taken = inventory(f"{other}\n---\n{text}")
    name, _, problem = aside.partition(": ")
    assert [(found.object, found.reason, found.message) for found in taken.set_aside] == [
        (name, "CannotBeRead", f"x.yaml: document 2: {problem}")
    ]
    assert [pod.metadata.name for pod in taken.objects[resources.PODS] if not pod.unreadable] == ["a"]


def test_objects_that_share_a_name_keep_their_place_beside_an_older_version() -> None:
    """One NodeOverlay, which has no v1, gave a class the place of the NodePool of its name."""
    pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}"
    node_class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}"
    overlay = "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {}"
    taken = inventory(f"{pool}\n---\n{node_class}\n---\n{overlay}")
    (document,) = taken.documents[resources.EC2_NODE_CLASSES]
    assert document.index == 1
    assert [aside.message for aside in taken.set_aside] == ["x.yaml: document 3: metadata.name: is missing"]


def test_a_workload_is_set_aside_for_what_a_plugin_reads_of_its_pods() -> None:
    """A LimitRange makes admission read the amounts: the message had neither file nor workload."""
    limits = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec: {limits: [{type: Container, max: {cpu: 9}}]}"
    workload = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\n%s"
    bad, good = workload % ("bad", template("1x")), workload % ("good", template("1"))
    taken = inventory(f"{limits}\n---\n{bad}\n---\n{good}")
    assert [(aside.object, aside.reason) for aside in taken.set_aside] == [("Deployment/default/bad", "CannotBeRead")]
    assert [pod.metadata.name for pod in taken.objects[resources.PODS]] == ["good-0"]
    assert [expansion.subject for expansion in taken.creations.expansions] == ["Deployment default/good"]


def test_a_quota_counts_a_pod_whose_amounts_cannot_be_read_as_one() -> None:
    quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {pods: 2}}"
    stored = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: s, uid: '1'}\n"
        "spec: {containers: [{name: c, resources: {requests: {cpu: 1x}}}]}"
    )
    workload = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2}"
    taken = inventory(f"{quota}\n---\n{stored}\n---\n{workload}")
    assert [pod.metadata.name for pod in taken.objects[resources.PODS]] == ["s", "web-0"]


@pytest.mark.parametrize("kind", ["NodePool", "Provisioner", "Pod", "Deployment"])
def test_an_object_of_a_version_that_does_not_exist_is_refused(kind: str) -> None:
    """The message was `spec.template: is required` for a Provisioner, and a Deployment of apps/v9 was read as of v1."""
    found = fault(f"apiVersion: karpenter.sh/v9\nkind: {kind}\nmetadata: {{name: a}}")
    assert found.startswith(f"x.yaml: document 1: {kind} a: apiVersion: karpenter.sh/v9 has no {kind}; allowed: ")


def test_a_cluster_wide_object_is_the_same_in_any_namespace() -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: a%s}\n"
    found = inventory("---\n".join([node % "", node % ", namespace: b"]))
    assert len(found.objects[resources.NODES]) == 1
    assert list(found.warnings()) == ["Node b/a is given more than once: the last one counts"]


@pytest.mark.parametrize(
    ("version", "kind", "said"),
    [
        ("v1", "Pod", ""),
        ("karpenter.sh/v1", "NodePool", ""),
        ("karpenter.sh/v1alpha5", "Provisioner", ""),
        ("example.com/v9", "Widget", ""),
        ("serving.knative.dev/v9", "Service", ""),
        (None, "Widget", ""),
        ("apps/v1", "Pod", "apps/v1 has no Pod; allowed: v1"),
        (None, "Pod", "is missing; allowed: v1"),
        ("karpenter.sh/v1", "NodePol", "karpenter.sh/v1 has no kind NodePol (did you mean NodePool?)"),
        ("karpenter.sh/v1", "Widget", "karpenter.sh/v1 has no kind Widget"),
        ("karpenter.sh/v9", "Provisioner", "karpenter.sh/v9 has no Provisioner; allowed: karpenter.sh/v1alpha5"),
    ],
)
def test_a_version_is_refused_with_those_that_are_read_or_with_the_kind_that_is_meant(
    version: str | None, kind: str, said: str
) -> None:
    assert refused_version_of(Document("-", 0, {"apiVersion": version, "kind": kind})) == said


def test_a_kind_of_a_group_of_others_is_no_misspelling_of_ours() -> None:
    """EKS Auto Mode has a NodeClass: that is no EC2NodeClass written wrongly."""
    objects = "apiVersion: x/v1\nkind: Deploymet\n---\napiVersion: serving.knative.dev/v1\nkind: Service\n---\nkind: X"
    (warning,) = inventory(f"{objects}\napiVersion: 'y'").warnings()
    assert warning == ("skipped 3 objects of kinds that are not read here: Deploymet 1, Service 1, X 1")


@pytest.mark.parametrize(
    ("kind", "resource", "field", "found"),
    [
        ("Deployment", resources.PODS, "spec.containers", "spec.template.spec.containers"),
        ("Deployment", resources.PODS, "", ""),
        ("Pod", resources.PODS, "spec.containers", "spec.containers"),
        ("StatefulSet", resources.PERSISTENT_VOLUME_CLAIMS, "spec", "spec"),
    ],
)
def test_a_field_of_a_pod_of_a_workload_is_in_its_template(kind: str, resource: Any, field: str, found: str) -> None:
    assert field_in(Document("-", 0, {"kind": kind}), resource, field) == found


# Which region's built-in prices answer a question.


def node(region: str) -> Document:
    return Document("-", 0, {"kind": "Node", "metadata": {"name": "n", "labels": {labels.REGION: region}}})


def node_pool(*zones: str, operator: str = "In") -> Document:
    requirement = {"key": labels.ZONE, "operator": operator, "values": list(zones)}
    spec = {"template": {"spec": {"requirements": [requirement]}}}
    return Document("-", 0, {"kind": "NodePool", "metadata": {"name": "p"}, "spec": spec})


def regions(*values: Any) -> Document:
    requirements = [{"key": labels.REGION, "operator": "In", "values": list(values)}]
    spec = {"template": {"spec": {"requirements": requirements}}}
    return Document("-", 0, {"kind": "NodePool", "metadata": {"name": "p"}, "spec": spec})


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([node("eu-west-1"), node("eu-west-1")], "eu-west-1"),
        ([node_pool("ap-southeast-2a", "ap-southeast-2b")], "ap-southeast-2"),
        ([node_pool("us-gov-west-1a")], "us-gov-west-1"),
        ([], None),
        ([regions(7, "eu-west-1", None)], "eu-west-1"),
        ([node("eu-west-1"), node("eu-west-2")], None),
        ([node("kwok-1"), node_pool("test-zone-1")], None),
        ([node_pool("eu-west-1a", operator="NotIn")], None),
    ],
)
def test_the_region_is_the_one_that_the_input_names(documents: list[Document], expected: str | None) -> None:
    """A cluster of Ireland planned with Virginia's zones has no offering at all."""
    assert named_region(documents) == expected


@pytest.mark.parametrize(
    "spec", [None, [], {"template": None}, {"template": {"spec": {"requirements": ["x", None, {}]}}}]
)
def test_objects_that_are_not_well_formed_name_no_region(spec: Any) -> None:
    """`validate` reports them, so it must come that far."""
    assert named_region([Document("-", 0, {"kind": "NodePool", "spec": spec})]) is None


BOUNDED = """
apiVersion: v1
kind: LimitRange
metadata: {name: bounds, namespace: shop}
spec: {limits: [{type: Container, max: {cpu: "1"}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: big, namespace: shop}
spec: {containers: [{name: c, resources: {limits: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: open, namespace: shop}
spec: {containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: stored, namespace: shop, uid: "1"}
spec: {containers: [{name: c, resources: {limits: {cpu: "2"}}}]}
"""


def test_pods_of_a_manifest_go_through_admission() -> None:
    """The API server refuses one and gives the other a limit; it has stored the third."""
    found = inventory(BOUNDED)
    pods = {pod.metadata.name: pod.spec.containers[0].resources.limits for pod in found.objects[resources.PODS]}
    assert pods == {"open": {"cpu": "1"}, "stored": {"cpu": "2"}}
    assert len(found.documents[resources.PODS]) == len(found.objects[resources.PODS])
    assert list(found.warnings()) == [
        "Pod shop/big would not be created: LimitRange bounds refuses the pod: container's limit of cpu is 2, at most 1"
    ]


def test_a_workload_whose_pods_are_refused_says_how_many() -> None:
    """No node is planned for them, and nobody else says so."""
    quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: team}\nspec: {hard: {pods: 2}}"
    workload = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 5}"
    found = inventory(f"{quota}\n---\n{workload}")
    assert len(found.objects[resources.PODS]) == 2
    said = "ResourceQuota team refuses the pod: 2 of 2 pods are used, and the pod needs 1"
    assert list(found.warnings()) == [f"Deployment default/web: 3 of 5 pods would not be created: {said}"]


GROUPS = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: ml}
spec:
  replicatedJobs:
  - {name: w, replicas: 2, template: {spec: {parallelism: 2, template: {spec: {containers: [{name: c}]}}}}}
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: llm, namespace: ml}
spec: {replicas: 2, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c}]}}}}
"""


def test_job_sets_and_leader_worker_sets_become_the_pods_of_their_controllers() -> None:
    """Otherwise `plan` would say of a training job that no pod waits."""
    found = take_inventory(parse(GROUPS, "x.yaml"))
    names = [pod.metadata.name for pod in found.objects[resources.PODS]]
    assert sorted(names) == [
        *("llm-0", "llm-0-1", "llm-1", "llm-1-1"),
        *("train-w-0-0", "train-w-0-1", "train-w-1-0", "train-w-1-1"),
    ]
    assert {document.kind for document in found.documents[resources.PODS]} == {"JobSet", "LeaderWorkerSet"}


# What the API server refuses: a fragment of a manifest, and the fields that are refused in it.


TABLE: Final = Path(__file__).with_name("refusals.txt")
BASES: Final[dict[str, dict[str, Any]]] = {
    obj["kind"]: obj for obj in yaml.safe_load_all(Path(__file__).with_name("accepted.yaml").read_text("utf-8"))
}


def merged(base: Any, change: Any) -> Any:
    """Return a value with a change: mappings are joined, anything else is replaced, and null takes a field away."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    joined = {**base, **{key: merged(base.get(key), part) for key, part in change.items()}}
    return {key: part for key, part in joined.items() if part is not None}


def refusals(obj: dict[str, Any]) -> list[tuple[str, str]]:
    return [(finding.field, finding.message) for finding in refused_fields(Document("a.yaml", 0, obj))]


def rows() -> list[tuple[str, str, list[str]]]:
    """Return kind, change and refused fields of each row: `Pod: {change} -> field, field`; no field if it is accepted."""
    lines = [line for line in TABLE.read_text("utf-8").splitlines() if line.strip() and not line.startswith("#")]
    parts = [(line.partition(": ")[0], *line.partition(": ")[2].rpartition(" ->")) for line in lines]
    return [(kind, change, fields.replace(",", " ").split()) for kind, change, _, fields in parts]


@pytest.mark.parametrize("kind", BASES)
def test_plain_objects_are_accepted(kind: str) -> None:
    assert refusals(BASES[kind]) == []


@pytest.mark.parametrize(("kind", "change", "fields"), rows())
def test_a_refused_field_is_named(kind: str, change: str, fields: list[str]) -> None:
    obj = merged(BASES[kind], yaml.safe_load(change))
    assert [field for field, _ in refusals(obj)] == fields


@pytest.fixture(name="program", scope="module")
def api_server_program() -> Path:
    """The API server's own rules: a program in Go, built once for all checkouts of a user."""
    try:
        return creating.build()
    except LackingError as error:
        pytest.skip(str(error))


def refused_by_all(program: Path, objects: list[dict[str, Any]]) -> list[bool]:
    """Whether each object is refused by every version that we support."""
    of_versions = [creating.refusals(program, objects, version) for version in creating.VERSIONS]
    return [all(said) for said in zip(*of_versions, strict=True)]


@pytest.mark.slow
def test_kubernetes_refuses_and_accepts_the_same(program: Path) -> None:
    objects = [*BASES.values(), *(merged(BASES[kind], yaml.safe_load(change)) for kind, change, _ in rows())]
    is_refused = [False] * len(BASES) + [bool(fields) for *_, fields in rows()]
    answers = zip(objects, is_refused, refused_by_all(program, objects), strict=True)
    assert not [obj for obj, ours, theirs in answers if ours != theirs]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_refused_that_kubernetes_accepts(seed: int, program: Path) -> None:
    """What we miss is known: fields that nobody gets wrong. One in twenty at most, of changes that are wilder than mistakes."""
    accepted = [merged(BASES[kind], yaml.safe_load(change)) for kind, change, fields in rows() if not fields]
    objects = list(creating.changed_at_random([*BASES.values(), *accepted], 1500, seed))
    answers = list(
        zip(objects, [bool(refusals(obj)) for obj in objects], refused_by_all(program, objects), strict=True)
    )
    assert not [obj for obj, ours, theirs in answers if ours and not theirs]
    assert sum(theirs and not ours for _, ours, theirs in answers) <= len(objects) // 20


def test_what_an_api_server_has_stored_is_not_refused() -> None:
    refused = merged(BASES["Pod"], {"spec": {"restartPolicy": "Sometimes"}})
    assert refusals(refused)
    for stored in ({"metadata": {"uid": "u"}}, {"spec": {"nodeName": "n"}}, {"status": {"phase": "Pending"}}):
        assert not refusals(merged(refused, stored))


# Nulls, which Helm writes where a value is not set.


def paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*at, key)
            yield from paths(part, (*at, key))


def changed(obj: dict[str, Any], path: tuple[str | int, ...], value: Any) -> tuple[dict[str, Any], Any]:
    """Return a copy with another value at a path, and what holds it there."""
    copied = deepcopy(obj)
    holder: Any = copied
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return copied, holder


def accepted_objects() -> list[dict[str, Any]]:
    return [
        *BASES.values(),
        *(merged(BASES[kind], yaml.safe_load(change)) for kind, change, fields in rows() if not fields),
    ]


MAPS: Final = (
    *("labels", "annotations", "matchLabels", "nodeSelector", "parameters", "limits", "requests", "hard", "capacity"),
    *("min", "max", "default", "defaultRequest", "maxLimitRequestRatio", "podFixed"),
)
"""Fields whose entries are names that people choose: null is a value there, empty or zero."""


def with_nulls() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield objects with null in one field, each beside the same object without the field."""
    for obj in accepted_objects():
        for path in paths(obj):
            if path[0] in ("apiVersion", "kind") or isinstance(path[-1], int) or (len(path) > 1 and path[-2] in MAPS):
                continue
            null, _ = changed(obj, path, None)
            without, holder = changed(obj, path, None)
            del holder[path[-1]]
            yield null, without


def test_null_is_no_value() -> None:
    """A DaemonSet with `maxSurge: null` was refused, as if it were a number other than zero."""
    pairs = list(with_nulls())
    assert len(pairs) > 1000
    assert not [null for null, without in pairs if bool(refusals(null)) != bool(refusals(without))]


@pytest.mark.slow
def test_a_null_is_refused_only_where_kubernetes_refuses_it(program: Path) -> None:
    objects = [changed(obj, path, None)[0] for obj in accepted_objects() for path in paths(obj) if path[0] != "kind"]
    objects = [obj for obj in objects if obj["apiVersion"]]
    answers = zip(objects, refused_by_all(program, objects), strict=True)
    assert not [obj for obj, theirs in answers if refusals(obj) and not theirs]


# Values that no API server takes, and that Python does not even read.


DIGITS: Final = "1" * 5000
"""Python reads no number of more than 4,300 digits."""


@pytest.mark.parametrize(
    "value", [DIGITS, f"{DIGITS}%", f"{DIGITS}Gi", f"0.{DIGITS}", f"@every {DIGITS}h", "0" * 5000 + "50%"]
)
def test_any_field_may_have_thousands_of_digits(value: str) -> None:
    """The command ended with an internal error, and named no object."""
    for obj in BASES.values():
        for path in paths(obj):
            refusals(changed(obj, path, value)[0])


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        (
            "Pod",
            {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"a.b/gpu": DIGITS}}}]}},
            "",
        ),
        ("ResourceQuota", {"spec": {"hard": {"pods": DIGITS}}}, "spec.hard.pods"),
        ("LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": DIGITS}}]}}, "spec.limits[0].max.cpu"),
        ("PodDisruptionBudget", {"spec": {"maxUnavailable": f"{DIGITS}%"}}, "spec.maxUnavailable"),
        ("CronJob", {"spec": {"schedule": f"{DIGITS} * * * *"}}, "spec.schedule"),
        ("Job", {"metadata": {"labels": {DIGITS: "a"}}}, f"metadata.labels.{DIGITS}"),
    ],
)
def test_thousands_of_digits_are_refused_by_name(kind: str, change: dict[str, Any], field: str) -> None:
    assert [named for named, _ in refusals(merged(BASES[kind], change))] == ([field] if field else [])


@pytest.mark.parametrize("key", [5, None, True, 1.5, ("a",)])
def test_keys_that_are_no_text_count_as_their_text(key: Any) -> None:
    """No file has them; programs that call the checks may."""
    for obj in accepted_objects():
        for path in (path for path in paths(obj) if isinstance(path[-1], str)):
            copied, holder = changed(obj, path, "1")
            holder[key] = holder[path[-1]]
            list(refusals_of(Document("a.yaml", 0, copied)))


def test_long_lists_are_looked_at_once() -> None:
    """Each entry was compared with all before it: 30,000 took a minute."""
    tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(30_000)]
    values = [f"v{number}" for number in range(30_000)]
    runtime = merged(BASES["RuntimeClass"], {"scheduling": {"tolerations": [*tolerations, tolerations[0]]}})
    topology = [{"matchLabelExpressions": [{"key": "zone", "values": [*values, "v0"]}]}]
    storage = merged(BASES["StorageClass"], {"allowedTopologies": topology})
    for obj, field in (
        (runtime, "scheduling.tolerations[30000]"),
        (storage, "allowedTopologies[0].matchLabelExpressions[0].values[30000]"),
    ):
        check = cluster_refusals.CHECKS[obj["apiVersion"], obj["kind"]]
        assert [named for named, _ in checks.refusals(obj, check)] == [field]


# What messages say.


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "i", **fields}]}}


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (
            "Pod",
            container(readinessProbe={"httpGet": {"port": "8080"}}),
            "'8080' is text, and a port's name needs a letter: for the number, take the quotes away",
        ),
        (
            "CronJob",
            {"spec": {"schedule": "CRON_TZ=Europe/Berlin 0 3 * * *"}},
            "cannot name a time zone: write timeZone: Europe/Berlin beside it",
        ),
        (
            "Pod",
            {"metadata": {"annotations": {"prometheus.io/port": 9090}}},
            "must be text, not 9090: put it in quotes",
        ),
        ("StorageClass", {"parameters": {"encrypted": True}}, "must be text, not true: put it in quotes"),
        (
            "Pod",
            {"metadata": {"generateName": "A"}},
            "'A' is not a DNS name: lower-case letters, digits, dashes and dots",
        ),
    ],
)
def test_a_message_says_what_to_write(kind: str, change: dict[str, Any], message: str) -> None:
    assert [said for _, said in refusals(merged(BASES[kind], change))] == [message]
    assert [said for _, said in refusals_of(Document("a.yaml", 0, merged(BASES[kind], change)))] == [message]


# Objects that were refused by mistake, or without a name.


GENERATED: Final = """
apiVersion: batch/v1
kind: Job
metadata: {generateName: hook-, namespace: shop}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {generateName: hook-, namespace: shop}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: v1
kind: Pod
metadata: {generateName: a123456789-123456789-123456789-123456789-123456789-123456789-}
spec: {containers: [{name: c, image: i}]}
"""


def test_objects_whose_names_are_generated_are_planned_under_made_up_names() -> None:
    """Argo CD's hooks have no other names: `plan` refused the whole file for them."""
    taken = inventory(GENERATED)
    assert [job.metadata.name for job in taken.objects[resources.JOBS]] == ["hook-00001", "hook-00002"]
    assert {pod.metadata.name for pod in taken.objects[resources.PODS]} >= {
        "a123456789-123456789-123456789-123456789-123456789-1234567" + "00003"
    }
    assert list(taken.warnings()) == [
        "3 objects with generateName, first Job shop/hook-00001: kubectl create names them, kubectl apply refuses them"
    ]
    assert not [finding for document in parse(GENERATED, "x.yaml") for finding in refusals(document.object)]


def test_an_autoscaler_of_the_first_version_is_read() -> None:
    """Every API server serves `autoscaling/v1`: `plan` refused the whole file for it."""
    text = """
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: a}
spec: {minReplicas: 2, maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: a}, targetCPUUtilizationPercentage: 80}
"""
    (found,) = inventory(text).objects[resources.HORIZONTAL_POD_AUTOSCALERS]
    assert (found.spec.min_replicas, found.spec.max_replicas, found.spec.scale_target_ref.name) == (2, 3, "a")


def test_a_quota_that_cannot_be_read_is_set_aside_by_name() -> None:
    """The message named neither the file nor the quota, and no other object was planned."""
    quota = merged(BASES["ResourceQuota"], {"spec": {"hard": {"pods": "1" * 5000}}})
    taken = take_inventory([Document("a.yaml", 0, quota), Document("a.yaml", 1, BASES["Pod"])])
    assert [aside.object for aside in taken.set_aside] == ["ResourceQuota/default/a"]
    assert len(taken.objects[resources.PODS]) == 1


# What becomes of objects that the API server refuses.


def test_a_refused_object_is_set_aside_and_the_others_are_planned() -> None:
    change = {"metadata": {"name": "bad", "namespace": "shop"}, "spec": {"preemptionPolicy": "No"}}
    refused = merged(BASES["Pod"], change)
    inventory = take_inventory([Document("a.yaml", 0, refused), Document("a.yaml", 1, BASES["Pod"])])
    waits, planned = inventory.objects[resources.PODS]
    (aside,) = inventory.set_aside
    assert (waits.metadata.name, f"a.yaml: document 1: {waits.unreadable}") == ("bad", aside.message)
    assert (planned.metadata.name, planned.unreadable) == ("a", "")
    assert (aside.object, aside.reason) == ("Pod/shop/bad", "RefusedByAPIServer")
    assert waits.unreadable.startswith("spec.preemptionPolicy: 'No' is none of")


def test_a_refused_object_of_another_kind_is_set_aside_too() -> None:
    """A refused budget protects what it was meant for; of other kinds nothing is left."""
    budget = merged(BASES["PodDisruptionBudget"], {"spec": {"minAvailable": 1, "maxUnavailable": 1}})
    limits = merged(BASES["LimitRange"], {"spec": {"limits": [{"type": "Node"}]}})
    inventory = take_inventory([Document("a.yaml", 0, budget), Document("a.yaml", 1, limits)])
    assert {aside.object for aside in inventory.set_aside} == {"PodDisruptionBudget/default/a", "LimitRange/default/a"}
    (kept,) = inventory.objects[resources.POD_DISRUPTION_BUDGETS]
    assert kept.unreadable.startswith("spec.maxUnavailable: cannot stand beside minAvailable")
    assert not inventory.objects.get(resources.LIMIT_RANGES)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "CronJob"])
def test_a_workload_whose_pods_are_all_refused_is_told_and_set_aside(kind: str) -> None:
    """With hostNetwork, a pod's ports are the node's, and one is asked for twice; the template keeps what is written."""
    ports = [{"containerPort": 80}, {"containerPort": 80}]
    spec = {"hostNetwork": True, "containers": [{"name": "c", "image": "i", "ports": ports}]}
    of_job = {"jobTemplate": {"spec": {"template": {"spec": spec}}}}
    document = Document(
        "a.yaml", 0, merged(BASES[kind], {"spec": of_job if kind == "CronJob" else {"template": {"spec": spec}}})
    )
    assert refusals(document.object) == []
    (told,) = template_findings(document)
    assert told.field.endswith("template.spec.containers[0].ports[1].hostPort")
    assert told.message == f"80 is there already: the API server takes the {kind}, and refuses its pods"
    assert [aside.reason for aside in take_inventory([document]).set_aside] == ["RefusedByAPIServer"]


@pytest.mark.parametrize(
    "change",
    [
        "spec: {containers: [{name: c}]}",
        "spec: {containers: [{name: c, image: i, volumeMounts: [{name: vault-secrets, mountPath: /vault}]}]}",
        "spec: {containers: [{name: c, image: i, resources: {requests: {example.com/gpu: 1}}}]}",
        "spec: {topologySpreadConstraints: [&a {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, *a]}",
    ],
)
def test_what_a_webhook_may_fill_in_is_planned_all_the_same(change: str) -> None:
    obj = merged(BASES["Pod"], yaml.safe_load(change))
    assert refusals(obj)
    inventory = take_inventory([Document("a.yaml", 0, obj)])
    assert len(inventory.objects[resources.PODS]) == 1
    assert not inventory.set_aside
