"""Reads YAML documents as plain data, like Kubernetes' tools; several times faster than PyYAML's own construction.

Built from libyaml's events: PyYAML spends most of its time on nodes and on resolving each scalar again, and manifests repeat
the same few scalars by the thousand. Text that looks like a date remains text, and keys are always text.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import yaml
from yaml.constructor import SafeConstructor

from cli.errors import InputError
from cli.manifests.foreign import KUSTOMIZATIONS
from cli.manifests.inventory import LISTS_DEEP_MAX, Document
from cli.terminal.output import counted
from core.api.objects import group_and_version
from core.api.status import path_of
from core.manifests.wire.resources import resource_read

# Finds the positions of fields and of repeated keys in JSON text. Only the containers on the way to a field are examined.


Position = tuple[int, int]
"""Line and column, from 1."""

_SPACE: Final = re.compile(r"\s*")
_CONTAINERS: Final = ("{", "[")


class JsonPositions:
    """Finds positions in a text of consecutive JSON values.

    Raises:
        ValueError: At construction, if the text is not JSON.
        RecursionError: At construction, if it is nested too deeply.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._decoder = json.JSONDecoder()
        self._lines = [0, *(line_end.end() for line_end in re.finditer("\n", text))]
        self._roots: list[int] = []
        self._known: dict[int, dict[str, tuple[int, int]]] = {}
        at = self._after_space(0)
        while at < len(text):
            self._roots.append(at)
            at = self._after_space(self._end_of(at))

    def of(self, index: int, path: Sequence[str]) -> Position | None:
        """Return the position of a field of a value; of the nearest enclosing container if it is missing."""
        if index >= len(self._roots):
            return None
        mark = value = self._roots[index]
        for part in path:
            if value not in self._known:
                self._known[value] = {key: (at, inner) for key, at, inner in reversed([*self._entries(value)])}
            if part not in self._known[value]:
                break
            mark, value = self._known[value][part]
        return self._position(mark)

    def repeated_keys(self, index: int) -> list[tuple[tuple[str | int, ...], Position]]:
        """Return the paths of the keys that a mapping of a value repeats, each with its position, in the order of these."""
        repeated: list[tuple[int, tuple[str | int, ...]]] = []
        waiting: list[tuple[int, tuple[str | int, ...]]] = [(self._roots[index], ())]
        while waiting:
            container, path = waiting.pop()
            is_list = self._text[container] == "["
            seen_keys: set[str] = set()
            for key, at, value in self._entries(container):
                inner = (*path, int(key) if is_list else key)
                if key in seen_keys:
                    repeated.append((at, inner))
                seen_keys.add(key)
                if self._text[value] in _CONTAINERS:
                    waiting.append((value, inner))
        return [(path, self._position(at)) for at, path in sorted(repeated)]

    def _entries(self, start: int) -> Iterator[tuple[str, int, int]]:
        """Yield the entries of a container: key (of a list: index), and where key and value begin. Other values have none."""
        text = self._text
        if text[start] not in _CONTAINERS:
            return
        at, count = self._after_space(start + 1), 0
        while text[at] not in "}]":
            key, value = str(count), at
            if text[start] == "{":
                key, end = self._decoder.raw_decode(text, at)
                value = self._after_space(self._after_space(end) + 1)
            yield key, at, value
            at = self._after_space(self._end_of(value))
            if text[at] == ",":
                at = self._after_space(at + 1)
            count += 1

    def _end_of(self, start: int) -> int:
        return self._decoder.raw_decode(self._text, start)[1]

    def _after_space(self, at: int) -> int:
        space = _SPACE.match(self._text, at)
        return space.end() if space else at

    def _position(self, offset: int) -> Position:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1


# Finds a field's position in its file: line and column of the path in the YAML or JSON text.


PART: Final = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|([^.\[\]]+)")
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Positions:
    """Finds fields in one text. The text is parsed on first use, since most files have no findings."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, index: int, path: str) -> Position | None:
        """Return line and column, from 1, of a field of the document with this index.

        A missing field has the position of the nearest enclosing object; None if the position is unknown.
        """
        return self._finder.of(index, [number or bracketed or plain for number, bracketed, plain in PART.findall(path)])

    @cached_property
    def _finder(self) -> JsonPositions | _YamlPositions:
        """Return the finder of the text's form: composing the nodes of JSON as YAML takes tens of times longer."""
        if self._text.lstrip()[:1] in ("{", "["):
            try:
                return JsonPositions(self._text)
            except (ValueError, RecursionError):
                pass
        return _YamlPositions(self._text)


