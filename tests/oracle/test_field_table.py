"""The page of fields is what the experiment finds, and every field has an effect that somebody can name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from core.api.translation import unknown_fields
from core.errors import InvalidInputError
from tests.oracle import field_table
from tests.oracle.field_table import ROOT, fields_of, recorded

_ROW = re.compile(r"^\| `(\S+)` \| (.*) \|$")


def written() -> dict[str, list[str]]:
    """Kind and path -> cells, as on the page."""
    found, kind = dict[str, list[str]](), ""
    for line in field_table.PAGE.read_text().splitlines():
        kind = line.removeprefix("## ") if line.startswith("## ") else kind
        if (row := _ROW.match(line)) is not None:
            found[f"{kind} {row[1]}"] = [cell.strip() for cell in row[2].split("|")]
    return found


def test_every_field_of_the_definitions_has_a_row_and_is_validated() -> None:
    rows = written()
    assert sorted(rows) == fields_of(ROOT / "crds")
    assert [name for name, cells in rows.items() if cells[1] != "yes"] == []


def test_every_field_has_an_effect() -> None:
    """A field that is read and then forgotten would look as if it worked."""
    assert [name for name, cells in written().items() if not any(cells[2:])] == []


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["NodePool", "NodeClaim", "NodeOverlay"])
def test_the_page_is_what_the_experiment_finds(kind: str) -> None:
    """`python -m tests.oracle.field_table` writes it; the 220 fields of EC2NodeClasses take too long for every run."""
    found = {
        f"{of_kind} {path}": ["yes" if effects[name] else "" for name in field_table.COLUMNS]
        for of_kind, path, effects in field_table.rows(kind)
    }
    assert {name: cells[:-1] for name, cells in written().items() if name.startswith(f"{kind} ")} == found


@pytest.mark.parametrize(
    "path",
    [
        "spec.enclaveOptions.enabled",
        "spec.blockDeviceMappings[].ebs.iops",
        "spec.ipPrefixCount",
        "spec.kubelet.maxPods",
        "spec.kubelet.featureGates",
        "spec.networkInterfaces[].interfaceType",
        "spec.userData",
    ],
)
def test_fields_of_a_class_are_as_the_page_says(path: str) -> None:
    (found,) = [effects for _, at, effects in field_table.rows("EC2NodeClass", path) if at == path]
    assert written()[f"EC2NodeClass {path}"][:-1] == ["yes" if found[name] else "" for name in field_table.COLUMNS]


def test_an_object_that_cannot_be_read_says_so() -> None:
    broken = {**field_table.objects()[0], "spec": {"weight": "heavy"}}
    with pytest.raises(InvalidInputError):
        field_table.outcomes(broken)


# Our definitions have every field of Karpenter's, so that none is dropped on arrival.


OPEN = "EC2NodeClass spec.kubelet."
"""Karpenter's definition leaves the kubelet's fields open; ours names them."""


def test_only_what_is_decided_differs_from_karpenters_fields() -> None:
    theirs, ours = set(recorded()), set(fields_of(ROOT / "crds"))
    assert theirs - ours == set()
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
