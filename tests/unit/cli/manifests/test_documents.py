"""YAML as plain data: the same as PyYAML gives, except for dates and keys."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli.manifests import decompression, documents
from cli.manifests.decompression import decompressed
from cli.manifests.documents import ManifestDumper, Position, Positions, RepeatedKey
from cli.manifests.documents import documents as yaml_documents_documents
from core.errors import InvalidInputError
from core.ledger.compression import compressed

# Decompressing input.


TEXT = b"kind: Pod\n" * 100


@pytest.mark.parametrize(
    "packed", [gzip.compress(TEXT), compressed(TEXT), gzip.compress(TEXT[:10]) + gzip.compress(TEXT[10:])]
)
def test_the_content_is_the_same_however_it_is_packed(packed: bytes) -> None:
    assert decompressed(packed) == TEXT


def test_nothing_is_lost_to_padding() -> None:
    assert decompressed(gzip.compress(TEXT) + b"\0" * 512) == TEXT


def test_what_expands_too_far_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "DECOMPRESSED_MAX", len(TEXT))
    assert decompressed(gzip.compress(TEXT)) == TEXT
    with pytest.raises(InvalidInputError, match="when decompressed"):
        decompressed(gzip.compress(TEXT + b"x"))


# Where a field stands in its file, counted from one, in YAML and in JSON of any layout.


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
    assert len(list(documents.documents(text, found))) == 1
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
    assert [keys for _, keys in documents.json_documents(text)] == repeated


def test_every_field_of_json_is_found_in_any_layout() -> None:
    value = {"a": {"b": [{"c": i, "d e": [[], {}]} for i in range(3)]}, "f": ""}
    for indent in (None, 1):
        text = json.dumps(value, indent=indent)
        positions, lines = Positions(text), text.split("\n")
        for path, key in (("a.b[2].c", '"c"'), ("a.b[1].d e[1]", "{}"), ("f", '"f"'), ("a.b", '"b"')):
            found = positions.of(0, path)
            assert found is not None
            assert lines[found[0] - 1][found[1] - 1 :].startswith(key)


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, width=32) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_yaml_round_trips(value: Any, flow: bool) -> None:
    """A quantity, label or flag that changes when it is read changes the plan."""
    text = yaml.dump(value, Dumper=ManifestDumper, default_flow_style=flow, allow_unicode=True)
    assert list(yaml_documents_documents(text, [])) == [value]


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 0x1f, 010, 1.5, .5, 1_000, yes, No, on, ~, null, '', \"x\\n\"]",
        "a: &x {b: 1}\nc: *x\nd: [*x, *x]",
        "base: &b {x: 1, y: 2}\nover: &o {y: 3}\nown: {<<: [*b, *o], x: 9}",
        "a: !!str 5\nb: !!int '7'\nc: ! '5'\nd: |\n  two\n  lines\ne: >\n  folded\n  text\n",
        "--- 1\n--- [a]\n...\n---\n",
        "a: *nowhere",
        "a: !!int x",
        "a: !thing x",
        "? [a]\n: b",
        "a: {<<: 3}",
        "{a: b",
    ],
)
def test_it_agrees_with_pyyaml(text: str) -> None:
    """On values, and on what is not YAML."""
    try:
        expected = list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        with pytest.raises(yaml.YAMLError):
            list(yaml_documents_documents(text, []))
    except ValueError:
        with pytest.raises(yaml.YAMLError):
            list(yaml_documents_documents(text, []))
    else:
        found = list(yaml_documents_documents(text, []))
        assert found == expected
        assert list(map(json.dumps, found)) == list(map(json.dumps, expected)), "keys are in another order"


@pytest.mark.parametrize(
    ("scalars", "read"),
    [
        ("22:22 1:30:00 1:2.5 tRue = 1e400 0x 0b2 _1 e3 1e . -. + 0o 012345678901", None),
        ("017 0o17 0O17 0644 0x1F 0b101 -017 +0x1f -0b1 00 -0", [15, 15, 15, 420, 31, 5, -15, 31, -1, 0, 0]),
        ("1_000 1__0 1_ 1_000.5 +1 5. +.5 0.0 1.0", [1000, 10, 1, 1000.5, 1, 5, 0.5, 0, 1]),
        ("1e3 1E3 1.5e3 0.1e1 1e-3 1e21", [1000, 1000, 1500, 1, 0.001, 1e21]),
        ("y Y yes On TRUE", [True] * 5),
        ("n N no OFF False", [False] * 5),
        ("~ null Null NULL", [None] * 4),
    ],
)
def test_scalars_are_read_as_kubernetes_reads_them(scalars: str, read: list[Any] | None) -> None:
    """As `ToJSON` of k8s.io/apimachinery 1.37.2 does, but for an account's number; 22:22 is text, and y is none."""
    texts = scalars.split()
    values = [next(yaml_documents_documents(f"a: {text}", []))["a"] for text in texts]
    assert values == (texts if read is None else read)
    assert [type(value) for value in values] == [type(value) for value in (texts if read is None else read)]


def test_text_is_quoted_that_kubernetes_would_not_take_for_text() -> None:
    """A label `version: "08"` that `convert` leaves bare is a number to the API server, which refuses the object."""
    written = yaml.dump({"version": "08", "is": "y", "at": "22:22", "most": ".inf"}, Dumper=ManifestDumper)
    assert written == "at: '22:22'\nis: 'y'\nmost: '.inf'\nversion: '08'\n"


@pytest.mark.parametrize("text", [".inf", "-.Inf", ".nan"])
def test_numbers_that_json_lacks_are_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="JSON has no value"):
        list(yaml_documents_documents(f"a: {text}", []))


