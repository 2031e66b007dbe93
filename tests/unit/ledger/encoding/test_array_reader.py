"""Arrays are read like each alone, and elements that the last one has too are the same objects."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from core.ledger.encoding import array_reader
from core.ledger.encoding.array_reader import ArrayReader


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
    monkeypatch.setattr(array_reader, "BLOCK_BYTES", size)
    chance, reader = random.Random(seed), ArrayReader(One)  # noqa: S311 - test data
    elements = [One(f"first {number}", ("x,]}",)) for number in range(chance.randrange(200))]
    for _ in range(20):
        assert list(reader.objects(written(elements))) == msgspec.json.decode(written(elements), type=list[One])
        elements = changed(elements, chance)


def test_unchanged_elements_are_the_same_objects_and_unchanged_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_reader, "BLOCK_BYTES", 200)
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
    monkeypatch.setattr(array_reader, "BLOCK_BYTES", 10 * SAME)
    reader, divided = ArrayReader(One), []
    reader.objects(numbered(*range(100)))
    monkeypatch.setattr(array_reader, "_split", lambda text: divided.append(text) or msgspec.json.decode(text))
    reader.objects(numbered(*range(100)))
    assert divided == []


@pytest.mark.parametrize(("count", "blocks"), [(19, [19]), (20, [20]), (21, [10, 10, 1]), (25, [10, 10, 5])])
def test_a_long_array_is_divided_into_blocks_of_one_length(
    count: int, blocks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to twice the length stays together; a comma of each element is not counted."""
    monkeypatch.setattr(array_reader, "BLOCK_BYTES", 10 * (SAME - 1))
    found = ArrayReader(One).blocks(numbered(*range(count)))
    assert [len(block.elements) for block in found] == blocks


def test_an_element_that_is_longer_than_a_block_is_alone_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_reader, "BLOCK_BYTES", SAME // 3)
    assert [len(block.elements) for block in ArrayReader(One).blocks(numbered(1, 2, 3))] == [1, 1, 1]


def test_a_small_block_takes_in_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that grows pod by pod would become blocks of one pod, each compared alone. Half a block is not small."""
    monkeypatch.setattr(array_reader, "BLOCK_BYTES", 10 * SAME)
    reader = ArrayReader(One)
    for count in range(1, 24):
        found = reader.blocks(numbered(*range(count)))
    assert [len(block.elements) for block in found] == [5, 5, 5, 5, 3]


@pytest.mark.parametrize(("replaced", "kept"), [(7, 22), (8, 0)])
def test_after_several_blocks_in_a_row_that_differ_no_further_one_is_looked_for(
    replaced: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes time, and finds nothing in an array of other pods. The elements stay the same objects."""
    monkeypatch.setattr(array_reader, "BLOCK_BYTES", 1)
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
    monkeypatch.setattr(array_reader, "BLOCK_BYTES", 1)
    monkeypatch.setattr(array_reader, "AHEAD", ahead)
    reader = ArrayReader(One)
    before = reader.blocks(numbered(*range(9)))
    after = reader.blocks(numbered(90, 91, 2, 3, 92, 93, *range(6, 9)))
    same = [number for number, block in enumerate(after) if any(block is other for other in before)]
    assert same == ([2, 3, 6, 7, 8] if is_found else [])
