"""All findings of an input: which checks an object gets, and in which order they are told."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cli.commands.validate import _shapes_types
from cli.manifests.document import Document
from cli.manifests.reading import parse
from cli.manifests.repeated_fields import RepeatedField
from cli.validation.examine import examine
from core.model.catalogue import Catalogue
from tests.builders import a_type
from tests.unit.api.objects import NODE_CLASS, NODE_POOL, changed

CATALOGUE = Catalogue(default=(a_type("m5.large"),))
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c"}]},
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
    twice = "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: {containers: [{name: c}], zz: 1, nodeSelctor: {}}\n"
    repeats = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, name: a}\nspec: {containers: [{name: c}], nodeSelctor: {}}\n"
    )
    found = told(f"{twice}---\n{repeats}", twice)
    assert found == [
        ("a.yaml", "Pod/b", "spec.zz", 4, 33),
        ("a.yaml", "Pod/b", "spec.nodeSelctor", 4, 40),
        ("a.yaml", "Pod/a", "metadata.name", 8, 21),
        ("a.yaml", "Pod/a", "spec.nodeSelctor", 9, 33),
        ("b.yaml", "Pod/b", "spec.zz", 4, 33),
        ("b.yaml", "Pod/b", "spec.nodeSelctor", 4, 40),
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
                    "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "lots"}}}]}},
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
