"""Memory that nodes have shown takes the place of the estimate, for the images that they had."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from core import labels
from core.catalogue.build import CatalogueBuilder, build_catalogue
from core.catalogue.node_class import read_node_class
from core.catalogue.node_memory import (
    MIB,
    TYPES_MAX,
    SeenMemory,
    discovered_memory,
    placement_group_of,
    with_renamed_images,
    with_seen,
    written_group,
)
from core.model.catalogue import InstanceType
from tests.builders import a_class_manifest
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


# The placement group of a class, and what it makes of instance types.


GROUP: dict[str, Any] = {"id": "pg-1", "name": "racks", "strategy": "partition", "partitions": 3}


def node_class(selector: dict[str, str] | None, written: str) -> dict[str, Any]:
    spec = {} if selector is None else {"placementGroupSelector": selector}
    return a_class_manifest(metadata={"annotations": {labels.PLACEMENT_GROUP: written}}, **spec)


def built(manifest: dict[str, Any], *strategies: str) -> InstanceType:
    described = shape(PlacementGroupInfo={"SupportedStrategies": list(strategies)})
    return build_catalogue([described], MARKET, [manifest]).types_for("default")[0]


@pytest.mark.parametrize(
    ("selector", "written", "expected"),
    [
        ({"name": "racks"}, written_group(GROUP), "pg-1"),
        ({"id": "pg-1"}, written_group(GROUP), "pg-1"),
        ({"name": "others"}, written_group(GROUP), ""),
        ({"id": "pg-2"}, written_group(GROUP), ""),
        (None, written_group(GROUP), ""),
        ({"name": "racks"}, "", ""),
        ({"name": "racks"}, "[}", ""),
        ({"name": "racks"}, '{"id": 1}', ""),
    ],
)
def test_an_annotation_counts_for_its_own_selector(
    selector: dict[str, str] | None, written: str, expected: str
) -> None:
    """After an edit it names the group of the earlier selector until the class is resolved again."""
    found = placement_group_of(read_node_class(node_class(selector, written)))
    assert (found.id if found is not None else "") == expected


def test_what_was_resolved_just_now_counts_before_the_annotation() -> None:
    manifest = {**node_class({"name": "new"}, written_group(GROUP))}
    manifest["status"] = {"placementGroup": {**GROUP, "id": "pg-2", "name": "new"}}
    found = placement_group_of(read_node_class(manifest))
    assert found is not None
    assert found.id == "pg-2"


def test_types_carry_the_group_and_its_partitions() -> None:
    found = built(node_class({"name": "racks"}, written_group(GROUP)), "partition")
    assert found.labels[labels.PLACEMENT_GROUP_ID] == ("pg-1",)
    assert found.labels[labels.PLACEMENT_GROUP_PARTITION] == ("1", "2", "3")
    assert all(offering.available for offering in found.offerings)


def test_a_type_that_the_strategy_excludes_is_not_launched() -> None:
    """Otherwise, EC2 refuses it, and the class pauses."""
    group = {**GROUP, "strategy": "cluster", "partitions": 0}
    found = built(node_class({"name": "racks"}, written_group(group)), "partition", "spread")
    assert labels.PLACEMENT_GROUP_PARTITION not in found.labels
    assert not any(offering.available for offering in found.offerings)


def test_without_a_group_types_have_no_such_label() -> None:
    assert not {labels.PLACEMENT_GROUP_ID, labels.PLACEMENT_GROUP_PARTITION} & built(node_class(None, "")).labels.keys()


def test_one_report_far_below_the_others_does_not_count() -> None:
    """A node that lies about its memory would shrink its type for all."""
    reports = [SeenMemory("m5.xlarge", "ami-1", mib * MIB) for mib in (*[15600] * 10, 8200)]
    written = with_seen(read_node_class(a_class()), reports)
    assert dict(discovered_memory(read_node_class(a_class(written)))) == {"m5.xlarge": 15600}


def test_a_single_report_far_from_what_is_known_changes_nothing() -> None:
    """One node is no evidence against what others have shown, in neither direction."""
    known = read_node_class(
        a_class(with_seen(read_node_class(a_class()), [SeenMemory("m5.large", "ami-1", 7800 * MIB)]))
    )
    for mib in (4000, 7900, 30000):
        assert with_seen(known, [SeenMemory("m5.large", "ami-1", mib * MIB)]) is None


def test_a_wrong_value_heals_when_several_nodes_agree() -> None:
    """The first node of a type may have been the one that lied."""
    known = read_node_class(
        a_class(with_seen(read_node_class(a_class()), [SeenMemory("m5.large", "ami-1", 5000 * MIB)]))
    )
    written = with_seen(known, [SeenMemory("m5.large", "ami-1", mib * MIB) for mib in (7800, 7801)])
    assert dict(discovered_memory(read_node_class(a_class(written)))) == {"m5.large": 7800}
