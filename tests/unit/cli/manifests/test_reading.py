"""Reading manifests."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from cli.errors import InputError
from cli.manifests.documents import RepeatedField
from cli.manifests.inventory import LISTS_DEEP_MAX
from cli.manifests.reading import parse, read
from core.ledger.compression import compressed

TWICE = "the same mapping has this key already"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


def names(text: str) -> list[str]:
    return [document.name for document in parse(text, "x.yaml")]


def fault(text: str, source: str = "x.yaml") -> str:
    with pytest.raises(InputError) as caught:
        parse(text, source)
    return str(caught.value)


def test_a_folder_is_read_recursively_in_order(tmp_path: Path) -> None:
    """The order of files on disk differs between machines; the output must not."""
    for path in ("b.yml", "a/z.yaml", "a/b/c.json", "notes.txt", "d.yaml.bak", "e.txt.gz"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(POD % path)
    assert [document.name for document in read([str(tmp_path)])] == ["a/b/c.json", "a/z.yaml", "b.yml"]


def test_a_file_named_on_the_command_line_is_read_whatever_its_suffix(tmp_path: Path) -> None:
    """The user chose it."""
    file = tmp_path / "dump"
    file.write_text(POD % "a")
    assert [(d.source, d.index, d.name) for d in read([str(file)])] == [(str(file), 0, "a")]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """This allows piping kubectl's output."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((POD % "a").encode())))
    assert [(d.source, d.name) for d in read(["-"])] == [("-", "a")]


def test_documents_are_counted_with_the_empty_ones() -> None:
    """The index in a message must match how an editor counts documents."""
    documents = parse(f"---\n# nothing\n---\n{POD % 'a'}---\n{POD % 'b'}", "x.yaml")
    assert [(document.index, document.name) for document in documents] == [(1, "a"), (2, "b")]


def test_json_documents_may_follow_one_another() -> None:
    """For example, two outputs of kubectl in a row."""
    assert names('{"kind": "Pod", "metadata": {"name": "a"}}\n{"kind": "Pod", "metadata": {"name": "b"}}') == ["a", "b"]


def test_yaml_that_begins_with_a_brace_is_read() -> None:
    """YAML's flow style begins with a brace too, and is not JSON."""
    assert names("{kind: Pod, metadata: {name: a}}") == ["a"]


def test_lists_are_unfolded_and_their_items_keep_their_place() -> None:
    """`kubectl get` returns lists; items of a typed list have no kind of their own."""
    mixed = '{"kind": "List", "items": [{"kind": "PodList", "items": [{"metadata": {"name": "a"}}]}]}'
    (document,) = parse(mixed, "x.json")
    assert (document.kind, document.name, document.item) == ("Pod", "a", "items[0].items[0]")


@pytest.mark.parametrize(
    "written", ["kind: List", "{kind: List, items: null}", "{kind: PodList, items: null}", "{kind: PodList, items: []}"]
)
def test_a_list_without_entries_holds_no_object(written: str) -> None:
    """Go writes such a list as null; it counted as an object of an unknown kind, so an input of nothing else was accepted."""
    assert parse(written, "x.yaml") == []


def test_a_kind_that_ends_like_a_list_is_an_object_if_it_has_no_items() -> None:
    assert names("{kind: AllowList, metadata: {name: a}}") == ["a"]


def test_values_that_look_like_dates_stay_text() -> None:
    """A label of 2026-11-20 is a text for Kubernetes."""
    (document,) = parse("kind: Pod\nmetadata: {name: a, creationTimestamp: 2026-11-20T00:00:00Z}", "x.yaml")
    assert document.object["metadata"]["creationTimestamp"] == "2026-11-20T00:00:00Z"


def test_anchors_and_merge_keys_work() -> None:
    """Users write them."""
    (document,) = parse("base: &b {x: 1}\nkind: Pod\nspec: {<<: *b, y: 2}", "x.yaml")
    assert document.object["spec"] == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("text", "source", "parts"),
    [
        (POD % "a" + "---\nkind: [", "x.yaml", ("x.yaml", "document 2", "line 6", "not YAML")),
        ("kind: [", "x.yaml", ("x.yaml: document 1: line 2, column 1", "not YAML")),
        ("a: \x00", "x.yaml", ("x.yaml: document 1: is not YAML",)),
        ('{"kind": }', "x.json", ("x.json", "line 1, column 10", "not JSON")),
        ("- a\n- b\n", "x.yaml", ("document 1", "is a list")),
        ("just words", "x.yaml", ("document 1", "is a text")),
        ('{"kind": "List", "items": [3]}', "x.yaml", ("document 1", "items[0]", "is a number")),
    ],
)
def test_unreadable_input_is_reported_with_its_place(text: str, source: str, parts: tuple[str, ...]) -> None:
    """The message gives file, document and line."""
    message = fault(text, source)
    assert all(part in message for part in parts), message


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    """A typo must not look like an empty cluster."""
    with pytest.raises(InputError, match="no such file or folder"):
        read([str(tmp_path / "nothing.yaml")])


