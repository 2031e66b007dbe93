"""The identity of JSON objects, and their content without empty values."""

from __future__ import annotations

from core.api.objects import generation_of, group_and_version, is_ours, without_nulls


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
