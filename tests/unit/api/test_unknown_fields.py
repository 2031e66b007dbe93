"""Fields that this version does not know are found wherever they are, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.observation.observer import without_dropped_fields
from core import api, labels
from core.api.older_versions import MODELS
from core.api.unknown_fields import _MODELS, not_ignored, unknown_fields
from tests.unit.api.objects import NODE_CLASS, NODE_POOL, changed


def test_every_kind_with_a_definition_is_examined() -> None:
    assert _MODELS == MODELS


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        (NODE_POOL, "spec.rebootPolicy"),
        (NODE_POOL, "spec.template.spec.rebootPolicy"),
        (NODE_POOL, "spec.disruption.canary"),
        (NODE_CLASS, "spec.hibernation"),
        (NODE_CLASS, "spec.metadataOptions.httpTags"),
    ],
)
def test_an_unknown_field_is_named_by_its_path(obj: dict[str, Any], path: str) -> None:
    assert unknown_fields(obj) == ()
    assert unknown_fields(changed(obj, path, {"anything": 1})) == (path,)


def test_fields_inside_lists_are_found() -> None:
    terms = [{"id": "subnet-1"}, {"id": "subnet-2", "vpc": "vpc-1"}]
    assert unknown_fields(changed(NODE_CLASS, "spec.subnetSelectorTerms", terms)) == (
        "spec.subnetSelectorTerms[1].vpc",
    )


def test_other_kinds_and_older_versions_have_none() -> None:
    assert unknown_fields({"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}}) == ()
    assert unknown_fields({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "spec": {"x": 1}}) == ()


def test_an_annotation_names_the_fields_without_which_nodes_may_be_launched() -> None:
    two = changed(changed(NODE_CLASS, "spec.hibernation", True), "spec.other", 1)
    told = changed(two, "metadata.annotations", {labels.IGNORED_FIELDS: "spec.hibernation, spec.none"})
    assert (not_ignored(two), not_ignored(told)) == (("spec.hibernation", "spec.other"), ("spec.other",))


def test_the_functions_launch_nothing_from_a_class_with_a_field_that_they_drop() -> None:
    """A node without its enclave or its kubelet setting is a wrong node."""
    node_class = without_dropped_fields(api.node_class(changed(NODE_CLASS, "spec.hibernation", True)))
    assert labels.IGNORED_FIELDS in node_class.problem
    assert node_class.problem.startswith("spec.hibernation: ")
    assert without_dropped_fields(api.node_class(NODE_CLASS)).problem == ""


def test_the_functions_launch_nothing_with_a_template_whose_field_they_drop() -> None:
    """A field of `disruption` is no part of a node."""
    template, disruption = ("spec.template.spec.rebootPolicy", "spec.disruption.canary")
    pool = api.node_pool(changed(changed(NODE_POOL, template, "x"), disruption, True))
    assert (pool.unknown_fields, without_dropped_fields(pool).problem != "") == ((template,), True)
    told = changed(changed(NODE_POOL, template, "x"), "metadata.annotations", {labels.IGNORED_FIELDS: template})
    assert without_dropped_fields(api.node_pool(told)).problem == ""
