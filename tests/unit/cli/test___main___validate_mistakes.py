"""`fleetwright validate` against the mistakes that users of Karpenter make most often: each is found, where it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cli.__main__ import main
from tests.unit.api.objects import NODE_CLASS, NODE_POOL, changed

REQUIRED: Final = "spec.template.spec.requirements"
TEMPLATE: Final = "spec.template.spec"
DEPLOYMENT: Final[dict[str, Any]] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}}}]},
        },
    },
}
ZONE: Final = "topology.kubernetes.io/zone"
FAMILY: Final = "karpenter.k8s.aws/instance-family"


def demand(key: str, operator: str, *values: str, **more: int) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values), **more}


def found_in(objects: list[dict[str, Any]], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[Any, ...]]:
    file = folder / "a.yaml"
    file.write_text(yaml.safe_dump_all(objects, sort_keys=False))
    main(["validate", "-f", str(file), "-o", "json"])
    keys = ("severity", "code", "field", "suggestion")
    return [tuple(problem[key] for key in keys) for problem in json.loads(capsys.readouterr().out)["problems"]]


@pytest.mark.parametrize(
    ("requirements", "severity", "field", "suggestion"),
    [
        ([demand("karpenter.sh/capacity-type", "In", "Spot")], "error", "[0].values[0]", "spot"),
        ([demand("karpenter.sh/capacity-type", "In", "ondemand")], "error", "[0].values[0]", "on-demand"),
        ([demand("karpenter.sh/capacity-type", "In", "spot", "ondemand")], "warning", "[0].values[1]", "on-demand"),
        ([demand("karpenter.k8s.aws/instance-cpu", "Gt", "4000")], "error", "[0].values", None),
        ([demand("karpenter.k8s.aws/instance-cpu", "Lt", "1")], "error", "[0].values", None),
        ([demand(ZONE, "In", "us-east-1")], "error", "[0].values[0]", None),
        ([demand(ZONE, "In", "use1-az1")], "error", "[0].values[0]", None),
        ([demand("kubernetes.io/arch", "In", "arm64"), demand(FAMILY, "In", "m5")], "error", "[1]", None),
        ([demand(FAMILY, "In", "m5"), demand(FAMILY, "NotIn", "m5")], "error", "", None),
        (
            [demand(FAMILY, "Exists", minValues=3), demand("node.kubernetes.io/instance-type", "In", "m5.large")],
            "error",
            "[0].minValues",
            None,
        ),
    ],
)
def test_requirements_that_leave_nothing_match_nothing(
    requirements: list[dict[str, Any]],
    severity: str,
    field: str,
    suggestion: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pool = changed(NODE_POOL, REQUIRED, requirements)
    assert found_in([pool, NODE_CLASS], tmp_path, capsys) == [
        (severity, "MatchesNothing", f"{REQUIRED}{field}", suggestion)
    ]


@pytest.mark.parametrize(
    "requirements",
    [
        [demand("kubernetes.io/arch", "In", "amd64"), demand(FAMILY, "In", "m5", "m7g")],
        [demand("karpenter.k8s.aws/instance-gpu-count", "DoesNotExist")],
        [demand("karpenter.sh/capacity-type", "In", "reserved")],
        [demand("example.com/team", "In", "a", "b"), demand("zone", "In", "dmz")],
        [demand(ZONE, "In", "eu-central-1a"), demand(FAMILY, "In", "m5")],
        [demand(FAMILY, "Exists", minValues=10)],
    ],
)
def test_requirements_that_something_meets_are_no_error(
    requirements: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = found_in([changed(NODE_POOL, REQUIRED, requirements), NODE_CLASS], tmp_path, capsys)
    assert not [finding for finding in found if finding[0] == "error"]


@pytest.mark.parametrize(
    ("path", "value", "finding"),
    [
        (f"{REQUIRED}", [demand("a", "in", "b")], ("error", "InvalidValue", f"{REQUIRED}[0].operator", "In")),
        (
            f"{TEMPLATE}.taints",
            [{"key": "a", "effect": "noschedule"}],
            ("error", "InvalidValue", f"{TEMPLATE}.taints[0].effect", "NoSchedule"),
        ),
        (
            "spec.disruption",
            {"consolidateAfter": "1m", "consolidationPolicy": "WhenUnderutilized"},
            ("error", "InvalidValue", "spec.disruption.consolidationPolicy", "WhenEmptyOrUnderutilized"),
        ),
        (
            f"{REQUIRED}",
            [demand("karpenter.k8s.aws/instance-familly", "In", "m5")],
            ("error", "InvalidValue", f"{REQUIRED}[0].key", FAMILY),
        ),
        (
            f"{REQUIRED}",
            [demand("karpenter.sh/instance-family", "In", "m5")],
            ("error", "InvalidValue", f"{REQUIRED}[0].key", FAMILY),
        ),
        (
            f"{REQUIRED}",
            [demand("node.kubernetes.io/instancetype", "In", "m5.large")],
            ("warning", "NoEffect", f"{REQUIRED}[0].key", "node.kubernetes.io/instance-type"),
        ),
        (
            f"{REQUIRED}",
            [demand("arch", "In", "arm64")],
            ("warning", "NoEffect", f"{REQUIRED}[0].key", "kubernetes.io/arch"),
        ),
        ("spec.limits", {"mem": "10Gi"}, ("warning", "NoEffect", "spec.limits.mem", "memory")),
        ("spec.limits", {"gpu": "4"}, ("warning", "NoEffect", "spec.limits.gpu", "nvidia.com/gpu")),
        ("spec.requirements", [], ("error", "UnknownField", "spec.requirements", REQUIRED)),
        (
            "spec.ttlSecondsAfterEmpty",
            30,
            ("error", "UnknownField", "spec.ttlSecondsAfterEmpty", "spec.disruption.consolidateAfter"),
        ),
        (
            f"{TEMPLATE}.kubelet",
            {"maxPods": 20},
            ("error", "UnknownField", f"{TEMPLATE}.kubelet", "spec.kubelet of the EC2NodeClass"),
        ),
        (f"{TEMPLATE}.weight", 10, ("error", "UnknownField", f"{TEMPLATE}.weight", "spec.weight")),
        ("kind", "Nodepool", ("error", "InvalidValue", "apiVersion", "NodePool")),
        ("apiVersion", "karpenter.sh/v2", ("error", "InvalidValue", "apiVersion", "karpenter.sh/v1")),
    ],
)
def test_a_mistake_in_a_node_pool_is_found_with_what_was_meant(
    path: str, value: object, finding: tuple[Any, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found_in([changed(NODE_POOL, path, value), NODE_CLASS], tmp_path, capsys) == [finding]


@pytest.mark.parametrize(
    ("path", "value", "finding"),
    [
        ("spec.role", "arn:aws:iam::111122223333:role/Node", ("error", "InvalidValue", "spec.role", "Node")),
        (
            "spec.subnetSelectorTerms",
            [{"tags": {"a": "b"}}, {"tags": {}}],
            ("error", "InvalidValue", "spec.subnetSelectorTerms[1].tags", None),
        ),
        (
            "spec.securityGroupSelectorTerms",
            [{"tags": {}}],
            ("error", "InvalidValue", "spec.securityGroupSelectorTerms[0].tags", None),
        ),
        (
            "spec.capacityReservationSelectorTerms",
            [{"tags": {}}],
            ("error", "InvalidValue", "spec.capacityReservationSelectorTerms[0].tags", None),
        ),
        (
            "spec.blockDeviceMappings",
            [{"ebs": {"volumeSize": "9Gi"}}],
            ("warning", "InvalidValue", "spec.blockDeviceMappings[0].deviceName", None),
        ),
        (
            "spec.blockDeviceMappings",
            [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "9Gi", "volumeType": "gp2", "throughput": 125}}],
            ("warning", "InvalidValue", "spec.blockDeviceMappings[0].ebs.throughput", None),
        ),
        (
            "spec.blockDeviceMappings",
            [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "9Gi", "volumeType": "io2"}}],
            ("warning", "InvalidValue", "spec.blockDeviceMappings[0].ebs.iops", None),
        ),
        (
            "spec.metadataOptions",
            {"httpTokens": "require"},
            ("error", "InvalidValue", "spec.metadataOptions.httpTokens", "required"),
        ),
    ],
)
def test_a_mistake_in_a_node_class_is_found(
    path: str, value: object, finding: tuple[Any, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found_in([changed(NODE_CLASS, path, value)], tmp_path, capsys) == [finding]


SPREAD: Final = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
OWN: Final = {"labelSelector": {"matchLabels": {"app": "web"}}}
CPU: Final = f"{TEMPLATE}.containers[0].resources.requests"


@pytest.mark.ci
@pytest.mark.parametrize(
    ("path", "value", "finding"),
    [
        ("spec.selector.matchLabels.app", "shop", ("error", "InvalidValue", "spec.selector.matchLabels.app", None)),
        ("spec.replicas", "3", ("error", "InvalidValue", "spec.replicas", None)),
        ("spec.replica", 3, ("error", "UnknownField", "spec.replica", "replicas")),
        ("spec.whatever", 3, ("warning", "UnknownField", "spec.whatever", None)),
        ("metadata.label", {"a": "b"}, ("error", "UnknownField", "metadata.label", "labels")),
        ("specs", {}, ("error", "UnknownField", "specs", "spec")),
        (
            "spec.nodeSelector",
            {"a": "b"},
            ("error", "UnknownField", "spec.nodeSelector", f"{TEMPLATE}.nodeSelector"),
        ),
        ("spec.strategy", {"typ": "Recreate"}, ("error", "UnknownField", "spec.strategy.typ", "type")),
        (f"{TEMPLATE}.whatever", 1, ("error", "UnknownField", f"{TEMPLATE}.whatever", None)),
        (f"{TEMPLATE}.containers", [], ("error", "InvalidValue", f"{TEMPLATE}.containers", None)),
        (f"{TEMPLATE}.nodeSelector", {"gen": 5}, ("error", "InvalidValue", f"{TEMPLATE}.nodeSelector.gen", None)),
        (
            f"{TEMPLATE}.tolerations",
            [{"key": "a", "operator": "Exists", "value": "b"}],
            ("error", "InvalidValue", f"{TEMPLATE}.tolerations[0].value", None),
        ),
        (
            f"{TEMPLATE}.containers",
            [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}],
            ("error", "InvalidValue", f"{CPU}.cpu", None),
        ),
        (
            f"{TEMPLATE}.containers",
            [{"name": "c", "image": "i", "resources": {"requests": {"memory": "512m"}}}],
            ("warning", "NoEffect", f"{CPU}.memory", None),
        ),
        (
            f"{TEMPLATE}.containers",
            [{"name": "c", "image": "i", "resources": {"requests": {"memory": 512}}}],
            ("warning", "NoEffect", f"{CPU}.memory", None),
        ),
        (
            f"{TEMPLATE}.containers",
            [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1Gi"}}}],
            ("warning", "NoEffect", f"{CPU}.cpu", None),
        ),
        (
            f"{TEMPLATE}.topologySpreadConstraints",
            [{**SPREAD, "topologyKey": "zone", **OWN}],
            ("warning", "NoEffect", f"{TEMPLATE}.topologySpreadConstraints[0].topologyKey", ZONE),
        ),
        (
            f"{TEMPLATE}.topologySpreadConstraints",
            [SPREAD],
            ("warning", "NoEffect", f"{TEMPLATE}.topologySpreadConstraints[0].labelSelector", None),
        ),
        (
            f"{TEMPLATE}.topologySpreadConstraints",
            [{**SPREAD, "labelSelector": {"matchLabels": {"app": "wbe"}}}],
            ("warning", "NoEffect", f"{TEMPLATE}.topologySpreadConstraints[0].labelSelector.matchLabels.app", None),
        ),
        (
            f"{TEMPLATE}.nodeSelector",
            {"karpenter.sh/capacity-type": "Spot"},
            ("warning", "MatchesNothing", f"{TEMPLATE}.nodeSelector[karpenter.sh/capacity-type]", "spot"),
        ),
        (
            f"{TEMPLATE}.nodeSelector",
            {"karpenter.sh/provisioner-name": "a"},
            (
                "warning",
                "OldVersion",
                f"{TEMPLATE}.nodeSelector[karpenter.sh/provisioner-name]",
                "karpenter.sh/nodepool",
            ),
        ),
        (
            "metadata.annotations",
            {"karpenter.sh/do-not-disrupt": "true"},
            ("warning", "NoEffect", "metadata.annotations[karpenter.sh/do-not-disrupt]", None),
        ),
        (
            "spec.template.metadata.annotations",
            {"karpenter.sh/do-not-evict": "true"},
            (
                "warning",
                "OldVersion",
                "spec.template.metadata.annotations[karpenter.sh/do-not-evict]",
                "karpenter.sh/do-not-disrupt",
            ),
        ),
    ],
)
def test_a_mistake_in_a_workload_is_found(
    path: str, value: object, finding: tuple[Any, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found_in([changed(DEPLOYMENT, path, value)], tmp_path, capsys) == [finding]


JOB_TEMPLATE: Final = {"spec": {**DEPLOYMENT["spec"]["template"]["spec"], "restartPolicy": "Never"}}


@pytest.mark.parametrize(
    ("obj", "finding"),
    [
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeSelector": {}}},
            ("error", "InvalidValue", "spec.containers", None),
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
            ("error", "InvalidValue", "spec.containers", None),
        ),
        (
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "a"},
                "spec": {"minAvailble": 1, "selector": {}},
            },
            ("error", "UnknownField", "spec.minAvailble", "minAvailable"),
        ),
        (
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "a"},
                "spec": {
                    "schedule": "0 5 * * *",
                    "jobTemplate": {"spec": {"template": JOB_TEMPLATE, "tolerations": []}},
                },
            },
            (
                "error",
                "UnknownField",
                "spec.jobTemplate.spec.tolerations",
                "spec.jobTemplate.spec.template.spec.tolerations",
            ),
        ),
    ],
)
def test_a_mistake_in_another_object_is_found(
    obj: dict[str, Any], finding: tuple[Any, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found_in([obj], tmp_path, capsys) == [finding]


@pytest.mark.parametrize(
    ("kind", "at", "value", "place"),
    [
        ("CronJob", "spec.activeDeadlineSeconds", 60, "spec.jobTemplate.spec.activeDeadlineSeconds"),
        ("CronJob", "spec.backoffLimit", 2, "spec.jobTemplate.spec.backoffLimit"),
        ("CronJob", "spec.jobTemplate.backoffLimit", 2, "spec.jobTemplate.spec.backoffLimit"),
        ("CronJob", "spec.jobTemplate.spec.template.spec.backoffLimit", 2, "spec.jobTemplate.spec.backoffLimit"),
        ("CronJob", "spec.jobTemplate.spec.schedule", "0 5 * * *", "spec.schedule"),
        ("Job", "spec.restartPolicy", "Never", f"{TEMPLATE}.restartPolicy"),
        ("Deployment", "replicas", 3, "spec.replicas"),
        ("Deployment", "spec.metadata", {}, "spec.template.metadata"),
        ("Deployment", f"{TEMPLATE}.replicas", 3, "spec.replicas"),
        (
            "Deployment",
            f"{TEMPLATE}.initContainers",
            [{"name": "d", "image": "i", "tolerations": []}],
            f"{TEMPLATE}.tolerations",
        ),
    ],
)
def test_a_field_of_a_workload_that_is_misplaced_is_found_with_its_place(
    kind: str, at: str, value: Any, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`activeDeadlineSeconds` beside a CronJob's `jobTemplate` was taken for a misspelt `startingDeadlineSeconds`."""
    inner = {"template": JOB_TEMPLATE}
    spec = {"CronJob": {"schedule": "0 5 * * *", "jobTemplate": {"spec": inner}}, "Job": inner}
    group = "apps" if kind == "Deployment" else "batch"
    own = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec.get(kind)}
    ((severity, code, _, suggestion),) = found_in(
        [changed(DEPLOYMENT if kind == "Deployment" else own, at, value)], tmp_path, capsys
    )
    assert (severity, code, suggestion) == ("error", "UnknownField", place)


