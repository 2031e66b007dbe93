"""All findings of an input: which checks an object gets, and in which order they are told."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cli.commands.manifests import _shapes_types
from cli.manifests.documents import RepeatedField
from cli.manifests.inventory import Document
from cli.manifests.reading import parse
from cli.validation.examine import (
    dangling_references,
    examine,
    node_findings,
    probably_meant,
    refused_fields,
    refused_values,
    repeated_objects,
    template_findings,
    unfilled_values,
)
from core import labels
from core.model.catalogue import Catalogue
from tests.builders import a_type
from tests.unit.api.objects import NODE_CLASS, NODE_POOL, changed
from tests.unit.cli.test___main___validate_mistakes import DEPLOYMENT, SPREAD, TEMPLATE, ZONE

# Values of an EC2NodeClass that its schema admits and AWS does not.


def class_values_found_in(obj: dict[str, Any]) -> list[tuple[str, str, str]]:
    findings = refused_values(Document("a.yaml", 0, obj))
    return [(found.severity.value, found.field.removeprefix("spec."), found.text) for found in findings]


@pytest.mark.parametrize(
    ("field", "selected"),
    [
        ("subnetSelectorTerms", "subnet"),
        ("securityGroupSelectorTerms", "security group"),
        ("amiSelectorTerms", "image"),
        ("capacityReservationSelectorTerms", "capacity reservation"),
    ],
)
def test_a_term_without_a_tag_selects_everything(field: str, selected: str) -> None:
    terms: list[Any] = [{"tags": {"a": "b"}}, {"tags": {}}, {"id": "x", "tags": {}}, {}]
    text = f"is empty, so the term selects every {selected} of the account; name a tag"
    assert class_values_found_in(changed(NODE_CLASS, f"spec.{field}", terms)) == [("error", f"{field}[1].tags", text)]


def test_a_value_that_is_to_be_filled_in_is_no_name() -> None:
    """Flux and envsubst leave valid YAML: a role of that name passed in silence. User data is a script, which has variables."""
    obj = changed(NODE_CLASS, "spec.role", "${cluster}-nodes")
    obj = changed(obj, "spec.userData", "echo ${HOME}")
    (found,) = unfilled_values(Document("a.yaml", 0, obj))
    assert (found.severity.value, found.field) == ("warning", "spec.role")
    assert "has the placeholder ${cluster}; fill it in first: `envsubst < a.yaml" in found.text
    assert not [*unfilled_values(Document("a.yaml", 0, changed(DEPLOYMENT, "spec.paused", "${X}")))]


def refused(field: str, kind: str, kinds: str) -> tuple[str, str, str]:
    text = f"EC2 refuses it for volumes of type {kind}; {kinds} take it"
    return ("warning", f"blockDeviceMappings[1].ebs.{field}", text)


@pytest.mark.parametrize(
    ("ebs", "found"),
    [
        ({"volumeType": "gp3", "iops": 3000, "throughput": 125}, []),
        ({"volumeType": "gp2", "iops": 3000}, [refused("iops", "gp2", "gp3 and io1 and io2")]),
        ({"volumeType": "io1", "iops": 3000, "throughput": 125}, [refused("throughput", "io1", "gp3")]),
        ({"iops": 3000, "throughput": 125}, []),
        ({"volumeType": "gp2"}, []),
        *(
            (
                {"volumeType": kind},
                [
                    (
                        "warning",
                        "blockDeviceMappings[1].ebs.iops",
                        f"is missing: EC2 refuses volumes of type {kind} without it",
                    )
                ],
            )
            for kind in ("io1", "io2")
        ),
    ],
)
def test_a_volume_has_what_its_type_takes(ebs: dict[str, Any], found: list[tuple[str, str, str]]) -> None:
    devices = [{"deviceName": "/dev/xvda"}, {"deviceName": "/dev/xvdb", "ebs": ebs}]
    assert class_values_found_in(changed(NODE_CLASS, "spec.blockDeviceMappings", devices)) == found


def test_a_volume_has_a_device_name() -> None:
    text = "is missing: EC2 refuses a launch with a volume that has no device name"
    for device in ({}, {"deviceName": ""}):
        found = class_values_found_in(changed(NODE_CLASS, "spec.blockDeviceMappings", [device]))
        assert found == [("warning", "blockDeviceMappings[0].deviceName", text)]


@pytest.mark.parametrize(
    "other", [{"kind": "NodePool"}, {"apiVersion": "example.com/v1"}, {"apiVersion": "karpenter.k8s.aws/v1beta1"}]
)
def test_other_objects_are_left_alone(other: dict[str, str]) -> None:
    assert class_values_found_in({**changed(NODE_CLASS, "spec.role", "arn:aws:iam::1:role/a"), **other}) == []


CATALOGUE = Catalogue(default=(a_type("m5.large"),))
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
Told = tuple[str, str, str, int | None, int | None]


def told(*texts: str, has_lines: bool = True) -> list[Told]:
    """The findings in these files, a.yaml and so on: file, object, field, line and column."""
    files = {f"{chr(97 + number)}.yaml": text for number, text in enumerate(texts)}
    repeated: list[RepeatedField] = []
    documents = [document for source, text in files.items() for document in parse(text, source, repeated)]
    found = examine(documents, files if has_lines else {}, repeated, CATALOGUE, is_lenient=False)
    return [(one.document.source, one.object, one.field, one.line, one.column) for one in found]


def fields(obj: dict[str, Any]) -> list[tuple[str, str]]:
    found = examine([Document("-", 0, obj)], {}, [], CATALOGUE, is_lenient=False)
    return [(one.code.value, one.field) for one in found]


def test_findings_come_by_file_document_line_and_column() -> None:
    twice = "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\n"
    twice += "spec: {containers: [{name: c, image: i}], zz: 1, nodeSelctor: {}}\n"
    repeats = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, name: a}\n"
    repeats += "spec: {containers: [{name: c, image: i}], nodeSelctor: {}}\n"
    found = told(f"{twice}---\n{repeats}", twice)
    assert found == [
        ("a.yaml", "Pod/b", "spec.zz", 4, 43),
        ("a.yaml", "Pod/b", "spec.nodeSelctor", 4, 50),
        ("a.yaml", "Pod/a", "metadata.name", 8, 21),
        ("a.yaml", "Pod/a", "spec.nodeSelctor", 9, 43),
        ("b.yaml", "Pod/b", "spec.zz", 4, 43),
        ("b.yaml", "Pod/b", "spec.nodeSelctor", 4, 50),
    ]
    without = told(twice, has_lines=False)
    assert {(line, column) for *_, line, column in without} == {(None, None)}
    assert sorted(field for _, _, field, *_ in without) == ["spec.nodeSelctor", "spec.zz"]


@pytest.mark.parametrize(
    ("obj", "found"),
    [
        (POD, []),
        ({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"containers": 3}}, []),
        ({**POD, "apiVersion": "v9"}, [("InvalidValue", "apiVersion")]),
        ({**POD, "spec": {"containers": 3}}, [("InvalidValue", "spec.containers")]),
        (
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": {"app": "d"}},
                    "template": {
                        "metadata": {"labels": {"app": "d"}},
                        "spec": {
                            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "lots"}}}]
                        },
                    },
                },
            },
            [("InvalidValue", "spec.template.spec.containers[0].resources.requests.cpu")],
        ),
        (NODE_CLASS, []),
        (NODE_POOL, []),
        (changed(NODE_POOL, "spec.weight", 0), [("InvalidValue", "spec.weight")]),
    ],
)
def test_an_object_is_checked_as_what_it_is(obj: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert [one for one in fields(obj) if one[0] != "NotFound"] == found


def test_the_schedules_of_node_pools_alone_are_checked() -> None:
    never: dict[str, Any] = {"disruption": {"budgets": [{"nodes": "1", "schedule": "0 25 * * *", "duration": "1h"}, 7]}}
    pool = changed(NODE_POOL, "spec.disruption.budgets", never["disruption"]["budgets"][:1])
    assert ("InvalidCron", "spec.disruption.budgets[0].schedule") in fields(pool)
    for other in (
        {"apiVersion": "example.com/v1", "kind": "NodePool", "metadata": {"name": "x"}, "spec": never},
        {**NODE_CLASS, "spec": {**NODE_CLASS["spec"], **never}},
    ):
        assert "InvalidCron" not in {code for code, _ in fields(other)}


@pytest.mark.parametrize(
    ("obj", "shapes"),
    [
        (NODE_CLASS, True),
        (NODE_POOL, False),
        (changed(NODE_CLASS, "spec.amiSelectorTerms", []), False),
        ({**NODE_CLASS, "apiVersion": "karpenter.k8s.aws/v1beta1"}, False),
    ],
)
def test_a_present_class_without_a_fault_shapes_the_types_on_offer(obj: dict[str, Any], shapes: bool) -> None:
    assert _shapes_types(Document("-", 0, yaml.safe_load(yaml.safe_dump(obj)))) is shapes


def test_a_version_that_is_not_read_is_told_with_the_one_to_write() -> None:
    document = Document("-", 0, {"apiVersion": "apps/v9", "kind": "Deployment", "metadata": {"name": "web"}})
    found = examine([document], {}, [], CATALOGUE, is_lenient=False)
    assert [one.suggestion for one in found if one.field == "apiVersion"] == ["apps/v1"]


# What the API server refuses in a pod template is an error; what it accepts but hardly means is a warning.


RESOURCES = f"{TEMPLATE}.containers.0.resources"
MEMORY = f"{TEMPLATE}.containers[0].resources"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


def found_in(obj: dict[str, Any]) -> list[tuple[str, str, str]]:
    document = Document("a.yaml", 0, obj)
    findings = [*refused_fields(document), *template_findings(document)]
    codes = {"error": "InvalidValue", "warning": "NoEffect"}
    assert all(finding.code in (codes[finding.severity], "OldVersion") for finding in findings)
    return [(finding.severity.value, finding.field, finding.text) for finding in findings]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("hostNetwork", "true", "must be true or false, not the text 'true': take the quotes away"),
        ("hostNetwork", "yes", "must be true or false, not the text 'yes'"),
        ("priority", "-5", "must be a whole number, not the text '-5': take the quotes away"),
        ("priority", "high", "must be a whole number, not the text 'high'"),
        ("priority", 1.5, "must be a whole number, not 1.5"),
        ("priority", True, "must be a whole number, not true"),
        ("priority", 5.0, ""),
        ("schedulerName", 5, "must be text, not 5: put it in quotes"),
        ("schedulerName", ["a"], "must be text, not a list"),
        ("tolerations", {"key": "a"}, "must be a list, not an object"),
        ("securityContext", "none", "must be an object, not the text 'none'"),
        ("schedulerName", None, ""),
    ],
)
def test_a_value_of_another_type_says_how_to_write_it(field: str, value: object, message: str) -> None:
    found = found_in(pod({"containers": [{"name": "c", "image": "i"}], field: value}))
    assert found == ([("error", f"spec.{field}", message)] if message else [])


def pod(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", **metadata}, "spec": spec}


@pytest.mark.parametrize(
    ("resource", "amount", "odd"),
    [
        ("memory", "512m", "512m is thousandths of a byte; 512Mi is mebibytes"),
        ("ephemeral-storage", "1500m", "1500m is thousandths of a byte; 1500Mi is mebibytes"),
        ("memory", 512, "512 is bytes; 512Mi is mebibytes"),
        ("memory", "1", "1 is bytes; 1Mi is mebibytes"),
        ("ephemeral-storage", str((1 << 20) - 1), "1048575 is bytes; 1048575Mi is mebibytes"),
        ("cpu", "1Gi", "1Gi is a number of cores, not of bytes"),
        ("cpu", "1.5G", "1.5G is a number of cores, not of bytes"),
        ("memory", str(1 << 20), ""),
        ("memory", "0", ""),
        ("memory", "512Mi", ""),
        ("memory", "1e3", ""),
        ("cpu", "500m", ""),
        ("cpu", "512", ""),
        ("cpu", "512m", ""),
    ],
)
@pytest.mark.parametrize("kind", ["requests", "limits"])
def test_an_amount_that_is_hardly_meant_is_a_warning(kind: str, resource: str, amount: object, odd: str) -> None:
    found = found_in(changed(DEPLOYMENT, RESOURCES, {kind: {resource: amount}}))
    field = f"{MEMORY}.{kind}.{resource}" if "." not in resource else f"{MEMORY}.{kind}[{resource}]"
    assert found == ([("warning", field, odd)] if odd else [])


@pytest.mark.parametrize(
    ("request_", "limit", "message"),
    [
        ("2", "1", "2 is more than the limit of 1"),
        ("1001m", 1, "1001m is more than the limit of 1"),
        ("1", "1000m", ""),
        ("1", "2", ""),
        ("1", None, ""),
        ("x", "1", "must be an amount, as 500m or 1Gi, not the text 'x'"),
        ("x", "0", "must be an amount, as 500m or 1Gi, not the text 'x'"),
    ],
)
def test_a_request_above_its_limit_is_refused(request_: str, limit: object, message: str) -> None:
    limits = {} if limit is None else {"limits": {"cpu": limit}}
    found = found_in(changed(DEPLOYMENT, RESOURCES, {"requests": {"cpu": request_}, **limits}))
    assert found == ([("error", f"{MEMORY}.requests.cpu", message)] if message else [])


@pytest.mark.parametrize(
    ("whole", "field", "message"),
    [
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, "", ""),
        (
            {"requests": {"cpu": "500m"}},
            "resources.requests.cpu",
            "500m is less than the 1 that its containers request",
        ),
        ({"limits": {"cpu": "500m"}}, "resources.limits.cpu", "500m is less than the 1 that its containers request"),
        ({"requests": {"cpu": "3"}, "limits": {"cpu": "2"}}, "resources.requests.cpu", "3 is more than the limit of 2"),
        (
            {"limits": {"memory": "1Gi"}},
            "containers[0].resources.limits.memory",
            "2Gi is more than the pod's limit of 1Gi",
        ),
        (
            {"requests": {"ephemeral-storage": "1Gi"}},
            "resources.requests.ephemeral-storage",
            "a pod as a whole takes cpu, memory and huge pages alone; state it for a container",
        ),
    ],
)
def test_amounts_of_the_pod_as_a_whole_hold_those_of_its_containers(
    whole: dict[str, Any], field: str, message: str
) -> None:
    amounts = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"memory": "2Gi"}}
    container = {"name": "c", "image": "i", "resources": amounts}
    found = found_in(pod({"containers": [container], "resources": whole}))
    assert found == ([("error", f"spec.{field}", message)] if field else [])


def test_each_container_is_looked_at_and_each_has_its_place() -> None:
    plain = {"name": "a", "image": "i"}
    odd = [{"name": name, "image": "i", "resources": {"requests": {"memory": 1}}} for name in "bc"]
    found = found_in(pod({"containers": [plain, odd[0]], "initContainers": odd[1:]}))
    assert [field for _, field, _ in found] == [
        "spec.initContainers[0].resources.requests.memory",
        "spec.containers[1].resources.requests.memory",
    ]
    assert found_in(pod({"containers": []})) == [("error", "spec.containers", "is missing: a pod needs a container")]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_a_selector_must_match_the_labels_of_the_template(kind: str) -> None:
    workload = changed({**DEPLOYMENT, "kind": kind}, "spec.selector.matchLabels", {"app": "shop", "tier": "a"})
    message = "does not match the labels of the template: they have"
    assert found_in(workload) == [
        ("error", "spec.selector.matchLabels.app", f"{message} app=web"),
        ("error", "spec.selector.matchLabels.tier", f"{message} no tier"),
    ]
    job = changed({**workload, "kind": "Job", "apiVersion": "batch/v1"}, f"{TEMPLATE}.restartPolicy", "Never")
    assert found_in(job) == []
    assert found_in({**workload, "apiVersion": "example.com/v1"}) == []


@pytest.mark.parametrize(
    ("toleration", "is_refused"),
    [
        ({"key": "a", "operator": "Exists", "value": "b"}, True),
        ({"key": "a", "operator": "Exists", "value": ""}, False),
        ({"key": "a", "operator": "Exists"}, False),
        ({"key": "a", "operator": "Equal", "value": "b"}, False),
        ({"key": "a", "value": "b"}, False),
    ],
)
def test_a_toleration_that_exists_takes_no_value(toleration: dict[str, str], is_refused: bool) -> None:
    container = {"name": "c", "image": "i"}
    found = found_in(pod({"containers": [container], "tolerations": [{"operator": "Exists"}, toleration]}))
    assert found == ([("error", "spec.tolerations[1].value", "operator Exists takes no value")] if is_refused else [])


@pytest.mark.parametrize(
    ("selector", "field", "message"),
    [
        ({}, "", "selects no pods, so the constraint spreads nothing"),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, None, None),
        ({"matchLabels": {"app": "web"}}, None, None),
        (
            {"matchLabels": {"app": "shop"}},
            ".matchLabels.app",
            "does not select the pod itself, which has app=web: its own place is not counted",
        ),
        (
            {"matchLabels": {"tier": "a"}},
            ".matchLabels.tier",
            "does not select the pod itself, which has no tier: its own place is not counted",
        ),
    ],
)
def test_a_spread_that_spreads_nothing_is_a_warning(
    selector: dict[str, Any], field: str | None, message: str | None
) -> None:
    spread = {**SPREAD, "topologyKey": ZONE, "labelSelector": selector}
    found = found_in(changed(DEPLOYMENT, f"{TEMPLATE}.topologySpreadConstraints", [spread]))
    at = f"{TEMPLATE}.topologySpreadConstraints[0].labelSelector"
    assert found == ([] if field is None else [("warning", f"{at}{field}", message)])


def test_annotations_have_an_effect_on_pods_alone_and_under_their_present_name() -> None:
    above = changed(DEPLOYMENT, "metadata.annotations", {DO_NOT_DISRUPT: "true"})
    message = "protects no pod here: pods take their annotations from spec.template.metadata.annotations"
    assert found_in(above) == [("warning", f"metadata.annotations[{DO_NOT_DISRUPT}]", message)]
    assert found_in(changed(above, "spec.template.metadata.annotations", {DO_NOT_DISRUPT: "true"})) == []
    assert found_in(pod({"containers": [{"name": "c", "image": "i"}]}, annotations={DO_NOT_DISRUPT: "true"})) == []
    for former in ("karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate"):
        assert found_in(pod({"containers": [{"name": "c", "image": "i"}]}, annotations={former: "true"})) == [
            (
                "warning",
                f"metadata.annotations[{former}]",
                f"is of an older version, and is ignored (did you mean '{DO_NOT_DISRUPT}'?)",
            )
        ]


# References that lead nowhere, and objects that are in a file twice.


OLD_CLASS = {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": {"name": "default"}}


def documents(*objects: dict[str, Any]) -> list[Document]:
    return [Document("a.yaml", index, obj) for index, obj in enumerate(objects)]


def named(name: str) -> dict[str, Any]:
    return changed(NODE_CLASS, "metadata.name", name)


@pytest.mark.parametrize(
    ("classes", "severity", "suggestion"),
    [
        ([NODE_CLASS], None, ""),
        ([OLD_CLASS], None, ""),
        ([], "warning", ""),
        ([named("defalt")], "error", "defalt"),
        ([named("zzz")], "error", ""),
    ],
)
def test_a_class_that_is_missing_beside_others_is_an_error(
    classes: list[dict[str, Any]], severity: str | None, suggestion: str
) -> None:
    found = list(dangling_references(documents(NODE_POOL, *classes)))
    assert [(one.severity.value, one.suggestion) for one in found] == ([(severity, suggestion)] if severity else [])
    assert all(one.field == "spec.template.spec.nodeClassRef.name" for one in found)
    assert all(one.message.startswith("there is no EC2NodeClass 'default' in the input") for one in found)


@pytest.mark.parametrize(
    "obj",
    [
        changed(NODE_POOL, "spec.template.spec.nodeClassRef", {"kind": "Other", "name": "x"}),
        changed(NODE_POOL, "spec.template.spec.nodeClassRef", {}),
        {**NODE_POOL, "apiVersion": "example.com/v1"},
        {**NODE_POOL, "kind": "NodeClaim"},
        {**NODE_POOL, "spec": "odd"},
        {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "a"}, "spec": 7},
    ],
)
def test_objects_that_name_no_class_of_ours_are_left_alone(obj: dict[str, Any]) -> None:
    assert list(dangling_references(documents(obj))) == []


def placed(namespace: str | None = None, name: str = "a", **changes: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({} if namespace is None else {"namespace": namespace})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **changes}


@pytest.mark.parametrize(
    ("second", "is_same"),
    [
        (placed(), True),
        (placed("default"), True),
        (placed("shop"), False),
        (placed(name="b"), False),
        (placed(kind="Service"), False),
        (placed(apiVersion="example.com/v1"), False),
        (placed(name=""), False),
    ],
)
def test_an_object_is_repeated_if_group_kind_namespace_and_name_are(second: dict[str, Any], is_same: bool) -> None:
    found = list(repeated_objects(documents(placed(name=""), placed(), second)))
    assert [(one.document.index, one.severity.value, one.message) for one in found] == (
        [(2, "warning", "is given in document 2 already; the last one counts")] if is_same else []
    )
    apart = [Document("a.yaml", 0, placed()), Document("b.yaml", 0, second)]
    assert list(repeated_objects(apart)) == []


# What was probably meant, for values of closed lists, keys of requirements, and kinds.


OPERATOR = "spec.template.spec.requirements[0].operator"


@pytest.mark.parametrize(
    ("path", "value", "field", "meant"),
    [
        ("spec.template.spec.requirements.0.operator", "notin", OPERATOR, "NotIn"),
        ("spec.template.spec.requirements.0.key", "kubernetes.io/arc", f"{OPERATOR[:-9]}.key", "kubernetes.io/arch"),
        ("spec.template.spec.taints.0.effect", "noexecute", "spec.template.spec.taints[0].effect", "NoExecute"),
        ("spec.disruption.consolidationPolicy", "whenempty", "spec.disruption.consolidationPolicy", "WhenEmpty"),
        ("spec.template.spec.requirements", [], OPERATOR, ""),
        ("spec.template.spec.requirements", {"operator": "in"}, OPERATOR, ""),
        ("spec.template.spec.requirements", "in", OPERATOR, ""),
        ("spec.template.spec.requirements.0.operator", 7, OPERATOR, ""),
        ("spec.weight", "ten", "spec.weight", ""),
        ("metadata.name", "default", "spec.nothing.of[3].this", ""),
        ("apiVersion", "karpenter.sh/v2", "apiVersion", "karpenter.sh/v1"),
        ("kind", "Nodepool", "apiVersion", "NodePool"),
        ("kind", "Zzz", "apiVersion", ""),
        ("kind", "Zzz", OPERATOR, ""),
    ],
)
def test_what_a_field_probably_means(path: str, value: Any, field: str, meant: str) -> None:
    assert probably_meant(Document("a.yaml", 0, changed(NODE_POOL, path, value)), field) == meant


def test_objects_of_older_versions_get_no_suggestion() -> None:
    old = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "spec": {"requirements": [{"operator": "in"}]}}
    assert probably_meant(Document("a.yaml", 0, old), "spec.requirements[0].operator") == ""
    assert probably_meant(Document("a.yaml", 0, old), "apiVersion") == ""


@pytest.mark.parametrize(
    ("annotations", "key"),
    [
        ({labels.START_BEFORE: "tomorrow"}, labels.START_BEFORE),
        ({labels.START_BEFORE: "8h", labels.WAITS_FOR: "luck"}, labels.WAITS_FOR),
    ],
)
def test_a_pod_that_would_not_wait_as_it_says_is_told(annotations: dict[str, str], key: str) -> None:
    ((severity, field, message),) = found_in(
        pod({"containers": [{"name": "c", "image": "i"}]}, annotations=annotations)
    )
    assert (severity, field) == ("error", f"metadata.annotations[{key}]")
    assert message.endswith("the pod does not wait")
    assert found_in(pod({"containers": [{"name": "c", "image": "i"}]}, annotations={labels.START_BEFORE: "8h"})) == []


@pytest.mark.parametrize(
    ("key", "unread", "read"),
    [
        (labels.GROUP_MINIMUM, ("many", "0", "-1", "8.0", "1000000", "²"), ("8",)),
        (labels.KUEUE_GROUP_COUNT, ("all",), ("3",)),
        (labels.GROUP_TOPOLOGY, ("one zone", ""), (labels.ZONE,)),
        (labels.GROUP_DISRUPTION, ("none", "Single"), ("single", "all")),
        (labels.SURGE, ("yes",), ("true", "false")),
        (DO_NOT_DISRUPT, ("yes", "True", "-5m", "10 minutes"), ("true", "false", "10m")),
        (labels.DISRUPTION_COST, ("dear", "2147483648", "9" * 5_000), ("-5", "+7", "0")),
    ],
)
def test_a_value_of_an_annotation_that_says_nothing_is_told(
    key: str, unread: tuple[str, ...], read: tuple[str, ...]
) -> None:
    """Decisions go on as without it, and nobody knew."""
    for text in unread:
        ((severity, field, _),) = found_in(pod({"containers": [{"name": "c", "image": "i"}]}, annotations={key: text}))
        assert (severity, field) == ("error", f"metadata.annotations[{key}]"), text
    for text in read:
        assert found_in(pod({"containers": [{"name": "c", "image": "i"}]}, annotations={key: text})) == [], text


def test_annotations_of_nodes_are_read_wherever_nodes_get_them_from() -> None:
    path = "spec.template.metadata.annotations"
    for key in (DO_NOT_DISRUPT, labels.DO_NOT_REPAIR):
        (unread,) = node_findings(Document("a.yaml", 0, changed(NODE_POOL, path, {key: "yes"})))
        assert unread.field == f"{path}[{key}]"
        for text in ("true", "false"):
            assert list(node_findings(Document("a.yaml", 0, changed(NODE_POOL, path, {key: text})))) == []


def test_a_group_of_our_annotation_alone_says_how_many_start_together() -> None:
    """Kueue, for instance, says it otherwise."""
    ((severity, field, _),) = found_in(
        pod({"containers": [{"name": "c", "image": "i"}]}, annotations={labels.GROUP: "g"})
    )
    assert (severity, field) == ("error", f"metadata.annotations[{labels.GROUP}]")
    for notes in ({labels.GROUP: "none"}, {labels.GROUP: "g", labels.GROUP_MINIMUM: "2"}):
        assert found_in(pod({"containers": [{"name": "c", "image": "i"}]}, annotations=notes)) == []
    native = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "g"}}
    assert found_in(pod(native, annotations={labels.GROUP: "g"})) == []


def test_a_group_is_written_on_pods_and_not_on_their_owner() -> None:
    above = changed(DEPLOYMENT, "metadata.annotations", {labels.GROUP: "g"})
    ((severity, field, message),) = found_in(above)
    assert (severity, field) == ("warning", f"metadata.annotations[{labels.GROUP}]")
    assert message == "has no effect here: pods take their annotations from spec.template.metadata.annotations"
