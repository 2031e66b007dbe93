"""How a document names its object and its place in errors."""

from __future__ import annotations

from typing import Any

import pytest

from cli.manifests.document import Document


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