@pytest.mark.parametrize(
    "other",
    [
        {**DEPLOYMENT, "apiVersion": "apps.example.com/v1", "spec": {"replica": 3}},
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Rollout",
            "metadata": {"name": "web"},
            "spec": {"replicas": 3, "workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        },
    ],
)
def test_an_object_of_another_group_is_not_held_against_fields_of_kubernetes(
    other: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found_in([other], tmp_path, capsys) == []


def test_findings_are_in_the_order_of_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader goes through the file once."""
    (tmp_path / "a.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replica: 3\n"
        "  selector: {matchLabels: {a: a}}\n  template:\n    metadata: {labels: {app: b}}\n    spec:\n      nodeSelecter: {}\n"
        "      containers:\n      - {name: a, image: i, resources: {requests: {cpu: 2, cpu: 3}, limits: {cpu: 1}}}\n"
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: last}\n"
    )
    assert main(["validate", "-f", str(tmp_path), "-o", "json"]) == 1
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [problem["line"] for problem in problems] == [5, 6, 10, 12, 12, 14]


def test_labels_that_a_node_pool_gives_to_its_nodes_are_no_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = changed(NODE_POOL, "spec.template.metadata.labels", {"zone": "dmz"})
    web = changed(DEPLOYMENT, f"{TEMPLATE}.nodeSelector", {"zone": "dmz"})
    web = changed(web, f"{TEMPLATE}.topologySpreadConstraints", [{**SPREAD, "topologyKey": "zone", **OWN}])
    assert found_in([pool, NODE_CLASS, web], tmp_path, capsys) == []


@pytest.mark.ci
@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte", "Foo", None])
@pytest.mark.parametrize("values", [["1"], ["1.5"], [], None, [None]])
def test_a_requirement_without_a_key_is_an_error_whatever_its_operator(
    operator: str | None, values: list[Any] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {name: value for name, value in (("operator", operator), ("values", values)) if value is not None}
    found = found_in([changed(NODE_POOL, REQUIRED, [entry])], tmp_path, capsys)
    assert ("error", "InvalidValue", f"{REQUIRED}[0].key") in {problem[:3] for problem in found}


def test_an_object_that_is_twice_in_a_file_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of their own are variants, such as the overlays of a repository."""
    assert found_in([NODE_POOL, NODE_CLASS, NODE_POOL], tmp_path, capsys) == [
        ("warning", "Duplicate", "metadata.name", None)
    ]


def test_a_key_that_is_twice_in_a_mapping_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The parser takes the last one: a budget or a limit is lost without a word."""
    text = yaml.safe_dump(NODE_CLASS, sort_keys=False) + "  tags: {a: b}\n  tags: {c: d}\n"
    (tmp_path / "a.yaml").write_text(text)
    assert main(["validate", "-f", str(tmp_path)]) == 1
    lines = len(text.splitlines())
    assert f"a.yaml:{lines}:3: document 1: EC2NodeClass default: spec.tags: the same mapping" in capsys.readouterr().out


@pytest.mark.parametrize("before", ["", '{"kind": "A"}', '{"kind": "A"}\n', "\t"])
def test_a_key_that_is_twice_in_json_is_an_error_in_every_value(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several JSON values in a row and JSON that is indented by tabs are no YAML, and their keys were not looked at."""
    text = '{"apiVersion": "v1",\n "kind": "Secret", "kind": "Secret", "metadata": {"name": "a"}}'
    (tmp_path / "a.json").write_text(before + text)
    assert main(["validate", "-f", str(tmp_path)]) == 1
    line = 2 + before.count("\n")
    assert f"a.json:{line}:20: document {before.count('{') + 1}: Secret a: kind: the same" in capsys.readouterr().out


def test_a_repeated_key_belongs_to_its_object_in_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every repeated key of a list was reported for the first item, whatever item had it."""
    items = [
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "a": "2"}}',
        '{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}',
        '{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "t", "name": "u"}}',
    ]
    written = ",\n".join(items)
    (tmp_path / "a.json").write_text(f'{{"apiVersion": "v1", "kind": "List", "items": [\n{written}]}}')
    assert main(["validate", "-f", str(tmp_path)]) == 1
    first, second, total = capsys.readouterr().out.splitlines()
    assert "a.json:2:89: document 1, items[0]: warning: ConfigMap c: data.a: the same mapping" in first
    assert "a.json:4:67: document 1, items[2]: Service u: metadata.name: the same mapping" in second
    assert total == "3 objects, 1 error, 1 warning"


def test_a_misspelt_kind_is_named_with_the_kind_that_was_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(changed(DEPLOYMENT, "kind", "Deployement")))
    assert main(["validate", "-f", str(tmp_path)]) == 1
    assert "apps/v1 has no kind Deployement (did you mean Deployment?)" in capsys.readouterr().out
