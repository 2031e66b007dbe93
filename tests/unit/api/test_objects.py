"""The identity of JSON objects, and their content without empty values."""

from __future__ import annotations

from core.api.objects import (
    generation_of,
    group_and_version,
    identity_problems,
    is_ours,
    kind_of,
    mapping,
    name_of,
    sequence,
    without_nulls,
)


def test_an_object_without_a_generation_has_none() -> None:
    assert [generation_of(one) for one in ({"metadata": {"generation": 3}}, {"metadata": {}}, {})] == [3, 0, 0]


def test_an_object_is_ours_by_its_group_in_any_version() -> None:
    """Otherwise, an older version of a NodePool is passed over without a word."""
    versions = ("karpenter.sh/v1beta1", "karpenter.k8s.aws/v1", "apps/v1", "v1", "")
    assert [is_ours({"apiVersion": version}) for version in versions] == [True, True, False, False, False]
    assert group_and_version({"apiVersion": "v1"}) == ("", "v1")


def test_nulls_are_dropped_at_every_depth() -> None:
    """The API server drops them on arrival, so a hash of what was sent has to do without them."""
    assert without_nulls({"a": None, "b": [{"c": None, "d": 0}], "e": ""}) == {"b": [{"d": 0}], "e": ""}


def test_an_identity_is_text() -> None:
    assert identity_problems({"apiVersion": "v1", "kind": "Pod"}) == ()
    assert identity_problems({"kind": 5}) == (("apiVersion", "is required"), ("kind", "must be text"))
    assert identity_problems({"apiVersion": "", "kind": ["Pod"]}) == (
        ("apiVersion", "is required"),
        ("kind", "must be text"),
    )
    nothing = {"apiVersion": None, "kind": None, "metadata": {"name": None}}
    assert (group_and_version(nothing), kind_of(nothing), name_of(nothing)) == (("", ""), "", "")


def test_a_value_of_another_type_is_read_as_an_empty_one() -> None:
    """Validation reports it elsewhere, and says where."""
    assert (mapping([1]), mapping({"a": 1}), sequence({}), sequence([1])) == ({}, {"a": 1}, [], [1])
    assert generation_of({"metadata": {"generation": "3"}}) == 0