def test_bytes_that_are_not_text_are_an_error(tmp_path: Path) -> None:
    """The user named a wrong file."""
    file = tmp_path / "x.yaml"
    for content, name in ((b"\xff\x00", "UTF-8"), (b"\xff\xfe\x00", "UTF-16")):
        file.write_bytes(content)
        with pytest.raises(InputError, match=f"not {name} text"):
            read([str(file)])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_text_with_a_byte_order_mark_is_read(encoding: str, tmp_path: Path) -> None:
    """Windows PowerShell writes UTF-16 where `kubectl get` is redirected to a file; it was refused."""
    file = tmp_path / "x.yaml"
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    file.write_bytes(f"{mark}kind: Pod\r\nmetadata: {{name: é}}\r\n".encode(encoding))
    assert [document.name for document in read([str(file)])] == ["é"]


def test_files_that_were_joined_may_each_have_a_mark(tmp_path: Path) -> None:
    """`type a.yaml b.yaml` keeps the marks; the second object was refused as one without apiVersion."""
    file = tmp_path / "x.yaml"
    parts = [f"\ufeff{dashes}kind: Pod\nmetadata: {{name: {name}}}\n" for dashes, name in (("", "a"), ("---\n", "b"))]
    file.write_text("".join(parts) + "---\n\ufeffkind: Pod\nmetadata: {name: c}\n", encoding="utf-8")
    assert [document.name for document in read([str(file)])] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("9" * 5000, "4300 digits"),
        ("NaN", "NaN is not a JSON value"),
        ("[" * 90_000, "recursion"),
        ('"a\\ud800"', "surrogates"),
    ],
)
def test_what_json_cannot_hold_is_the_inputs_fault(value: str, said: str) -> None:
    """Not an internal error: the file may come from somebody else."""
    problem = fault(f'{{"kind": "Pod", "metadata": {{"name": "a"}}, "x": {value}}}', "x.json")
    assert problem.startswith("x.json: is not JSON")
    assert said in problem


def test_a_control_character_is_named_in_one_line() -> None:
    """The parser's second line names a place inside of itself."""
    assert fault("kind: Pod\0", "x.yaml").endswith("control characters are not allowed")


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert names('{"kind": "Pod", "metadata": {"name": "\\ud83d\\ude00"}}') == ["\U0001f600"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "a.yaml",
            "kind: Pod\nmetadata: {name: a, name: b}\nspec: {}\nspec: {}\n",
            f"document 1: line 2, column 21: Pod b: metadata.name: {TWICE} (and 1 other key): readers differ",
        ),
        (
            "a.json",
            '{"kind": "Pod", "metadata": {"name": "z"}}\n{"kind": "Pod",\n "metadata": {"name": "a", "name": "b"}}',
            f"document 2: line 3, column 28: Pod b: metadata.name: {TWICE}: readers differ",
        ),
        (
            "a.json",
            '{"kind": "Pod",\t"kind": "Node"}',
            f"document 1: line 1, column 17: Node without a name: kind: {TWICE}",
        ),
        (
            "-",
            '{"kind": "Pod", "kind": "Node"}',
            f"document 1: line 1, column 17: Node without a name: kind: {TWICE}",
        ),
        (
            "a.json",
            '{"kind": "\\u007f\x7f", "kind": "Node"}',
            f"document 1: line 1, column 21: Node without a name: kind: {TWICE}",
        ),
    ],
)
def test_repeated_keys_are_refused(name: str, text: str, said: str) -> None:
    """A limit or a label that stands twice is lost without a word otherwise: tools differ in which of the two they take."""
    assert fault(text, name).startswith(f"{name}: {said}")
    repeated: list[RepeatedField] = []
    assert parse(text, name, repeated)
    assert [field.is_read for field in repeated] == [True] * (1 + ("other" in said))


SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, labels: {a.b/c: x, a.b/c: y}}\n"


