"""Where a field stands in its file, counted from one, in YAML and in JSON of any layout."""

from __future__ import annotations

import json

import pytest

from cli.manifests import json_documents, yaml_documents
from cli.manifests.json_positions import Position
from cli.manifests.positions import Positions
from cli.manifests.yaml_documents import RepeatedKey

YAML = """\
kind: A
spec:
  requirements:
  - key: a.b/c
    operator: In
  - {key: d, values: [e, f]}
  labels:
    a.b/c: d
    "0": zero
---
---
spec: {a: 1}
"""


@pytest.mark.parametrize(
    ("index", "path", "position"),
    [
        (0, "", (1, 1)),
        (0, "kind", (1, 1)),
        (0, "kind[0]", (1, 1)),
        (0, "spec.requirements[0].operator", (5, 5)),
        (0, "spec.requirements[1]", (6, 5)),
        (0, "spec.requirements[1].values[1]", (6, 26)),
        (0, "spec.requirements[1].values[7]", (6, 14)),
        (0, "spec.requirements[1].minValues", (6, 5)),
        (0, "spec.requirements.key", (3, 3)),
        (0, "spec.labels[a.b/c]", (8, 5)),
        (0, "spec.labels[0]", (9, 5)),
        (0, "spec.missing.further", (2, 1)),
        (1, "kind", (11, 1)),
        (2, "spec.a", (12, 8)),
        (3, "spec.a", None),
    ],
)
def test_a_field_of_yaml_or_the_nearest_thing_around_it_has_a_position(
    index: int, path: str, position: Position | None
) -> None:
    assert Positions(YAML).of(index, path) == position


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ('{"a": 1}{"b":\n 2}', (1, 10)),
        ('{"a": 1}\n {"b": 2}', (2, 3)),
        ('{\n\t"a": 1\n}\n{\n\t"b": 2\n}', (5, 2)),
    ],
)
def test_consecutive_json_values_have_positions_in_the_whole_text(text: str, second: Position) -> None:
    assert Positions(text).of(1, "b") == second
    assert Positions(text).of(2, "b") is None


def test_text_that_is_neither_has_none() -> None:
    assert Positions("{a: [").of(0, "a") is None
    assert Positions("").of(0, "a") is None


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        (
            "- {a: 1}\n- {a: 1}\n- b:\n  - [{c: 1, c: 2}]\n  - d: 1\n    d: 2\n",
            [((2, "b", 0, 0, "c"), 4, 13), ((2, "b", 1, "d"), 6, 5)],
        ),
        (
            "a: {b: {c: 1, c: 2}, e: 1, e: 2}\na: {f: 1}\n",
            [(("a", "b", "c"), 1, 15), (("a", "e"), 1, 28), (("a",), 2, 1)],
        ),
        ("a: 1\nb: 2\na: 3\n", [(("a",), 3, 1)]),
        ("a: {b: 1, b: 2, b: 3}\n", [(("a", "b"), 1, 11), (("a", "b"), 1, 17)]),
        ("- {a: 1}\n- {a: 1}\n", []),
        ("x: &x {a: 1}\ny: &y {a: 2}\nz: {<<: *x, <<: *y}\n", []),
        ("x: &x {a: 1, a: 2}\ny: *x\n", [(("x", "a"), 1, 14)]),
    ],
)
def test_keys_that_a_mapping_of_yaml_repeats_are_found_at_the_repetition(
    text: str, repeated: list[tuple[tuple[str | int, ...], int, int]]
) -> None:
    found: list[RepeatedKey] = []
    assert len(list(yaml_documents.documents(text, found))) == 1
    assert found == repeated


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ('[{"a": 1}, {"b": 1, "b": 1}]', [[((1, "b"), 1, 21)]]),
        ('{"a": 1}\n{"a": 1}', [[], []]),
        ('{"a": 1}\n{"a": 1, "c": {"d": 1,\n"d": 2}, "a": 3}', [[], [(("c", "d"), 3, 1), (("a",), 3, 10)]]),
        ('{"a": {"b": 1}, "b": 1}', [[]]),
    ],
)
def test_keys_that_a_mapping_of_json_repeats_are_found_at_the_repetition(
    text: str, repeated: list[list[tuple[tuple[str | int, ...], int, int]]]
) -> None:
    assert [keys for _, keys in json_documents.documents(text)] == repeated


def test_every_field_of_json_is_found_in_any_layout() -> None:
    value = {"a": {"b": [{"c": i, "d e": [[], {}]} for i in range(3)]}, "f": ""}
    for indent in (None, 1):
        text = json.dumps(value, indent=indent)
        positions, lines = Positions(text), text.split("\n")
        for path, key in (("a.b[2].c", '"c"'), ("a.b[1].d e[1]", "{}"), ("f", '"f"'), ("a.b", '"b"')):
            found = positions.of(0, path)
            assert found is not None
            assert lines[found[0] - 1][found[1] - 1 :].startswith(key)
