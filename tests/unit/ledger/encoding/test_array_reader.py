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
