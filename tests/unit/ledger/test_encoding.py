"""Arrays are read like each alone, and elements that the last one has too are the same objects."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.errors import InvalidInputError
from core.ledger import encoding
from core.ledger.encoding import (
    ArrayReader,
    FormReader,
    SnapshotForm,
    decode_catalogue,
    encode_catalogue,
    read_form,
    written_form,
)
from core.model.catalogue import Catalogue
from core.model.snapshot import Snapshot
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type


class One(msgspec.Struct, frozen=True):
    name: str
    inner: tuple[Any, ...] = ()


def written(elements: list[One]) -> bytes:
    return msgspec.json.encode(elements)


def changed(elements: list[One], chance: random.Random) -> list[One]:
    """Remove, replace, insert and move some elements."""
    found = [one for one in elements if chance.random() > 0.05]
    for _ in range(chance.randrange(6)):
        found.insert(
            chance.randrange(len(found) + 1), One(f"new {chance.random()}", (chance.choice(elements or [0]), 0))
        )
    if found and chance.random() < 0.5:
        found.append(found.pop(chance.randrange(len(found))))
    return found if chance.random() > 0.05 else []


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("size", [1, 100, 1 << 14])
def test_each_array_is_read_as_alone(seed: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements contain others whole, so that the text of a block may stand in the middle of one."""
    monkeypatch.setattr(encoding, "BLOCK_BYTES", size)
    chance, reader = random.Random(seed), ArrayReader(One)  # noqa: S311 - test data
    elements = [One(f"first {number}", ("x,]}",)) for number in range(chance.randrange(200))]
    for _ in range(20):
        assert list(reader.objects(written(elements))) == msgspec.json.decode(written(elements), type=list[One])
        elements = changed(elements, chance)


def test_unchanged_elements_are_the_same_objects_and_unchanged_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "BLOCK_BYTES", 200)
    elements = [One(f"{number:03}") for number in range(100)]
    reader = ArrayReader(One)
    before = reader.blocks(written(elements))
    objects = [one for block in before for one in block.objects]
    after = reader.blocks(written([*elements[:50], One("new"), *elements[51:]]))
    assert sum(a is b for a, b in zip(before, after, strict=True)) == len(before) - 1
    again = [one for block in after for one in block.objects]
    assert [number for number in range(100) if objects[number] is not again[number]] == [50]


def test_an_array_of_others_is_read_after_many_that_differ() -> None:
    reader = ArrayReader(One)
    for start in (0, 5000, 0):
        elements = [One(f"{start + number} {'x' * 200}") for number in range(1000)]
        assert list(reader.objects(written(elements))) == elements


@pytest.mark.parametrize("raw", [b"7", b"{}", b"null", b"[", b'["a"', b'[{"name":1}]', b'[{"name":"a"},]', b""])
def test_what_is_no_array_of_the_type_is_refused(raw: bytes) -> None:
    reader = ArrayReader(One)
    reader.objects(written([One("a")]))
    with pytest.raises(msgspec.MsgspecError):
        reader.objects(raw)


def test_spaces_between_elements_change_nothing() -> None:
    reader = ArrayReader(One)
    elements = [One(f"{number}") for number in range(10)]
    for raw in (written(elements), json.dumps([{"name": one.name} for one in elements], indent=1).encode(), b"[ ]"):
        assert list(reader.objects(raw)) == msgspec.json.decode(raw, type=list[One])


def test_a_part_of_an_array_is_refused() -> None:
    """Brackets are looked at, not assumed: what is cut off would read as an array of fewer elements."""
    for raw in (b"[7", b"7]", b"{}]", b"[{}"):
        with pytest.raises(msgspec.MsgspecError):
            ArrayReader(int).objects(raw)
    assert ArrayReader(int).objects(b"[7]") == (7,)
    assert ArrayReader(int).objects(b"[]") == ()


SAME = len(written([One("0000")])) - 1
"""Bytes of an element of the next tests, its comma included."""


def numbered(*numbers: int) -> bytes:
    return written([One(f"{number:04}") for number in numbers])


