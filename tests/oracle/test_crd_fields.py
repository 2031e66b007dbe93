"""Our definitions have every field of Karpenter's, so that none is dropped on arrival."""

from __future__ import annotations

from pathlib import Path

import yaml

from core.api.unknown_fields import unknown_fields
from tests.oracle.crd_fields import ROOT, fields_of, recorded

LEFT_OUT = {
    f"{kind}.{taints}[].timeAdded"
    for kind in ("NodePool spec.template.spec", "NodeClaim spec")
    for taints in ("taints", "startupTaints")
}
"""When a taint was added: Kubernetes writes it on nodes, and nobody writes it in a template."""

OPEN = "EC2NodeClass spec.kubelet."
"""Karpenter's definition leaves the kubelet's fields open; ours names them."""


def test_only_what_is_decided_differs_from_karpenters_fields() -> None:
    theirs, ours = set(recorded()), set(fields_of(ROOT / "crds"))
    assert theirs - ours == LEFT_OUT
    assert {field for field in ours - theirs if not field.startswith(OPEN)} == set()


def test_definitions_are_read_below_lists_and_objects(tmp_path: Path) -> None:
    leaf = {"type": "object", "properties": {"b": {"type": "string"}}}
    spec = {"properties": {"a": {"type": "array", "items": leaf}, "c": leaf}}
    version = {"storage": True, "schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}}
    written = {"spec": {"names": {"kind": "NodePool"}, "versions": [version]}}
    other = {"spec": {"names": {"kind": "Other"}, "versions": [version]}}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump_all([written, other]))
    assert fields_of(tmp_path) == ["NodePool spec.a", "NodePool spec.a[].b", "NodePool spec.c", "NodePool spec.c.b"]


def test_every_field_of_our_definitions_is_known_to_the_functions() -> None:
    """What the API server keeps and the functions would report as dropped would stop launches from every such class."""
    groups = {"EC2NodeClass": "karpenter.k8s.aws/v1", "NodeOverlay": "karpenter.sh/v1alpha1"}
    for line in fields_of(ROOT / "crds"):
        kind, path = line.split(" ")
        obj: dict[str, object] = {"apiVersion": groups.get(kind, "karpenter.sh/v1"), "kind": kind}
        place = obj
        *inner, last = path.split(".")
        for name in inner:
            child: dict[str, object] = {}
            place[name.removesuffix("[]")] = [child] if name.endswith("[]") else child
            place = child
        place[last] = 1
        assert unknown_fields(obj) == (), line