class _YamlPositions:
    """Finds positions in YAML, none if the text cannot be parsed."""

    def __init__(self, text: str) -> None:
        try:
            self._roots = list(yaml.compose_all(text, Loader=_LOADER))
        except (yaml.YAMLError, RecursionError):
            self._roots = [*map(_root, chunks(text))]

    def of(self, index: int, path: Sequence[str]) -> Position | None:
        """Return the position of a field of a document."""
        node = self._roots[index] if index < len(self._roots) else None
        if node is None:
            return None
        mark = node.start_mark
        for part in path:
            entry = _entry(node, part)
            if entry is None:
                break
            mark, node = entry
        return mark.line + 1, mark.column + 1


def chunks(text: str) -> list[str]:
    """Return the documents of a YAML text one by one, each at its own line: one that is not YAML leaves the others readable."""
    texts, lines, start = list[str](), text.splitlines(keepends=True), 0
    for number, line in enumerate(lines):
        is_start = line.startswith("---") and not line[3:4].strip()
        before = lines[start:number]
        if is_start and any(part.strip() and not part.lstrip().startswith(("#", "%")) for part in before):
            texts.append("\n" * start + "".join(before))
            start = number
    texts.append("\n" * start + "".join(lines[start:]))
    return texts


def _root(chunk: str) -> Any:
    try:
        return next(iter(yaml.compose_all(chunk, Loader=_LOADER)), None)
    except yaml.YAMLError:
        return None


def _entry(node: Any, part: str) -> tuple[Any, Any] | None:
    """Return the mark and the value of a mapping's key or of a sequence's item."""
    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark, value) for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and part.isdecimal() and len(part) < 10 and int(part) < len(node.value):
        item = node.value[int(part)]
        return item.start_mark, item
    return None


_BASE: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_MERGE: Final = "<<"
_SCALARS_MAX: Final = 65536

_ALIASED_FREE: Final = 8 << 20
_ALIASED_RATIO: Final = 8
"""Aliases may expand to 8 MiB plus this many times the text itself. Without a bound, ten lines can expand to gigabytes."""

_JSON_TAGS: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null"))

Next = Callable[[], Any]


class RepeatedKey(NamedTuple):
    """A key that its mapping has already: its path in the document, and its position from 1. The last value counts."""

    path: tuple[str | int, ...]
    line: int
    column: int


def documents(text: str, repeated: list[RepeatedKey]) -> Iterator[Any]:
    """Yield the documents of a text, None for an empty one, and add the repeated keys of their mappings to `repeated`.

    Raises:
        yaml.YAMLError: If the next document is not YAML, or aliases expand to far more text than there is. Most errors have a
        mark of the position.
    """
    events = yaml.parse(text, Loader=_BASE)
    advance = events.__next__
    anchors = _Anchors(_ALIASED_FREE + _ALIASED_RATIO * len(text), repeated)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            anchors.forget()
            yield _value(advance(), advance, anchors)


class _Anchors:
    """Anchored values, and the length of the text that each expands to, including its aliases.

    Attributes:
        repeated: The repeated keys so far, with their paths from the collection that is being read.
    """

    def __init__(self, remaining: int, repeated: list[RepeatedKey]) -> None:
        self.repeated = repeated
        self._left = remaining
        self._named: dict[str, tuple[Any, int] | None] = {}
        self._aliased = 0

    def forget(self) -> None:
        """Drop the anchors at the end of their document. The bound on expansion applies to the whole text."""
        self._named.clear()

    def place(self, since: int, part: str | int) -> int:
        """Put `part` before the paths of the repeated keys from index `since` on; return their number."""
        for index in range(since, len(self.repeated)):
            key = self.repeated[index]
            self.repeated[index] = RepeatedKey((part, *key.path), key.line, key.column)
        return len(self.repeated)

    def begin(self, start: Any) -> int:
        """Record the start of a collection; return the input of `end`."""
        if start.anchor is not None:
            self._named[start.anchor] = None
        return self._aliased

    def end(self, start: Any, value: Any, end: Any, before: int) -> None:
        """Anchor a value, if it has a name."""
        if start.anchor is not None:
            length = end.end_mark.index - start.start_mark.index + self._aliased - before
            self._named[start.anchor] = value, length

    def value(self, alias: Any) -> Any:
        """Return an alias's value. Raises yaml.YAMLError."""
        if alias.anchor not in self._named:
            problem = f"found undefined alias {alias.anchor!r}"
            raise yaml.composer.ComposerError(None, None, problem, alias.start_mark)
        named = self._named[alias.anchor]
        if named is None:
            problem = f"found alias {alias.anchor!r} within the value that it stands for"
            raise yaml.composer.ComposerError(None, None, problem, alias.start_mark)
        value, length = named
        self._aliased += length
        if self._aliased > self._left:
            problem = f"found aliases that stand for more than {self._left >> 20} MiB of text: write the values out"
            raise yaml.composer.ComposerError(None, None, problem, alias.start_mark)
        return value