def test_an_array_that_did_not_change_is_not_divided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A week has thousands of arrays with thousands of pods, of which some twenty differ from the last array."""
    monkeypatch.setattr(encoding, "BLOCK_BYTES", 10 * SAME)
    reader, divided = ArrayReader(One), []
    reader.objects(numbered(*range(100)))
    monkeypatch.setattr(encoding, "_split", lambda text: divided.append(text) or msgspec.json.decode(text))
    reader.objects(numbered(*range(100)))
    assert divided == []


@pytest.mark.parametrize(("count", "blocks"), [(19, [19]), (20, [20]), (21, [10, 10, 1]), (25, [10, 10, 5])])
def test_a_long_array_is_divided_into_blocks_of_one_length(
    count: int, blocks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to twice the length stays together; a comma of each element is not counted."""
    monkeypatch.setattr(encoding, "BLOCK_BYTES", 10 * (SAME - 1))
    found = ArrayReader(One).blocks(numbered(*range(count)))
    assert [len(block.elements) for block in found] == blocks


def test_an_element_that_is_longer_than_a_block_is_alone_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "BLOCK_BYTES", SAME // 3)
    assert [len(block.elements) for block in ArrayReader(One).blocks(numbered(1, 2, 3))] == [1, 1, 1]


def test_a_small_block_takes_in_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that grows pod by pod would become blocks of one pod, each compared alone. Half a block is not small."""
    monkeypatch.setattr(encoding, "BLOCK_BYTES", 10 * SAME)
    reader = ArrayReader(One)
    for count in range(1, 24):
        found = reader.blocks(numbered(*range(count)))
    assert [len(block.elements) for block in found] == [5, 5, 5, 5, 3]


@pytest.mark.parametrize(("replaced", "kept"), [(7, 22), (8, 0)])
def test_after_several_blocks_in_a_row_that_differ_no_further_one_is_looked_for(
    replaced: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes time, and finds nothing in an array of other pods. The elements stay the same objects."""
    monkeypatch.setattr(encoding, "BLOCK_BYTES", 1)
    reader = ArrayReader(One)
    before = reader.blocks(numbered(*range(29)))
    after = reader.blocks(numbered(99, *range(replaced, 29)))
    assert len(set(map(id, before)) & set(map(id, after))) == kept
    assert all(b.objects[0] is a.objects[0] for b, a in zip(before[replaced:], after[1:], strict=True))


@pytest.mark.parametrize(("ahead", "is_found"), [(SAME, True), (SAME - 1, False)])
def test_a_block_is_looked_for_behind_as_many_new_bytes_as_were_passed_and_some_more(
    ahead: int, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice: what was passed before the first block that is found does not count for the second."""
    monkeypatch.setattr(encoding, "BLOCK_BYTES", 1)
    monkeypatch.setattr(encoding, "AHEAD", ahead)
    reader = ArrayReader(One)
    before = reader.blocks(numbered(*range(9)))
    after = reader.blocks(numbered(90, 91, 2, 3, 92, 93, *range(6, 9)))
    same = [number for number, block in enumerate(after) if any(block is other for other in before)]
    assert same == ([2, 3, 6, 7, 8] if is_found else [])


# Many snapshots are read like each alone, and what is equal in two of them is one object.


FORM_READER_TYPE = a_type("m5.large")
MINUTE = timedelta(minutes=1)
CATALOGUE = encode_catalogue(Catalogue(default=(FORM_READER_TYPE,)))


def a_world() -> Snapshot:
    claim, node = a_node_of(FORM_READER_TYPE, "n1")
    pods = (a_pod("a", node_name="n1"), a_pod("b", cpu="2"), a_pod("c"))
    return a_snapshot(pods=pods, node_pools=(a_pool(),), types=(FORM_READER_TYPE,), nodes=(node,), node_claims=(claim,))


def form(snapshot: Snapshot) -> SnapshotForm:
    return SnapshotForm(written_form(snapshot), CATALOGUE)


def test_each_snapshot_is_read_as_alone() -> None:
    """Specs have numbers in the order of their pods, so a pod that left renumbers those of others."""
    first = a_world()
    later = msgspec.structs.replace(first, now=first.now + MINUTE, pods=first.pods[1:], subnet_addresses={"s": 1})
    moved = msgspec.structs.replace(first.pods[2], node_name="n1")
    last = msgspec.structs.replace(later, now=later.now + MINUTE, pods=(moved, *first.pods[:2]), nodes=())
    reader = FormReader()
    for one in (first, later, last, first):
        assert reader.read(form(one)) == read_form(form(one).snapshot, Catalogue(default=(FORM_READER_TYPE,)))


def test_what_two_snapshots_share_is_one_object() -> None:
    """Else each of a week's snapshots would take 40 ms instead of 8, and nothing could be remembered of a pod."""
    first = a_world()
    other = msgspec.structs.replace(first.pods[0], node_name="")
    later = msgspec.structs.replace(first, now=first.now + MINUTE, pods=(other, *first.pods[1:]))
    reader = FormReader()
    one, two = reader.read(form(first)), reader.read(form(later))
    assert [a is b for a, b in zip(one.pods, two.pods, strict=True)] == [False, True, True]
    assert one.nodes is two.nodes
    assert one.node_pools is two.node_pools
    assert one.catalogue is two.catalogue
    assert one.pods[0].spec is two.pods[0].spec


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (b'"spec":1', b'"spec":7', "refers to a spec that is not there"),
        (b'"kind":"Snapshot"', b'"kind":"Plan"', "is a Plan, not a Snapshot"),
        (b'"cluster":"', b'"cluster":7,"x":"', "cannot be read: Expected `str`"),
        (b'"namespace":', b'"namespace":7,"x":', "cannot be read: Expected `str`"),
        (b'"now":', b'"then":', "cannot be read: it has no `now`"),
    ],
)
def test_a_damaged_snapshot_is_refused(before: bytes, after: bytes, problem: str) -> None:
    whole = form(msgspec.structs.replace(a_world(), cluster="prod")).snapshot
    assert before in whole
    with pytest.raises(InvalidInputError, match=problem):
        FormReader().read(SnapshotForm(whole.replace(before, after), CATALOGUE))