def test_dates_stay_text_and_keys_are_text() -> None:
    """Kubernetes tools read YAML as JSON, which has neither dates nor keys other than text."""
    text = "2026-11-20: 2026-11-20\n1: 2026-11-20T00:00:00Z\ntrue: x"
    assert list(yaml_documents_documents(text, [])) == [
        {"2026-11-20": "2026-11-20", "1": "2026-11-20T00:00:00Z", "true": "x"}
    ]


def of_aliases(levels: int, each: int = 10) -> str:
    """A text whose last value holds `each` to the power of `levels` words."""
    lines = ["a0: &a0 [lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * each)}]" for n in range(1, levels + 1)]
    return "\n".join(lines)


def test_aliases_do_not_stand_for_more_than_memory_holds() -> None:
    """A file of 600 bytes could otherwise keep a command busy for days (the "billion laughs")."""
    assert len(next(yaml_documents_documents(of_aliases(4), []))["a4"]) == 10
    with pytest.raises(yaml.YAMLError, match="stand for more than 8 MiB"):
        list(yaml_documents_documents(of_aliases(9), []))


def test_many_documents_have_one_bound_for_their_aliases() -> None:
    with pytest.raises(yaml.YAMLError, match="stand for more than"):
        list(yaml_documents_documents("\n---\n".join([of_aliases(5)] * 200), []))


@pytest.mark.parametrize("text", ["a: &a {b: *a}", "&a [1, *a]", "a: &x 1\nb: &x [*x]"])
def test_a_value_cannot_hold_itself(text: str) -> None:
    """JSON has no such values, and whoever walks through one never ends."""
    with pytest.raises(yaml.YAMLError, match="within the value that it stands for"):
        list(yaml_documents_documents(text, []))


def test_anchors_end_with_their_document() -> None:
    with pytest.raises(yaml.YAMLError, match="undefined alias"):
        list(yaml_documents_documents("a: &a 1\n---\nb: *a", []))


@pytest.mark.parametrize("tag", ["binary", "set", "omap"])
def test_values_that_json_lacks_are_refused(tag: str) -> None:
    with pytest.raises(yaml.YAMLError, match="JSON has no value"):
        list(yaml_documents_documents(f"a: !!{tag} aGFsbG8=", []))


def test_a_tagged_date_stays_text() -> None:
    assert list(yaml_documents_documents("a: !!timestamp 2001-12-14", [])) == [{"a": "2001-12-14"}]


def test_a_key_that_a_mapping_repeats_is_noted_and_its_last_value_counts() -> None:
    repeated: list[RepeatedKey] = []
    text = "a: {b: 1}\nc:\n- d: 1\n  d: 2\n---\na: 3\nb: 4\na: 5\n"
    assert list(yaml_documents_documents(text, repeated)) == [{"a": {"b": 1}, "c": [{"d": 2}]}, {"a": 5, "b": 4}]
    assert repeated == [RepeatedKey(("c", 0, "d"), 4, 3), RepeatedKey(("a",), 8, 1)]
    nested: list[RepeatedKey] = []
    list(yaml_documents_documents("a: 1\na: 2\nb: {c: 1, c: 2}\nd: {e: {f: 1, f: 2}}\n", nested))
    assert [key.path for key in nested] == [("a",), ("b", "c"), ("d", "e", "f")]


def test_a_quoted_merge_key_is_a_key() -> None:
    assert list(yaml_documents_documents('a: &a {b: 1}\nc: {"<<": *a}\nd: {<<: *a}\n', [])) == [
        {"a": {"b": 1}, "c": {"<<": {"b": 1}}, "d": {"b": 1}}
    ]


def test_a_key_that_overrides_a_merged_one_is_not_repeated() -> None:
    repeated: list[RepeatedKey] = []
    list(yaml_documents_documents("a: &a {b: 1}\nc: {<<: *a, b: 2}\n", repeated))
    assert repeated == []


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("- &a [1, 2, 3]\n- *a\n", 12),
        ("- before\n- &a {k: 1}\n- *a\n- *a\n", 18),
        ("- &a word\n- *a\n- *a\n- *a\n", 21),
        ("- &a [x]\n- &b [*a, *a]\n- *b\n", 35),
        ("- *missing_is_another_error", None),
    ],
    ids=["a list", "a mapping, twice", "a word, three times", "aliases in what an alias stands for", "unknown"],
)
def test_an_alias_counts_as_the_text_that_it_stands_for(
    text: str, expanded: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its anchor. Up to the bound all of them are read; one character more is refused."""
    monkeypatch.setattr(documents, "_ALIASED_RATIO", 0)
    if expanded is None:
        with pytest.raises(yaml.YAMLError, match="undefined alias"):
            list(yaml_documents_documents(text, []))
        return
    monkeypatch.setattr(documents, "_ALIASED_FREE", expanded)
    assert list(yaml_documents_documents(text, [])) == [yaml.safe_load(text)]
    monkeypatch.setattr(documents, "_ALIASED_FREE", expanded - 1)
    with pytest.raises(yaml.YAMLError, match="found aliases that stand for more than 0 MiB of text"):
        list(yaml_documents_documents(text, []))


def test_the_bound_grows_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_ALIASED_FREE", 0)
    monkeypatch.setattr(documents, "_ALIASED_RATIO", 1)
    text = "- &a word\n- *a\n- *a\n"
    assert list(yaml_documents_documents(text, [])) == [["word"] * 3]
    monkeypatch.setattr(documents, "_ALIASED_RATIO", 0)
    with pytest.raises(yaml.YAMLError):
        list(yaml_documents_documents(text, []))