def _value(event: Any, advance: Next, anchors: _Anchors) -> Any:
    kind = type(event)
    if kind is yaml.ScalarEvent:
        value = _scalar(event)
        anchors.end(event, value, event, anchors.begin(event))
        return value
    if kind is yaml.MappingStartEvent:
        return _mapping(event, advance, anchors)
    if kind is yaml.SequenceStartEvent:
        return _sequence(event, advance, anchors)
    return anchors.value(event)


def _scalar(event: Any) -> Any:
    plain, _ = event.implicit
    if plain:
        try:
            return _plain(event.value)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(None, None, str(error), event.start_mark) from error
    if event.tag in (None, "!", _TIMESTAMP):
        return event.value
    if event.tag not in _JSON_TAGS:
        problem = f"found tag {event.tag!r}, for which JSON has no value"
        raise yaml.constructor.ConstructorError(None, None, problem, event.start_mark)
    try:
        return _TAGGED.construct_object(yaml.ScalarNode(event.tag, event.value, event.start_mark))
    except ValueError as error:
        raise yaml.constructor.ConstructorError(None, None, str(error), event.start_mark) from error


def _sequence(start: Any, advance: Next, anchors: _Anchors) -> list[Any]:
    values: list[Any] = []
    before, placed_count = anchors.begin(start), len(anchors.repeated)
    while type(event := advance()) is not yaml.SequenceEndEvent:
        values.append(_value(event, advance, anchors))
        if len(anchors.repeated) > placed_count:
            placed_count = anchors.place(placed_count, len(values) - 1)
    anchors.end(start, values, event, before)
    return values


def _mapping(start: Any, advance: Next, anchors: _Anchors) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    before, placed_count = anchors.begin(start), len(anchors.repeated)
    merged: list[Any] = []
    while type(event := advance()) is not yaml.MappingEndEvent:
        if type(event) is not yaml.ScalarEvent:
            raise yaml.constructor.ConstructorError(None, None, "found a key that is not text", event.start_mark)
        value = _value(advance(), advance, anchors)
        if len(anchors.repeated) > placed_count:
            placed_count = anchors.place(placed_count, event.value)
        if event.value == _MERGE and event.implicit[0]:
            merged += reversed(value) if isinstance(value, list) else [value]
        else:
            if event.value in fields:
                mark: Any = event.start_mark
                anchors.repeated.append(RepeatedKey((event.value,), mark.line + 1, mark.column + 1))
                placed_count += 1
            fields[event.value] = value
    if merged:
        _merge(merged, fields, start)
    anchors.end(start, fields, event, before)
    return fields


def _merge(merged: list[Any], into: dict[str, Any], start: Any) -> None:
    """Merge the mapping of `<<` first; the mapping's own keys override it."""
    if not all(isinstance(other, dict) for other in merged):
        problem = "expected a mapping or a list of mappings for merging"
        raise yaml.constructor.ConstructorError(None, None, problem, start.start_mark)
    before = dict(into)
    into.clear()
    for other in merged:
        into.update(other)
    into.update(before)


# Reads scalars without quotes as Kubernetes' reader does (sigs.k8s.io/yaml, of which the API server's own is a part): it has
# no base 60, but `y` and `n` as booleans, exponents without a sign, and whole floats as integers.


_TAGGED: Final = SafeConstructor()

_WORDS: Final[Mapping[str, bool | None]] = {
    **{form: True for word in ("y", "yes", "on", "true") for form in (word, word.capitalize(), word.upper())},
    **{form: False for word in ("n", "no", "off", "false") for form in (word, word.capitalize(), word.upper())},
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_NO_NUMBERS: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_NUMERIC: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]*|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_ZERO_FIRST: Final = re.compile(r"0[0-9]+")
"""Digits that are no octal number, such as an account's 012345678901, stay text, as other tools that write YAML take them.
Kubernetes reads a number, and refuses it where it wants text."""
_BASES: Final = {"x": 16, "b": 2, "o": 8}
_DIGITS_MAX: Final = 3500
"""The most characters of a number, in any base: Python reads and writes no integer of more than 4,300 decimal digits, and
Kubernetes none beyond 64 bits."""