def test_what_did_not_change_is_the_same_pod_whatever_else_did() -> None:
    first = a_world()
    reader = FormReader()
    one = reader.read(form(first))
    two = reader.read(form(msgspec.structs.replace(first, now=first.now + MINUTE)))
    assert all(a is b for a, b in zip(one.pods, two.pods, strict=True))
    more = msgspec.structs.replace(first, pods=(*first.pods, a_pod("d", cpu="3")))
    three = reader.read(form(more))
    assert [a is b for a, b in zip(two.pods, three.pods, strict=False)] == [True, True, True]


@pytest.mark.parametrize("moves", [False, True])
def test_a_pod_with_the_same_record_and_another_spec_is_another_pod(moves: bool) -> None:
    """Its record stays the same bytes, for it names the spec by number: a resized pod would keep its old requests."""
    first = a_world()
    resized = msgspec.structs.replace(first.pods[1], spec=a_pod("b", cpu="3").spec)
    last = msgspec.structs.replace(first.pods[2], node_name="n1") if moves else first.pods[2]
    reader = FormReader()
    reader.read(form(first))
    pods = (first.pods[0], resized, last)
    assert reader.read(form(msgspec.structs.replace(first, pods=pods))).pods == pods


def test_pods_of_a_snapshot_that_lost_a_spec_are_refused() -> None:
    """Also where the pods are those of the last one, byte by byte, and where the number is the first that is missing."""
    whole = form(a_world())
    specs = msgspec.json.decode(whole.snapshot)["specs"]
    assert len(specs) == 2
    second = msgspec.json.encode(specs[1])
    cut = whole.snapshot.replace(b"," + second, b"")
    assert cut != whole.snapshot
    reader = FormReader()
    reader.read(whole)
    for one in (reader, FormReader()):
        with pytest.raises(InvalidInputError, match="refers to a spec that is not there"):
            one.read(SnapshotForm(cut, CATALOGUE))


# The form in which snapshots are stored.


TYPE = a_type()


def test_a_snapshot_is_read_as_it_was_with_its_catalogue() -> None:
    snapshot = a_snapshot(types=(TYPE,), pods=(a_pod("a"),))
    assert TYPE.name.encode() not in written_form(snapshot)
    assert read_form(written_form(snapshot), snapshot.catalogue) == snapshot


def test_of_a_nodes_annotations_only_what_decisions_read_is_kept() -> None:
    """Annotations may hold secrets, and a changed one that no decision reads would make each snapshot new."""
    claim, node = a_node_of(TYPE, "n")
    annotated = msgspec.structs.replace(
        node, annotations={labels.DO_NOT_DISRUPT: "true", "example.com/token": "secret"}
    )
    written = written_form(a_snapshot(types=(TYPE,), node_claims=(claim,), nodes=(annotated,)))
    (found,) = read_form(written, Catalogue()).nodes
    assert found.annotations == {labels.DO_NOT_DISRUPT: "true"}


def test_a_catalogue_is_a_document_of_its_own() -> None:
    catalogue = Catalogue((TYPE,), {"default": (TYPE,)})
    assert decode_catalogue(encode_catalogue(catalogue)) == catalogue
