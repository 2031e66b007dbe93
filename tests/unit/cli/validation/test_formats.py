"""Findings as lines, JSON, GitHub's commands, SARIF and JUnit: each form has what the others have."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cli.manifests.inventory import Document
from cli.validation.formats import (
    MEANINGS,
    Code,
    Finding,
    Severity,
    as_document,
    as_github,
    as_junit,
    as_lines,
    as_sarif,
    finding_in,
    nearest,
    place_in_workload,
    right_place,
    type_of,
    unknown_fields,
)
from tests.unit.api.objects import NODE_CLASS, NODE_OVERLAY, NODE_POOL

# Where a misplaced field of our objects belongs: in one place only, or nowhere.


@pytest.mark.parametrize(
    ("obj", "location", "place"),
    [
        (NODE_POOL, ("spec", "expireAfter"), "spec.template.spec.expireAfter"),
        (NODE_POOL, ("spec", "template", "spec", "weight"), "spec.weight"),
        (NODE_POOL, ("spec", "budgets"), "spec.disruption.budgets"),
        (NODE_POOL, ("spec", "nodes"), ""),  # a field of the entries of a list
        (NODE_POOL, ("spec", "ttlSecondsUntilExpired"), "spec.template.spec.expireAfter"),
        (NODE_POOL, ("spec", "template", "spec", "userData"), "spec.userData of the EC2NodeClass"),
        (NODE_POOL, ("spec", "kubelet"), "spec.kubelet of the EC2NodeClass"),
        (NODE_POOL, ("spec", "template", "spec", "nodeClassRef", "apiVersion"), "group"),
        (NODE_POOL, ("spec", "key"), ""),
        (NODE_POOL, ("spec", "whatever"), ""),
        (NODE_POOL, ("spec", "spec"), "spec.template.spec"),
        (NODE_CLASS, ("spec", "weight"), "spec.weight of the NodePool"),
        (NODE_CLASS, ("spec", "maxPods"), "spec.kubelet.maxPods"),
        (NODE_CLASS, ("spec", "amiSelector"), "spec.amiSelectorTerms"),
        (NODE_CLASS, ("spec", "labels"), "spec.template.metadata.labels of the NodePool"),
        (NODE_OVERLAY, ("spec", "userData"), ""),
        ({**NODE_POOL, "apiVersion": "example.com/v1"}, ("spec", "expireAfter"), ""),
    ],
)
def test_the_one_place_where_a_field_belongs(obj: dict[str, object], location: tuple[str, ...], place: str) -> None:
    assert right_place(obj, location) == place


# A finding names its object, and what was probably meant.


POD = Document("a.yaml", 0, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}})


def test_a_finding_is_about_its_document_or_about_another_object() -> None:
    expected = Finding(
        document=POD,
        severity=Severity.ERROR,
        code=Code.NOT_FOUND,
        kind="Pod",
        name="shop/p",
        field="spec.x",
        message="is wrong",
    )
    assert finding_in(POD, Code.NOT_FOUND, "spec.x", "is wrong") == expected
    assert (expected.object, expected.text) == ("Pod/shop/p", "is wrong")
    other = finding_in(
        POD,
        Code.NO_EFFECT,
        "",
        "is wrong",
        severity=Severity.WARNING,
        suggestion="right",
        subject=("NodePool", "web"),
    )
    assert (other.object, other.severity, other.code) == ("NodePool/web", Severity.WARNING, Code.NO_EFFECT)
    assert other.text == "is wrong (did you mean 'right'?)"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("Spot", "spot"),
        ("SPOTT", "spot"),
        ("on-demnd", "on-demand"),
        ("zzz", ""),
        ("cpus", "CPU"),
        ("CPU", "CPU"),
        ("arm65", "arm64"),
    ],
)
def test_the_known_word_of_nearly_the_same_spelling_is_meant(word: str, meant: str) -> None:
    assert nearest(word, ("spot", "on-demand", "cpu", "CPU", "arm64", "arm")) == meant
    assert nearest(word, ()) == ""


def a_finding(item: str = "", **changes: Any) -> Finding:
    fixed: dict[str, Any] = {
        "document": Document("a.yaml", 1, {}, item),
        "severity": Severity.ERROR,
        "code": Code.INVALID_VALUE,
        "kind": "NodePool",
        "name": "general",
        "field": "spec.weight",
        "message": "must be at least 1",
        "line": 7,
        "column": 3,
    }
    return Finding(**fixed | changes)


WARNING = {"severity": Severity.WARNING, "code": Code.NO_EFFECT, "suggestion": "memory", "message": "is nothing"}
UNPLACED = {"line": None, "column": None}


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        (a_finding(), "a.yaml:7:3: document 2: NodePool general: spec.weight: must be at least 1"),
        (
            a_finding("items[2]", **WARNING),
            "a.yaml:7:3: document 2, items[2]: warning: NodePool general: spec.weight: is nothing (did you mean 'memory'?)",
        ),
        (
            a_finding(**UNPLACED, name="", field="", message="is\nodd"),
            "a.yaml: document 2: NodePool without a name: is\\nodd",
        ),
    ],
)
def test_a_finding_is_one_line(finding: Finding, line: str) -> None:
    assert as_lines([finding], objects=1).splitlines()[0] == line


@pytest.mark.parametrize(
    ("errors", "warnings", "objects", "summary"),
    [
        (0, 0, 1, "1 object, no problem"),
        (0, 0, 2, "2 objects, no problem"),
        (1, 0, 2, "2 objects, 1 error, 0 warnings"),
        (0, 1, 1, "1 object, 0 errors, 1 warning"),
        (2, 3, 0, "0 objects, 2 errors, 3 warnings"),
    ],
)
def test_the_last_line_counts(errors: int, warnings: int, objects: int, summary: str) -> None:
    findings = [a_finding()] * errors + [a_finding(**WARNING)] * warnings
    assert as_lines(findings, objects=objects).splitlines()[-1] == summary
    document = as_document(findings)
    assert (document["valid"], document["errors"], document["warnings"]) == (not errors, errors, warnings)


def test_the_document_has_every_part() -> None:
    (first, second) = as_document([a_finding(), a_finding("items[2]", **WARNING, **UNPLACED)])["problems"]
    assert first == {
        "severity": "error",
        "code": "InvalidValue",
        "file": "a.yaml",
        "document": 1,
        "item": "",
        "line": 7,
        "column": 3,
        "object": "NodePool/general",
        "kind": "NodePool",
        "name": "general",
        "field": "spec.weight",
        "message": "must be at least 1",
        "suggestion": None,
    }
    changed = {"severity": "warning", "code": "NoEffect", "item": "items[2]", "message": "is nothing"}
    assert second == {**first, **changed, "suggestion": "memory", "line": None, "column": None}


def test_github_gets_a_command_a_line_with_nothing_that_begins_another() -> None:
    odd = a_finding(document=Document("a:b,c.yaml", 0, {}), message="50%\r\n::error::x", **UNPLACED)
    assert as_github([a_finding(), a_finding(**WARNING), odd]).splitlines() == [
        "::error file=a.yaml,line=7,col=3,title=InvalidValue::NodePool/general: spec.weight: must be at least 1",
        (
            "::warning file=a.yaml,line=7,col=3,title=NoEffect::NodePool/general: spec.weight: is nothing "
            "(did you mean 'memory'?)"
        ),
        "::error file=a%3Ab%2Cc.yaml,title=InvalidValue::NodePool/general: spec.weight: 50%25%0D%0A::error::x",
    ]


def test_sarif_has_the_rules_and_a_result_each() -> None:
    (run,) = json.loads(as_sarif([a_finding(), a_finding(**WARNING, **UNPLACED)]))["runs"]
    rules = {rule["id"]: rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]}
    assert rules == {code.value: text for code, text in MEANINGS.items()}
    first, second = run["results"]
    place = {"artifactLocation": {"uri": "a.yaml"}, "region": {"startLine": 7, "startColumn": 3}}
    assert first == {
        "ruleId": "InvalidValue",
        "level": "error",
        "message": {"text": "NodePool/general: spec.weight: must be at least 1"},
        "locations": [{"physicalLocation": place}],
    }
    assert second["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "a.yaml"}}}]
    assert (second["level"], second["ruleId"]) == ("warning", "NoEffect")


def test_junit_has_a_case_for_each_finding_and_one_for_none() -> None:
    suite = ET.fromstring(as_junit([a_finding(), a_finding(**WARNING, field="")], objects=2))  # noqa: S314 - our own
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("fleetwright validate", "2", "1")
    failed, passed = suite
    assert (failed.get("classname"), failed.get("name")) == ("NodePool/general", "spec.weight")
    (failure,) = failed
    assert (failure.tag, failure.get("type"), failure.get("message")) == (
        "failure",
        "InvalidValue",
        "must be at least 1",
    )
    assert (failure.text or "").startswith("a.yaml:7:3: document 2")
    assert passed.get("name") == "NoEffect"
    assert [part.tag for part in passed] == ["system-out"]
    assert "is nothing" in (passed[0].text or "")
    empty = ET.fromstring(as_junit([], objects=2))  # noqa: S314 - our own
    assert (empty.get("tests"), empty.get("failures"), empty[0].get("name")) == ("1", "0", "2 objects")


@pytest.mark.parametrize(
    ("word", "found"),
    [("SPOT", "spot"), ("on_demand", "on-demand"), ("zzz", ""), ("", ""), ("reservd", "reserved")],
)
def test_the_nearest_word_ignores_case(word: str, found: str) -> None:
    assert nearest(word, ["spot", "on-demand", "reserved"]) == found


# A field that no API server knows: an error where it is surely a mistake, else a warning: a newer version may have it.


POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool"}
UNKNOWN_FIELDS_POD = {"apiVersion": "v1", "kind": "Pod"}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}
NOT_HERE, NOWHERE = "there is no such field here", "there is no such field"


def found(obj: dict[str, Any], *, is_lenient: bool = False) -> list[tuple[str, bool, str, str]]:
    """Path, whether it is an error, message and suggestion of each finding."""
    document = Document("x.yaml", 0, obj)
    return [
        (one.field, one.severity is Severity.ERROR, one.message, one.suggestion)
        for one in unknown_fields(document, is_lenient=is_lenient)
    ]


def test_a_misspelt_field_is_an_error_with_the_one_that_is_meant() -> None:
    pool = {
        **POOL,
        "metadata": {"name": "a", "anotations": {}},
        "spec": {"wieght": 3, "template": {"spec": {"taint": []}}},
    }
    assert found(pool) == [
        ("metadata.anotations", True, NOWHERE, "annotations"),
        ("spec.wieght", True, NOWHERE, "weight"),
        ("spec.template.spec.taint", True, NOWHERE, "taints"),
    ]
    assert [error for _, error, *_ in found(pool, is_lenient=True)] == [False] * 3


def test_a_field_like_no_other_may_be_of_a_newer_version() -> None:
    assert found({**POOL, "spec": {"quixotic": 1}}) == [("spec.quixotic", False, NOWHERE, "")]
    assert found({**UNKNOWN_FIELDS_POD, "spec": {"quixotic": 1}}) == [("spec.quixotic", False, NOWHERE, "")]


def test_a_field_of_another_place_is_an_error_with_the_place() -> None:
    ((field, error, message, meant),) = found({**POOL, "spec": {"consolidateAfter": "1m"}})
    assert (field, error, message, meant) == (
        "spec.consolidateAfter",
        True,
        NOT_HERE,
        "spec.disruption.consolidateAfter",
    )
    ((_, error, message, meant),) = found({**DEPLOYMENT, "spec": {"nodeSelector": {"a": "b"}}})
    assert (error, message, meant) == (True, NOT_HERE, "spec.template.spec.nodeSelector")


def test_a_group_as_kubernetes_1_35_wrote_it_is_known() -> None:
    """The pinned client has lost the field, and clusters of that release have not."""
    spec = {"containers": [{"name": "c"}], "workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": "0"}}
    assert found({**DEPLOYMENT, "spec": {"template": {"metadata": {}, "spec": spec}}}) == []
    spec["workloadRef"] = {"name": "w", "podgroup": "g"}
    ((field, *_, meant),) = found({**DEPLOYMENT, "spec": {"template": {"metadata": {}, "spec": spec}}})
    assert (field, meant) == ("spec.template.spec.workloadRef.podgroup", "podGroup")


def test_every_unknown_field_of_a_pod_template_is_an_error() -> None:
    """The API server drops it, and the pod runs without."""
    template = {"metadata": {}, "spec": {"containers": [{"name": "c"}, {"quixotic": 1}], "quixotic": 2}}
    assert [
        (field, error) for field, error, *_ in found({**DEPLOYMENT, "spec": {"template": template, "quixotic": 3}})
    ] == [
        ("spec.quixotic", False),
        ("spec.template.spec.quixotic", True),
        ("spec.template.spec.containers[1].quixotic", True),
    ]


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "spec": {"quixotic": 1}},
        {"apiVersion": "acme.example/v1", "kind": "Pod", "spec": {"quixotic": 1}},
        {"apiVersion": "v1", "kind": "Secret", "quixotic": 1},
        {**POOL, "spec": None, "metadata": None},
        {**UNKNOWN_FIELDS_POD, "spec": [1], "metadata": {"labels": {"quixotic": "1"}}},
        {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "spec": {"tags": {"quixotic": "1"}}},
    ],
    ids=["older version", "another group", "a kind not known", "empty", "of another form", "open maps"],
)
def test_what_is_not_known_is_not_judged(obj: dict[str, Any]) -> None:
    assert found(obj) == []


# Where a misplaced field of a workload belongs: the nearest place below, else the nearest one above.


VERSIONS = {"Deployment": "apps/v1", "CronJob": "batch/v1", "Pod": "v1"}


@pytest.mark.parametrize(
    ("kind", "path", "place"),
    [
        ("Deployment", "containers", "spec.template.spec.containers"),
        ("Deployment", "spec.containers", "spec.template.spec.containers"),
        ("Deployment", "spec.template.containers", "spec.template.spec.containers"),
        ("Deployment", "spec.template.replicas", "spec.replicas"),
        ("Deployment", "spec.template.spec.replicas", "spec.replicas"),
        ("Deployment", "spec.selector.replicas", "spec.replicas"),
        ("Deployment", "spec.strategy.containers", ""),
        ("Deployment", "spec.other", ""),
        ("CronJob", "spec.backoffLimit", "spec.jobTemplate.spec.backoffLimit"),
        ("CronJob", "spec.activeDeadlineSeconds", "spec.jobTemplate.spec.activeDeadlineSeconds"),
        ("CronJob", "spec.jobTemplate.activeDeadlineSeconds", "spec.jobTemplate.spec.activeDeadlineSeconds"),
        ("CronJob", "spec.jobTemplate.spec.template.spec.schedule", "spec.schedule"),
        ("CronJob", "spec.jobTemplate.spec.template.spec.suspend", "spec.jobTemplate.spec.suspend"),
        ("CronJob", "metadata.suspend", ""),
        ("Pod", "nodeSelector", "spec.nodeSelector"),
        ("Pod", "spec.containers.nodeSelector", "spec.nodeSelector"),
        ("Pod", "spec.nodeSelector", ""),
    ],
)
def test_a_field_belongs_to_the_nearest_specification_that_has_it(kind: str, path: str, place: str) -> None:
    known = type_of({"apiVersion": VERSIONS[kind], "kind": kind})
    assert place_in_workload(kind, known, tuple(path.split("."))) == place
