"""`fleetwright validate`: one line for each problem, and an exit code that a pipeline can rely on."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from cli.__main__ import main
from tests.unit.api.objects import NODE_CLASS, NODE_POOL, changed

BAD_POOL = changed(changed(NODE_POOL, "spec.weight", 0), "metadata.name", "wrong")


def write(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_valid_objects_are_confirmed_with_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-f", write(tmp_path / "a.yaml", NODE_POOL, NODE_CLASS)]) == 0
    assert capsys.readouterr() == ("2 objects, no problem\n", "")


def test_a_problem_is_reported_with_file_document_object_field_and_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "a.yaml", NODE_POOL, BAD_POOL, NODE_CLASS)
    assert main(["validate", "-f", file]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"{file}:\d+:3: document 2: NodePool wrong: spec.weight: must be at least 1", first)
    assert last == "3 objects, 1 error, 0 warnings"


def test_good_objects_do_not_hide_bad_ones_in_any_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a.yaml", NODE_POOL, changed(BAD_POOL, "spec.limits.cpu", "ten"))
    write(tmp_path / "b.yaml", changed(NODE_CLASS, "spec.role", ""))
    assert main(["validate", "-f", str(tmp_path)]) == 1
    *lines, _ = capsys.readouterr().out.splitlines()
    assert [line.rsplit(": ", 2)[1] for line in lines] == ["spec.limits.cpu", "spec.weight", "spec.role"]


def test_an_object_in_a_list_is_located(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [NODE_POOL, BAD_POOL]}
    assert main(["validate", "-f", write(tmp_path / "a.yaml", listed)]) == 1
    assert "document 1, items[1]: NodePool wrong: spec.weight" in capsys.readouterr().out


@pytest.mark.parametrize(("form", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_json_output_can_be_parsed(
    form: str, load: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "a.yaml", BAD_POOL, NODE_CLASS)
    assert main(["validate", "-f", file, "-o", form]) == 1
    answer = load(capsys.readouterr().out)
    assert (answer["kind"], answer["valid"], answer["errors"], answer["warnings"]) == ("Validation", False, 1, 0)
    assert answer["problems"] == [
        {
            "severity": "error",
            "code": "InvalidValue",
            "file": file,
            "document": 0,
            "item": "",
            "line": answer["problems"][0]["line"],
            "column": 3,
            "object": "NodePool/wrong",
            "kind": "NodePool",
            "name": "wrong",
            "field": "spec.weight",
            "message": "must be at least 1",
            "suggestion": None,
        }
    ]


def test_unreadable_input_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    assert main(["validate", "-f", str(tmp_path / "a.yaml")]) == 2
    assert main(["validate", "-f", str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr().out == ""


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Input:
        buffer = io.BytesIO(yaml.safe_dump(BAD_POOL).encode())

    monkeypatch.setattr(sys, "stdin", Input)
    assert main(["validate", "-f", "-"]) == 1
    assert capsys.readouterr().out.startswith("-:")


def test_ignored_kinds_are_counted_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise, a misspelt kind passes as valid."""
    others = [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} for kind in ("Namespace", "Widget", "Widget")
    ]
    assert main(["validate", "-f", write(tmp_path / "a.yaml", *others)]) == 0
    assert capsys.readouterr().err == "warning: skipped 2 objects of kinds that are not read here: Widget 2\n"