def test_keys_that_objects_of_other_kinds_repeat_are_one_warning_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Charts write a label twice in a ConfigMap, which kubectl takes; plan refused the whole file."""
    (tmp_path / "a.yaml").write_text("---\n".join([SETTINGS % "a", POD % "b", SETTINGS % "c"]))
    (tmp_path / "b.yaml").write_text(SETTINGS % "d")
    assert [document.name for document in read([str(tmp_path)])] == ["a", "b", "c", "d"]
    first, second = capsys.readouterr().err.splitlines()
    problem = f"metadata.labels[a.b/c]: {TWICE}"
    place = "line 3, column 40"
    assert first == (
        f"warning: {tmp_path}/a.yaml: document 1: {place}: ConfigMap a: {problem} (and 1 other key): the last one counts"
    )
    assert second == f"warning: {tmp_path}/b.yaml: document 1: {place}: ConfigMap d: {problem}: the last one counts"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            SETTINGS % "a" + "---\nkind: Pod\nmetadata: {name: b, name: c}\n",
            "document 2: line 6, column 21: Pod c: metadata.name",
        ),
        (
            '{"kind": "List", "items": [{"kind": "Job", "spec": {"a": 1}},\n{"kind": "Pod", "spec": {"a": 1, "a": 2}}]}',
            f"document 1: items[1], line 2, column 34: Pod without a name: spec.a: {TWICE}:",
        ),
        (
            '{"kind": "List", "items": [{"kind": "PodList", "items": [{}, {"metadata": {"name": "b", "name": "a"}}]}]}',
            "document 1: items[0].items[1], line 1, column 89: Pod a: metadata.name",
        ),
        ("kind: List\nitems: []\nitems: []\n", "document 1: line 3, column 1: List without a name: items"),
        ("kind: Pod\nkind: Widget\n", "document 1: line 2, column 1: Widget without a name: kind"),
        (
            "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec: {weight: 1, weight: 2}\n",
            "document 1: line 4, column 19: Provisioner a: spec.weight",
        ),
    ],
)
def test_the_object_with_a_repeated_key_is_named_with_the_path(text: str, said: str) -> None:
    """The object's kind decides, also in a list and beside objects of other kinds; neither object nor path was named."""
    assert fault(text).startswith(f"x.yaml: {said}")


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: a, name: b}\n",
        "{kind: List, metadata: {a: 1, a: 2}, items: []}",
        "{kind: ConfigMap, data: {kind: 1, kind: 2}}",
    ],
)
def test_keys_that_change_no_answer_may_be_repeated(text: str) -> None:
    repeated: list[RepeatedField] = []
    parse(text, "x.yaml", repeated)
    assert [field.is_read for field in repeated] == [False]


def test_packed_manifests_are_read_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.yaml.gz").write_bytes(gzip.compress((POD % "a").encode()))
    (tmp_path / "b.json.GZ").write_bytes(gzip.compress(b'{"kind": "Pod", "metadata": {"name": "b"}}'))
    (tmp_path / "c.zst").write_bytes(compressed((POD % "c").encode()))
    (tmp_path / "d.gz").write_bytes(b"not read")
    assert [document.name for document in read([str(tmp_path)])] == ["a", "b", "c"]


def test_a_packed_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml.gz"
    file.write_bytes(gzip.compress((POD % "a").encode())[:-4])
    with pytest.raises(InputError, match=r"a\.yaml\.gz: cannot be decompressed: its end is missing"):
        read([str(file)])


def test_only_items_of_a_typed_list_get_its_kind() -> None:
    typed = '{"kind": "PodList", "apiVersion": "v2", "items": [{"metadata": {"name": "a"}}, {"kind": "Node"}]}'
    assert [one.object for one in parse(typed, "x.json")] == [
        {"apiVersion": "v2", "kind": "Pod", "metadata": {"name": "a"}},
        {"kind": "Node"},
    ]
    assert parse('{"kind": "PodList", "items": [{}]}', "x.json")[0].object == {"apiVersion": "v1", "kind": "Pod"}
    assert parse('{"kind": "List", "items": [{"metadata": {}}]}', "x.json")[0].object == {"metadata": {}}


def test_only_lists_are_unfolded() -> None:
    for written in ("{kind: Menu, items: [{kind: Pod}]}", "{kind: Menu, items: null}", "{kind: PodList, items: {}}"):
        (document,) = parse(written, "x.yaml")
        assert (document.kind, document.item) == (written[1:-1].partition(": ")[2].partition(",")[0], "")


def test_lists_in_lists_are_unfolded_so_deep() -> None:
    def nested(levels: int) -> str:
        return '{"kind": "List", "items": [' * levels + '{"kind": "Pod"}' + "]}" * levels

    assert [one.kind for one in parse(nested(LISTS_DEEP_MAX + 1), "x.json")] == ["Pod"]
    assert [one.kind for one in parse(nested(LISTS_DEEP_MAX + 2), "x.json")] == ["List"]


@pytest.mark.parametrize(("item", "name"), [("[]", "list"), ('"a"', "text"), ("1.5", "number"), ("true", "boolean")])
def test_an_item_that_is_no_object_is_named_with_its_place(item: str, name: str) -> None:
    found = fault(f'{{"kind": "List", "items": [{{"kind": "Pod"}}, {item}]}}', "x.json")
    assert f"x.json: document 1: items[1]: is a {name}, not an object" in found
