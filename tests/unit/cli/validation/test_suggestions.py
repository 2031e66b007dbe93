"""What was probably meant, for values of closed lists, keys of requirements, and kinds."""

from __future__ import annotations

from typing import Any

import pytest

from cli.manifests.document import Document
from cli.validation.suggestions import probably_meant
from tests.unit.api.objects import NODE_POOL, changed

OPERATOR = "spec.template.spec.requirements[0].operator"


@pytest.mark.parametrize(
    ("path", "value", "field", "meant"),
    [
        ("spec.template.spec.requirements.0.operator", "notin", OPERATOR, "NotIn"),
        ("spec.template.spec.requirements.0.key", "kubernetes.io/arc", f"{OPERATOR[:-9]}.key", "kubernetes.io/arch"),
        ("spec.template.spec.taints.0.effect", "noexecute", "spec.template.spec.taints[0].effect", "NoExecute"),
        ("spec.disruption.consolidationPolicy", "whenempty", "spec.disruption.consolidationPolicy", "WhenEmpty"),
        ("spec.template.spec.requirements", [], OPERATOR, ""),
        ("spec.template.spec.requirements", {"operator": "in"}, OPERATOR, ""),
        ("spec.template.spec.requirements", "in", OPERATOR, ""),
        ("spec.template.spec.requirements.0.operator", 7, OPERATOR, ""),
        ("spec.weight", "ten", "spec.weight", ""),
        ("metadata.name", "default", "spec.nothing.of[3].this", ""),
        ("apiVersion", "karpenter.sh/v2", "apiVersion", "karpenter.sh/v1"),
        ("kind", "Nodepool", "apiVersion", "NodePool"),
        ("kind", "Zzz", "apiVersion", ""),
        ("kind", "Zzz", OPERATOR, ""),
    ],
)
def test_what_a_field_probably_means(path: str, value: Any, field: str, meant: str) -> None:
    assert probably_meant(Document("a.yaml", 0, changed(NODE_POOL, path, value)), field) == meant


def test_objects_of_older_versions_get_no_suggestion() -> None:
    old = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "spec": {"requirements": [{"operator": "in"}]}}
    assert probably_meant(Document("a.yaml", 0, old), "spec.requirements[0].operator") == ""
    assert probably_meant(Document("a.yaml", 0, old), "apiVersion") == ""
