"""Memory that nodes have shown takes the place of the estimate, for the images that they had."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from core import labels
from core.catalogue.build import CatalogueBuilder
from core.catalogue.discovered.node_memory import (
    MIB,
    TYPES_MAX,
    SeenMemory,
    discovered_memory,
    with_renamed_images,
    with_seen,
)
from core.catalogue.node_class import read_node_class
from tests.unit.catalogue.one_type import MARKET, shape

GIB = 2**30
ESTIMATE = 7577
"""MiB of an m5.large: 8 GiB less 7.5 %."""


def a_class(written: str | None = None, *images: str) -> dict[str, Any]:
    annotations = {} if written is None else {labels.NODE_MEMORY: written}
    amis = [{"id": image} for image in images or ("ami-1",)]
    return {"metadata": {"name": "c", "annotations": annotations}, "spec": {}, "status": {"amis": amis}}


def seen(*mebibytes: int, image: str = "ami-1", name: str = "m5.large") -> str | None:
    return with_seen(read_node_class(a_class()), [SeenMemory(name, image, mib * MIB) for mib in mebibytes])


def planned(manifest: dict[str, Any]) -> int:
    """MiB of an m5.large in the class' catalogue."""
    built = CatalogueBuilder([shape(), shape(InstanceType="c5.large")], MARKET).catalogue([manifest])
    return next(found for found in built.types_for("c") if found.name == "m5.large").capacity["memory"] // MIB


def test_plans_count_on_what_nodes_have_shown() -> None:
    """The estimate gives away hundreds of MiB a node; where it is too high, pods wait for nodes that do not hold them."""
    assert planned(a_class()) == ESTIMATE
    assert planned(a_class(seen(7800))) == 7800
    assert planned(a_class(seen(7400))) == 7400


def test_the_smallest_counts_in_whole_mebibytes() -> None:
    written = with_seen(read_node_class(a_class(seen(7810))), [SeenMemory("m5.large", "ami-1", 7800 * MIB + 4096)])
    assert planned(a_class(seen(7810, 7790, 7800))) == 7790
    assert planned(a_class(written)) == 7800


def test_what_is_known_is_not_written_again() -> None:
    """Otherwise, each round would write to the class, and wake all its watchers."""
    known = read_node_class(a_class(seen(7800)))
    assert with_seen(known, [SeenMemory("m5.large", "ami-1", 7800 * MIB)]) is None
    assert with_seen(known, [SeenMemory("m5.large", "ami-1", 7900 * MIB)]) is None
    assert with_seen(known, []) is None


def test_other_images_begin_with_the_estimate() -> None:
    """Their kernel keeps another share (Karpenter)."""
    assert planned(a_class(seen(7800), "ami-2")) == ESTIMATE
    assert planned(a_class(seen(7800), "ami-1", "ami-2")) == ESTIMATE
    assert seen(7800, image="ami-old") is None
    again = with_seen(read_node_class(a_class(seen(7800), "ami-2")), [SeenMemory("m5.large", "ami-2", 7700 * MIB)])
    assert planned(a_class(again, "ami-2")) == 7700


@pytest.mark.parametrize("mebibytes", [1000, 9000])
def test_a_faulty_node_does_not_shape_its_type(mebibytes: int) -> None:
    assert planned(a_class(seen(mebibytes))) == ESTIMATE


@pytest.mark.parametrize(
    "text", ["", "nonsense", "{}", '{"images": 1, "mib": []}', '{"images":"x","mib":{"m5.large":"7"}}']
)
def test_an_annotation_that_cannot_be_read_changes_nothing(text: str) -> None:
    """Anybody may write it."""
    assert planned(a_class(text)) == ESTIMATE
    assert discovered_memory(read_node_class(a_class(text))) == ()


def test_a_node_without_memory_has_shown_nothing() -> None:
    """A kubelet registers before it has filled in what the node has."""
    assert seen(0) is None


def test_it_is_bounded() -> None:
    """Annotations of an object may have 256 KB together."""
    every = [SeenMemory(f"m5.{number}", "ami-1", GIB) for number in range(TYPES_MAX + 50)]
    written = with_seen(read_node_class(a_class()), every)
    assert len(discovered_memory(read_node_class(a_class(written)))) == TYPES_MAX
    assert len(written or "") < 20_000


def test_types_that_were_not_seen_are_the_same_objects() -> None:
    """Tables of a plan are kept by the identity of types."""
    builder = CatalogueBuilder([shape(), shape(InstanceType="c5.large")], MARKET)
    manifest = a_class(seen(7800))
    both = builder.catalogue([{**a_class(), "metadata": {"name": "d"}}, manifest])
    by_name = {found.name: found for found in both.types_for("d")}
    assert [by_name[t.name] is t for t in both.types_for("c")] == [t.name != "m5.large" for t in both.types_for("c")]
    assert builder.catalogue([manifest]).types_for("c") is both.types_for("c")


def test_a_report_for_images_with_other_ids_is_kept() -> None:
    """Copies of the same images in another account, or in a simulation, have other ids and the same kernel."""
    written = seen(7800)
    assert written is not None
    renamed = with_renamed_images(written, ["ami-1"], ["ami-9"])
    assert planned(a_class(renamed, "ami-9")) == 7800
    assert with_renamed_images(written, ["ami-2"], ["ami-9"]) is None
    assert with_renamed_images("nonsense", ["ami-1"], ["ami-9"]) is None
    assert with_renamed_images("", ["ami-1"], ["ami-9"]) is None


def test_a_report_that_says_nothing_hides_no_other() -> None:
    """Of an image that the class no longer has, or of a node without memory; a mebibyte is the least that counts."""
    reports = [
        SeenMemory("a1.large", "ami-1", 0),
        SeenMemory("a1.large", "ami-old", GIB),
        SeenMemory("b1.large", "ami-1", MIB - 1),
        SeenMemory("c1.large", "ami-1", MIB),
        SeenMemory("d1.large", "ami-1", 3 * MIB - 1),
    ]
    written = with_seen(read_node_class(a_class()), reports)
    assert discovered_memory(read_node_class(a_class(written))) == (("c1.large", 1), ("d1.large", 2))


def test_types_that_are_known_are_updated_when_there_is_room_for_no_more() -> None:
    assert TYPES_MAX == 600
    every = [SeenMemory(f"m5.{number}", "ami-1", GIB) for number in range(TYPES_MAX)]
    full = read_node_class(a_class(with_seen(read_node_class(a_class()), every)))
    smaller, new = SeenMemory("m5.7", "ami-1", GIB - MIB), SeenMemory("zz.large", "ami-1", GIB)
    after = dict(discovered_memory(read_node_class(a_class(with_seen(full, [smaller, new])))))
    assert (after["m5.7"], after.get("zz.large"), len(after)) == (1023, None, TYPES_MAX)


def test_a_digest_names_a_set_of_images_in_twelve_characters() -> None:
    """It is stored in clusters: reports under another digest would be lost."""
    written = with_seen(read_node_class(a_class(None, "ami-2", "ami-1", "ami-2")), [SeenMemory("x", "ami-1", GIB)])
    assert written == with_seen(read_node_class(a_class(None, "ami-1", "ami-2")), [SeenMemory("x", "ami-1", GIB)])
    assert json.loads(str(written)) == {"images": sha256(b"ami-1,ami-2").hexdigest()[:12], "mib": {"x": 1024}}
