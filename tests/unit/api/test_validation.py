"""Every problem of an object is found, whatever its kind and version."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.api.validation import MODELS, problems
from tests.unit.api.objects import ABSENT, NODE_CLAIM, NODE_CLASS, NODE_OVERLAY, NODE_POOL, changed


@pytest.mark.parametrize("valid", [NODE_POOL, NODE_CLAIM, NODE_OVERLAY, NODE_CLASS])
def test_each_kind_with_a_model_is_accepted_and_found_by_its_group(valid: JsonObject) -> None:
    group, _, version = valid["apiVersion"].partition("/")
    assert (group, version, valid["kind"]) in MODELS
    assert problems(valid) == ()


def test_all_problems_are_found_at_once_each_with_object_and_field() -> None:
    """Otherwise, somebody corrects a manifest as many times as it has mistakes."""
    wrong = changed(changed(NODE_POOL, "spec.weight", 0), "spec.limits.cpu", "many")
    assert [(found.kind, found.name, found.field) for found in problems(wrong)] == [
        ("NodePool", "default", "spec.limits.cpu"),
        ("NodePool", "default", "spec.weight"),
    ]


def test_a_null_is_a_field_that_is_not_there() -> None:
    """The API server drops nulls before it validates."""
    assert problems(changed(NODE_POOL, "spec.weight", None)) == ()


@pytest.mark.parametrize(
    ("path", "value", "kind", "field"),
    [
        ("kind", ABSENT, "object", "kind"),
        ("metadata.name", ABSENT, "NodePool", "metadata.name"),
        ("apiVersion", ABSENT, "NodePool", "apiVersion"),
        ("kind", "NodePond", "NodePond", "apiVersion"),
        ("apiVersion", "karpenter.sh/v7", "NodePool", "apiVersion"),
    ],
)
def test_an_object_that_cannot_be_identified_has_one_problem(path: str, value: object, kind: str, field: str) -> None:
    (found,) = problems(changed(NODE_POOL, path, value))
    assert (found.kind, found.field) == (kind, field)


def test_kinds_of_others_only_need_kind_and_name() -> None:
    assert problems({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"weight": 0}}) == ()


def test_an_object_without_kind_and_version_has_two_problems() -> None:
    found = problems({"metadata": {"name": "p"}})
    assert [(one.kind, one.name, one.field, one.message) for one in found] == [
        ("object", "p", "apiVersion", "is required"),
        ("object", "p", "kind", "is required"),
    ]