COMMON_MISTAKES = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  disrution: {consolidateAfter: 1m}
  colour: blue
  disruption:
    budgets:
    - {nodes: "1", schedule: "0 25 * * *", duration: 1h}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: defualt}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [x86_64]}
      - key: node.kubernetes.io/instance-type
        operator: In
        values: [m5.gigantic, m5.large]
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a, us-west-2a]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: r
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers: [{name: c, image: x, resources: {reqests: {cpu: 1}}}]
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: old}
spec: {template: {spec: {nodeClassRef: {name: default}, requirements: []}}}
"""


def found_in(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[tuple[Any, ...]]:
    (tmp_path / "a.yaml").write_text(text)
    main(["validate", "-f", str(tmp_path / "a.yaml"), "-o", "json", *more])
    keys = ("severity", "code", "object", "field", "line", "suggestion")
    return [tuple(problem[key] for key in keys) for problem in json.loads(capsys.readouterr().out)["problems"]]


def test_the_commonest_mistakes_are_found_with_a_suggestion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of these passed silently: a budget that stops disruption forever, a pool that launches nothing."""
    pool = "NodePool/default"
    required = "spec.template.spec.requirements"
    assert found_in(COMMON_MISTAKES, tmp_path, capsys) == [
        ("error", "UnknownField", pool, "spec.disrution", 5, "disruption"),
        ("warning", "UnknownField", pool, "spec.colour", 6, None),
        ("error", "InvalidCron", pool, "spec.disruption.budgets[0].schedule", 9, None),
        ("error", "NotFound", pool, "spec.template.spec.nodeClassRef.name", 12, "default"),
        ("error", "MatchesNothing", pool, f"{required}[0].values[0]", 14, "amd64"),
        ("warning", "MatchesNothing", pool, f"{required}[1].values[0]", 17, None),
        ("warning", "MatchesNothing", pool, f"{required}[2].values[1]", 18, None),
        (
            "error",
            "UnknownField",
            "Deployment/shop/web",
            "spec.template.spec.containers[0].resources.reqests",
            37,
            "requests",
        ),
        ("warning", "OldVersion", "NodePool/old", "apiVersion", 39, None),
    ]


def test_lenient_turns_only_misspelt_fields_into_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strict = found_in(COMMON_MISTAKES, tmp_path, capsys)
    lenient = found_in(COMMON_MISTAKES, tmp_path, capsys, "--lenient")
    assert [(was[1], was[0], now[0]) for was, now in zip(strict, lenient, strict=True) if was != now] == [
        ("UnknownField", "error", "warning"),
        ("UnknownField", "error", "warning"),
    ]


def test_a_class_outside_of_the_input_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pools and classes may be in different repositories; if the input has classes, an unknown name is a typo."""
    assert main(["validate", "-f", write(tmp_path / "a.yaml", NODE_POOL)]) == 0
    assert "there is no EC2NodeClass" in capsys.readouterr().out
    other = changed(NODE_CLASS, "metadata.name", "other")
    assert main(["validate", "-f", write(tmp_path / "a.yaml", NODE_POOL, other)]) == 1


@pytest.mark.parametrize("form", ["github", "sarif", "junit"])
def test_ci_formats_report_the_same_problems(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(COMMON_MISTAKES)
    assert main(["validate", "-f", str(tmp_path / "a.yaml"), "-o", form]) == 1
    text = capsys.readouterr().out
    if form == "github":
        assert f"::error file={tmp_path / 'a.yaml'},line=5,col=3,title=UnknownField::NodePool/default" in text
        assert len(text.splitlines()) == 9
    elif form == "sarif":
        results = json.loads(text)["runs"][0]["results"]
        assert [result["level"] for result in results].count("error") == 5
        assert results[0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 5, "startColumn": 3}
    else:
        suite = ET.fromstring(text)  # noqa: S314 - our own output
        assert (suite.get("tests"), suite.get("failures"), len(suite.findall("testcase/failure"))) == ("9", "5", 5)


def test_json_input_has_lines_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [BAD_POOL]}, indent=1))
    main(["validate", "-f", str(tmp_path / "a.json"), "-o", "json"])
    (_, problem) = json.loads(capsys.readouterr().out)["problems"]
    assert '"weight"' in (tmp_path / "a.json").read_text().splitlines()[problem["line"] - 1]


def test_a_bare_number_of_seconds_converts_to_a_valid_duration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Old manifests mean seconds; v1 needs a unit."""
    pool = {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": "old"},
        "spec": {
            "disruption": {"expireAfter": 86400, "consolidationPolicy": "WhenEmpty", "consolidateAfter": 30},
            "template": {"spec": {"nodeClassRef": {"name": "default"}, "requirements": []}},
        },
    }
    assert main(["convert", "-f", write(tmp_path / "a.yaml", pool)]) == 0
    (converted,) = yaml.safe_load_all(capsys.readouterr().out)
    assert converted["spec"]["template"]["spec"]["expireAfter"] == "86400s"
    assert converted["spec"]["disruption"]["consolidateAfter"] == "30s"
    assert main(["validate", "-f", write(tmp_path / "b.yaml", converted)]) == 0