@lru_cache(maxsize=_SCALARS_MAX)
def _plain(text: str) -> Any:
    """Return the value of a scalar without quotes.

    Raises:
        ValueError: If JSON has no such value.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC or len(text) > _DIGITS_MAX:
        return text
    if _NO_NUMBERS.fullmatch(text):
        raise ValueError(f"found {text}, for which JSON has no value")
    number = text if text[0] == "." else text.replace("_", "")
    if match := _INTEGER.fullmatch(number):
        sign, digits = match.groups()
        base = _BASES.get(digits[1:2].lower(), 8 if len(digits) > 1 and digits[0] == "0" else 10)
        if base == 10 or digits[1:2].isdigit() or len(digits) > 2:
            return -int(digits, base) if sign == "-" else int(digits, base)
    return _float(number) if _FLOAT.fullmatch(number) and not _ZERO_FIRST.fullmatch(number) else text


_WHOLE_MAX: Final = 1e21
"""Whole floats below it are written as integers in JSON."""


def _float(text: str) -> float | int | str:
    value = float(text)
    if math.isinf(value):
        return text
    return int(value) if value.is_integer() and abs(value) < _WHOLE_MAX else value


class ManifestDumper(yaml.SafeDumper):
    """Writes YAML that Kubernetes reads as it is meant: it quotes text such as `y` or `08`, which PyYAML leaves plain."""


def _quoted_where_needed(dumper: ManifestDumper, text: str) -> yaml.ScalarNode:
    try:
        stays_text = isinstance(_plain(text), str) and not _ZERO_FIRST.fullmatch(text)
    except ValueError:
        stays_text = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if stays_text else "'")


ManifestDumper.add_representer(str, _quoted_where_needed)


# Reads JSON documents as plain data; stricter than Python's reader, and with the positions of repeated keys.


_HALF_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""An escaped surrogate. Python's reader accepts a single half, which cannot be written to files or terminals."""


def json_documents(text: str) -> list[tuple[Any, list[RepeatedKey]]]:
    """Return the consecutive values of a text, each with the keys that one of its mappings repeats.

    Raises:
        ValueError: If the text is not JSON.
        RecursionError: If it is nested too deeply.
    """
    mappings = _Mappings()
    decoder = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=mappings.build)
    position, values = 0, list[Any]()
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        value, position = decoder.raw_decode(text, position)
        values.append(value)
    if _HALF_PAIR.search(text):
        json.dumps(values, ensure_ascii=False).encode()
    if not mappings.repeat_keys:
        return [(value, []) for value in values]
    return _with_repeated_keys(text, values)


def _with_repeated_keys(text: str, values: list[Any]) -> list[tuple[Any, list[RepeatedKey]]]:

    positions = JsonPositions(text)
    return [
        (value, [RepeatedKey(path, *place) for path, place in positions.repeated_keys(index)])
        for index, value in enumerate(values)
    ]


