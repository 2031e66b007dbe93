"""Findings as lines, JSON, GitHub's commands, SARIF and JUnit: each form has what the others have."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cli.manifests.document import Document
from cli.validation.finding import MEANINGS, Code, Finding, Severity, nearest
from cli.validation.formats import as_document, as_github, as_junit, as_lines, as_sarif


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