class _Mappings:
    """Builds mappings of their pairs, as Python's reader does, which gives a repeated key its last value.

    Attributes:
        repeat_keys: Whether one of them has repeated a key.
    """

    def __init__(self) -> None:
        self.repeat_keys = False

    def build(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return a mapping."""
        mapping = dict(pairs)
        self.repeat_keys |= len(mapping) < len(pairs)
        return mapping


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


# Finds the objects to which keys belong that their mappings have already. Loaded where a text repeats a key, as few do.


class RepeatedField(NamedTuple):
    """A key that a mapping of an object has already.

    Attributes:
        document: The object; the list itself for a key outside its items.
        field: The path of the key in the object.
        line, column: The position of the repetition, from 1.
        is_read: Whether answers may depend on it: it belongs to an object of a kind that we read, or names the kind.
    """

    document: Document
    field: str
    line: int
    column: int
    is_read: bool


def repeated_fields(
    file_document: Document, objects: Sequence[Document], keys: Iterable[RepeatedKey]
) -> Iterator[RepeatedField]:
    """Yield the repeated keys of a document of a file with those of its objects that have them."""
    by_item = {document.item: document for document in objects}
    for key in keys:
        depths = range(0, min(len(key.path), 2 * LISTS_DEEP_MAX + 3), 2)
        depth = next((depth for depth in depths if path_of(key.path[:depth]) in by_item), 0)
        document, field_path = by_item.get(path_of(key.path[:depth]), file_document), key.path[depth:]
        is_read = len(field_path) == 1 and field_path[0] in ("apiVersion", "kind")
        if document.item in by_item:
            group, kind = group_and_version(document.object)[0], document.kind
            is_read |= resource_read(group, kind) is not None
        else:
            is_read |= field_path[0] == "items"
        yield RepeatedField(document, path_of(field_path), key.line, key.column, is_read)


def repetition(fields: Sequence[RepeatedField], consequence: str, hint: str = "") -> InputError:
    """Return an error that names the first of these fields."""
    (document, field, line, column, _), more = fields[0], len(fields) - 1
    others = f" (and {counted(more, 'other key')})" if more else ""
    problem = f"{document.subject}: {field}: the same mapping has this key already{others}: {consequence}"
    place = ", ".join(part for part in (document.item, f"line {line}, column {column}") if part)
    return InputError(problem, source=document.source, index=document.index, place=place, hint=hint)


# Reads what the kustomizations of a folder say about the files beside them.


_PATCHES: Final = ("patches", "patchesJson6902", "replacements", "transformers", "configurations", "generators")
"""Fields of a kustomization whose files are no objects of a cluster; entries are a path or have `path`."""


_ADDING: Final = frozenset(
    {"labels", "commonLabels", "components", "patches", "patchesStrategicMerge", "patchesJson6902", "replacements"}
    | {"transformers", "images"}
)
"""Fields of a kustomization that change the objects of its resources."""


class Kustomizations:
    """What the kustomizations of the folders say about the files beside them.

    Attributes:
        folders: Folders with a kustomization that no other of the input includes.
        patches: Files that are patches or settings, not objects.
    """

    def __init__(self, files: Collection[Path], root: Path) -> None:
        folders = sorted({file.parent for file in files} | {root})
        self.patches: set[Path] = set()
        self.folders: list[Path] = []
        self._includers: dict[Path, list[Path]] = {}
        self._adding: set[Path] = set()
        for folder in folders:
            file = next((folder / name for name in KUSTOMIZATIONS if (folder / name).is_file()), None)
            if file is None:
                continue
            self.folders.append(folder)
            try:
                content = _read(file)
            except (yaml.YAMLError, OSError, ValueError):
                continue
            self.patches |= {_resolved(folder / path) for path in _patch_files(content)}
            for path in _included(content):
                self._includers.setdefault(_resolved(folder / path), []).append(_resolved(folder))
            if not content.keys().isdisjoint(_ADDING):
                self._adding.add(_resolved(folder))
        self.folders = [folder for folder in self.folders if _resolved(folder) not in self._includers]

    def leaves_out(self, file: Path) -> bool:
        """Whether a file is a patch, or in a folder of patches that a kustomization names."""
        return bool(self.patches) and _resolved(file) in self.patches

    def completes(self, file: Path) -> bool:
        """Whether a kustomization that includes the file, or the kustomization of one, adds fields to its objects."""
        if not self._adding:
            return False
        waiting, includers = [*self._includers.get(_resolved(file), ())], set[Path]()
        while waiting:
            folder = waiting.pop()
            if folder not in includers:
                includers.add(folder)
                waiting += self._includers.get(folder, ())
        return not includers.isdisjoint(self._adding)


def _resolved(path: Path) -> Path:
    return path.resolve()


def _read(file: Path) -> dict[str, Any]:
    content = next(iter(documents(file.read_text(encoding="utf-8-sig"), [])), None)
    return content if isinstance(content, dict) else {}


def _patch_files(content: Mapping[str, Any]) -> Iterator[str]:
    for entry in _entries(content, "patchesStrategicMerge"):
        if isinstance(entry, str) and "\n" not in entry:
            yield entry
    for field in _PATCHES:
        for entry in _entries(content, field):
            path = entry.get("path") if isinstance(entry, dict) else entry
            if isinstance(path, str) and "\n" not in path:
                yield path
    openapi = content.get("openapi")
    if isinstance(openapi, dict) and isinstance(openapi.get("path"), str):
        yield openapi["path"]
    for chart in _entries(content, "helmCharts"):
        if isinstance(chart, dict) and isinstance(chart.get("valuesFile"), str):
            yield chart["valuesFile"]
    for field in ("configMapGenerator", "secretGenerator"):
        for generator in _entries(content, field):
            files = generator.get("files") if isinstance(generator, dict) else None
            yield from (str(file).rpartition("=")[2] for file in files or ())


def _included(content: Mapping[str, Any]) -> Iterator[str]:
    for field in ("resources", "bases", "components"):
        yield from (entry for entry in _entries(content, field) if isinstance(entry, str))


def _entries(content: Mapping[str, Any], field: str) -> list[Any]:
    entries = content.get(field)
    return entries if isinstance(entries, list) else []
