"""Reads manifests from files, folders and standard input: YAML or JSON, with several documents per file and lists."""

from __future__ import annotations

import codecs
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from cli.errors import InputError
from cli.manifests.documents import Kustomizations, RepeatedKey, chunks, documents
from cli.manifests.foreign import (
    DIRECTIVE,
    KUSTOMIZATIONS,
    ON_MARKER,
    RENDERED,
    action_in,
    chart_of,
    claims_identity,
    is_object,
    is_patch,
    part_of,
    placeholder_in,
    program_in,
    rendering_hint,
    syntax_problem,
    template_in,
    unlisted_hint,
)
from cli.manifests.inventory import LISTS_DEEP_MAX, STANDARD_INPUT, Document, kind_read
from cli.terminal.output import counted
from cli.terminal.style import write_stderr
from core.errors import InvalidInputError

if TYPE_CHECKING:
    from cli.manifests.documents import RepeatedField

SUFFIXES: Final = (".yaml", ".yml", ".json")
BYTES_MAX: Final = 1 << 30
"""The most bytes of one file, unpacked: the objects of 5,000 nodes and 200,000 pods have less."""

_PACKED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""How gzip and Zstandard begin."""
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How UTF-16 begins, which Windows PowerShell writes for `kubectl get … > cluster.yaml`. kubectl reads it, too."""


_NAMED_MAX: Final = 5
"""Most files that a line about files left out names."""


class UnreadableDocument(NamedTuple):
    """A file, or a document of it, that cannot be read.

    Attributes:
        error: Why, with file, document and place.
        line, column: The place of the problem, from 1; None if unknown.
        is_template: Whether it would be an object once it is rendered.
        is_foreign: Whether it has neither a kind nor an apiVersion, so that it is of another tool.
        is_named: Whether the file itself was named, not a folder around it.
    """

    error: InputError
    line: int | None = None
    column: int | None = None
    is_template: bool = False
    is_foreign: bool = False
    is_named: bool = True


class Input:
    """What paths hold: the objects, and what could not be read or is of other tools.

    Attributes:
        documents: The objects, in the order of the paths.
        texts: Source → its text.
        unreadable: Each document that cannot be read.
        repeated: The keys that mappings repeat.
        named: The sources that were named themselves, not as a folder around them.
        completed: The sources whose objects a kustomization of the folder may complete.
    """

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.texts: dict[str, str] = {}
        self.unreadable: list[UnreadableDocument] = []
        self.repeated: list[RepeatedField] = []
        self.kustomizations: list[Path] = []
        self.named: set[str] = set()
        self.completed: set[str] = set()
        self._foreign: dict[str, None] = {}
        self._patches: list[str] = []

    def add(self, path: str) -> None:
        """Read a file, a folder or standard input.

        Raises:
            InputError: If there is no such path.
        """
        sources = files_in(path)
        root = Path(path)
        if path == STANDARD_INPUT or not root.is_dir():
            self._read(path, is_named=True)
            return
        self.add_folder(root, [Path(source) for source in sources])

    def add_folder(self, root: Path, files: Sequence[Path]) -> None:
        """Read these files of a folder."""
        kustomizations = Kustomizations(files, root)
        self.kustomizations += kustomizations.folders
        for file in files:
            if kustomizations.leaves_out(file):
                self._patches.append(str(file))
            elif file.name not in KUSTOMIZATIONS:
                if kustomizations.completes(file):
                    self.completed.add(str(file))
                self._read(str(file), is_named=False)

    def add_text(self, text: str, source: str) -> None:
        """Read objects that a tool rendered."""
        self._parse(text, source, is_named=True)

    def warnings(self, *, templates: bool = True) -> Iterator[str]:
        """Return a line for each kind of file of the folders that was left out."""
        if self._foreign:
            yield f"left out {_files(self._foreign)} of other tools (no kind and apiVersion): {_named(self._foreign)}"
        if self._patches or self.kustomizations:
            folder = str(self.kustomizations[0]) if self.kustomizations else "FOLDER"
            what = (
                f"left out {_files(self._patches)} of Kustomize (patches or settings): {_named(self._patches)}"
                if self._patches
                else f"read the files of {folder} without its kustomization"
            )
            build = f"kustomize build {shlex.quote(folder)} > {RENDERED}"
            yield f"{what}: run `{build}` and give -f {RENDERED}, or give --kustomize"
        left_out = {
            unreadable.error.source: None
            for unreadable in self.unreadable
            if unreadable.is_template and not unreadable.is_named
        }
        if templates and left_out:
            first = next(
                unreadable.error for unreadable in self.unreadable if unreadable.is_template and not unreadable.is_named
            )
            yield f"left out {_files(left_out)} with templates: {_named(left_out)}: {first.hint}"

    def problems(self) -> Iterator[UnreadableDocument]:
        """Yield what cannot be read; the templates of a chart, or the documents of one, are one problem: one command helps."""
        templates: dict[Path, list[UnreadableDocument]] = {}
        for problem in self.unreadable:
            if problem.is_template:
                file = Path(problem.error.source)
                templates.setdefault(chart_of(file) or file, []).append(problem)
            else:
                yield problem
        for chart, (first, *others) in templates.items():
            files = {problem.error.source for problem in others} - {first.error.source}
            if files:
                what = f"{first.error.problem}; {chart} has {counted(len(files), 'more template')}"
                error = InputError(what, source=first.error.source, index=first.error.index, hint=first.error.hint)
                yield first._replace(error=error)
            else:
                yield first

    def _read(self, source: str, *, is_named: bool) -> None:
        if program := program_in(source):
            error = InputError(program[0], source=source, hint=program[1])
            self.unreadable.append(UnreadableDocument(error, is_named=is_named))
            return
        try:
            text = read_text(source)
        except InputError as error:
            cause = error.__cause__
            raw = cause.object if isinstance(cause, UnicodeDecodeError) else b"kind:"
            if is_named or claims_identity(raw.decode("latin-1")):
                self.unreadable.append(UnreadableDocument(error, is_named=is_named))
            else:
                self._foreign[source] = None
            return
        self._parse(text, source, is_named=is_named)

    def _parse(self, text: str, source: str, *, is_named: bool) -> None:
        self.texts[source] = text
        if is_named:
            self.named.add(source)
        skips = None if is_named else self._foreign
        problems: list[UnreadableDocument] = []
        parsed = parse(text, source, self.repeated, skips=skips, problems=problems)
        if is_named and (tool := part_of(source)) and any(not _has_identity(document) for document in parsed):
            error = InputError(f"is a file of {tool[0]}, not an object", source=source, hint=tool[1])
            problems, parsed = [UnreadableDocument(error)], []
        if DIRECTIVE in text:
            objects = [document for document in parsed if not is_patch(document.object)]
            self._patches += [source] * (len(objects) < len(parsed))
            parsed = objects
        self.documents += parsed
        for problem in problems:
            if problem.is_foreign and not is_named:
                self._foreign[source] = None
            else:
                self.unreadable.append(problem._replace(is_named=is_named))


def read(
    paths: Sequence[str], *, helm: bool = False, kustomize: bool = False, left_out: list[InputError] | None = None
) -> list[Document]:
    """Read every object of these files, folders (recursively, in sorted order) or `-`.

    Templates, and the files of other tools, are left out of folders with a warning.

    `left_out` takes what is wrong with documents of folders that cannot be read; without it they are an error.

    Raises:
        InputError: If a path is missing or a document cannot be read; it names file, document and place, and further files.
    """
    return objects_of(gather(paths, helm=helm, kustomize=kustomize), left_out)


def gather(paths: Sequence[str], *, helm: bool = False, kustomize: bool = False) -> Input:
    """Read these paths; with a flag, what Helm makes of the charts or Kustomize of the kustomizations in them.

    Raises:
        InputError: If a path is missing, or a tool is missing or fails.
    """
    gathered = Input()
    for path in paths:
        root = Path(path)
        if not (helm or kustomize) or path == STANDARD_INPUT or not root.is_dir():
            gathered.add(path)
            continue
        from cli.manifests.rendering import rendered  # most input is read as it is

        texts, files = rendered(root, [*map(Path, files_in(path))], helm=helm, kustomize=kustomize)
        for source, text in texts:
            gathered.add_text(text, source)
        gathered.add_folder(root, files)
    return gathered


def objects_of(gathered: Input, left_out: list[InputError] | None = None) -> list[Document]:
    """Return the objects, with a warning about what was left out.

    `left_out` takes what is wrong with documents of folders that cannot be read; without it they are an error.

    Raises:
        InputError: If a document cannot be read that is no template in a folder, or repeats a key of a kind that we read.
    """
    errors = [unreadable for unreadable in gathered.unreadable if unreadable.is_named or not unreadable.is_template]
    if left_out is None or any(unreadable.is_named for unreadable in errors):
        if errors:
            raise together([unreadable.error for unreadable in errors])
    else:
        left_out += [unreadable.error for unreadable in errors]
    ambiguous = _ambiguous_objects(gathered.repeated, gathered.named, left_out)
    for warning in gathered.warnings():
        write_stderr(f"warning: {warning}")
    return [
        document
        for document in gathered.documents
        if ambiguous.isdisjoint((document.source, document.index, item) for item in (document.item, ""))
    ]


def together(errors: Sequence[InputError]) -> InputError:
    """Return the first error, with a line for each of the others: each file speaks for itself."""
    first, others = errors[0], errors[1:]
    if not others:
        return first
    more = ("further files cannot be read:", *(f"- {error.lines[0]}" for error in others))
    return InputError(
        first.problem, source=first.source, index=first.index, place=first.place, hint=first.hint, more=more
    )


def _ambiguous_objects(
    repeated: Sequence[RepeatedField], named: Collection[str] = (), left_out: list[InputError] | None = None
) -> set[tuple[str, int, str]]:
    """Return source, document and item of each object that repeats a key on which an answer may depend.

    Raises:
        InputError: If there is such an object, unless `left_out` takes what is wrong and its source is not `named`.
    """
    from cli.manifests.documents import repetition

    by_source: dict[str, list[RepeatedField]] = {}
    for field in repeated:
        by_source.setdefault(field.document.source, []).append(field)
    ambiguous: set[tuple[str, int, str]] = set()
    for source, fields in by_source.items():
        read_fields = [field for field in fields if field.is_read]
        if others := [field for field in fields if not field.is_read]:
            write_stderr(f"warning: {repetition(others, 'the last one counts')}")
        if not read_fields:
            continue
        error = repetition(read_fields, "readers differ in which of the two they take", hint="delete one of the two")
        if left_out is None or source in named:
            raise error
        left_out.append(error)
        ambiguous |= {(source, field.document.index, field.document.item) for field in read_fields}
    return ambiguous


def _files(names: Iterable[str]) -> str:
    count = len([*names])
    return f"{count} file{'' if count == 1 else 's'}"


def _named(names: Iterable[str]) -> str:
    listed_names = [*names]
    more = f" and {len(listed_names) - _NAMED_MAX} more" if len(listed_names) > _NAMED_MAX else ""
    return ", ".join(listed_names[:_NAMED_MAX]) + more


def read_text(path: str) -> str:
    """Return the text of one file or of standard input.

    Raises:
        InputError: If it cannot be read, or is neither UTF-8 nor UTF-16 with a byte order mark.
    """
    try:
        if path == STANDARD_INPUT:
            raw = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with Path(path).open("rb") as file:
                raw = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", source=path) from error
    if raw.startswith(_PACKED):
        raw = _decompressed(raw, path)
    if len(raw) > BYTES_MAX:
        raise InputError(f"is larger than {BYTES_MAX >> 20} MiB", source=path, hint="give it in several files")
    encoding, name = ("utf-16", "UTF-16") if raw.startswith(_UTF_16) else ("utf-8-sig", "UTF-8")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"is not {name} text (byte {error.start})", source=path) from error
    # Files that were joined have a mark before each of them: YAML allows it where a document begins.
    return text.replace("\n\ufeff", "\n") if "\ufeff" in text else text


def _decompressed(raw: bytes, source: str) -> bytes:
    from cli.manifests.decompression import decompressed  # most input is not packed

    try:
        return decompressed(raw)
    except InvalidInputError as error:
        raise InputError(error.problem, source=source) from error


def parse(
    text: str,
    source: str,
    repeated: list[RepeatedField] | None = None,
    *,
    skips: dict[str, None] | None = None,
    problems: list[UnreadableDocument] | None = None,
) -> list[Document]:
    """Return the objects in a text; errors call it `source`. The last value of a repeated key counts.

    Args:
        text: The YAML or JSON.
        source: The file's name.
        repeated: Where to add the keys that mappings repeat. Without it they are refused in objects of kinds that we read, as
            tools differ in which of the values they take; those of other kinds are a warning, one per text.
        skips: Where to note the file if a document is of another tool. Without it such a document is an error or is examined.
        problems: Where to add documents that cannot be read, so that the others are. Without it the first is raised.

    Raises:
        InputError: If a document cannot be read or is not an object, or repeats a key.
    """
    parsed: list[Document] = []
    noted: list[RepeatedField] = []
    unreadable: list[UnreadableDocument] = []
    for index, value, keys in _values(text, source, unreadable):
        if value is None:
            continue
        if skips is not None and not _has_object(value, source):
            skips[source] = None
            continue
        try:
            parsed += _objects(value, source, index, keys, noted)
        except InputError as error:
            unreadable.append(UnreadableDocument(error, is_template=isinstance(error, _TemplateError)))
    if problems is not None:
        problems += unreadable
    elif unreadable:
        raise unreadable[0].error
    if repeated is not None:
        repeated += noted
    elif noted:
        _ambiguous_objects(noted)
    return parsed


class _TemplateError(InputError):
    """A document is YAML, and is to be rendered before it is an object."""

    def __init__(self, problem: str, source: str, index: int, hint: str) -> None:
        super().__init__(problem, source=source, index=index, hint=hint)


def _has_object(value: Any, source: str) -> bool:
    """Whether a document of a folder is an object, or a list of objects, which nobody can apply and is an error."""
    values = value if isinstance(value, list) else [value]
    return any(isinstance(part, dict) and is_object(part, source) for part in values)


def _has_identity(document: Document) -> bool:
    return bool(document.object.get("kind") and document.object.get("apiVersion"))


def _template_of(documents: Iterable[Document]) -> str:
    """Return the mark of a template that is YAML by chance: it is in a name, or anywhere in a file of a Helm chart."""
    for document in documents:
        if kind_read(document) is None:
            continue
        metadata = document.object.get("metadata")
        named = [metadata.get(key) for key in ("name", "namespace")] if isinstance(metadata, dict) else []
        if mark := template_in(named):
            return mark
        path = Path(document.source)
        if "templates" in path.parts and (mark := action_in(str(document.object))) and chart_of(path) is not None:
            return mark
    return ""


def _objects(
    value: Any, source: str, index: int, keys: Sequence[RepeatedKey], repeated: list[RepeatedField]
) -> list[Document]:
    """Return the objects of a document, and add the keys that they repeat to `repeated`."""
    _refuse_plain(value, source, index)
    document = Document(source, index, value)
    objects = [*_unfolded(document, depth=0)]
    if mark := _template_of(objects):
        what = f"has the placeholder {mark}" if placeholder_in(mark) else f"is a template: it has {mark}"
        raise _TemplateError(what, source, index, rendering_hint(source, mark))
    if keys:
        from cli.manifests.documents import repeated_fields

        repeated += repeated_fields(document, objects, keys)
    return objects


def files_in(path: str) -> list[str]:
    """Return the files of a path: itself, or a folder's files at any depth, in sorted order.

    Raises:
        InputError: If there is no such file or folder.
    """
    if path == STANDARD_INPUT:
        return [path]
    root = Path(path)
    if not root.exists():
        raise InputError("there is no such file or folder", source=path, hint="- reads standard input")
    if not root.is_dir():
        return [path]
    inside = (
        file
        for file in root.rglob("*")
        if _is_manifest(file) and not _is_hidden(file.relative_to(root)) and file.is_file()
    )
    return [str(file) for file in sorted(inside)]


def _is_hidden(path: Path) -> bool:
    """Whether a path in a folder begins with a dot anywhere: `.github/` and the like hold settings of other tools."""
    return any(part.startswith(".") for part in path.parts)


def _is_manifest(file: Path) -> bool:
    """Whether a file of a folder is read: by its suffix, also below that of a packed file."""
    *_, below, last = ("", "", *(suffix.lower() for suffix in file.suffixes))
    return last in SUFFIXES or last == ".zst" or (last == ".gz" and below in SUFFIXES)


def _values(text: str, source: str, problems: list[UnreadableDocument]) -> Iterator[tuple[int, Any, list[RepeatedKey]]]:
    """Yield index, value and repeated keys of each document that can be read; add the others to `problems`."""
    if text.lstrip()[:1] in ("{", "["):
        from json import JSONDecodeError  # most manifests are YAML

        from cli.manifests.documents import json_documents

        is_json = source.lower().endswith(".json")
        try:
            yield from ((index, *entry) for index, entry in enumerate(json_documents(text)))
        except JSONDecodeError as error:
            if is_json:
                problems.append(_not_json(text, source, error.msg, error.lineno, error.colno))
                return
        except (ValueError, RecursionError) as error:
            if is_json:
                problems.append(_not_json(text, source, str(error), None, 0))
                return
        else:
            return
    yield from _yaml_values(text, source, problems)


def _not_json(text: str, source: str, problem: str, line: int | None, column: int) -> UnreadableDocument:
    place = f"line {line}, column {column}" if line is not None else ""
    here = (text.splitlines() or [""])[line - 1] if line else ""
    diagnosis, mark = syntax_problem(problem, here, text)
    problem, hint = (diagnosis, rendering_hint(source, mark)) if mark else (f"is not JSON: {problem}", "")
    if not mark and here.lstrip().startswith(("//", "/*")):
        problem = "is not JSON: it has a comment with slashes; delete it"
    error = InputError(problem.replace("YAML", "JSON"), source=source, place=place, hint=hint)
    is_foreign = not claims_identity(text)
    return UnreadableDocument(error, line, column or None, is_template=bool(mark), is_foreign=is_foreign)


def _yaml_values(
    text: str, source: str, problems: list[UnreadableDocument]
) -> Iterator[tuple[int, Any, list[RepeatedKey]]]:
    index, keys = 0, list[RepeatedKey]()
    if ON_MARKER.search(text) is None:
        try:
            for value in documents(text, keys):
                yield index, value, [*keys]
                keys.clear()
                index += 1
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            problem = _not_yaml(error, text, source, index)
        else:
            return
        problems.append(problem)
        index += 1
    for number, chunk in enumerate(chunks(text)):
        if number < index:
            continue
        if slip := ON_MARKER.search(chunk):
            problems.append(_on_marker(chunk, slip.start(), source, number))
            continue
        keys = []
        try:
            value = next(iter(documents(chunk, keys)), None)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            problems.append(_not_yaml(error, chunk, source, number))
        else:
            yield number, value, keys


def _on_marker(chunk: str, start: int, source: str, index: int) -> UnreadableDocument:
    """Return the problem of a document whose first key is on the line of `---`: the parser would take it for a text."""
    line = chunk.count("\n", 0, start) + 1
    problem = "is not YAML: an object cannot begin on the line of `---`; begin it on the next line"
    error = InputError(problem, source=source, index=index, place=f"line {line}, column 5")
    return UnreadableDocument(error, line, 5, is_foreign=not claims_identity(chunk.replace("--- ", "", 1)))


def _not_yaml(error: Exception, text: str, source: str, index: int) -> UnreadableDocument:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    line = None if mark is None else mark.line + 1
    place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
    lines = text.splitlines()
    words = str(error.problem) if isinstance(error, yaml.MarkedYAMLError) else str(error).partition("\n")[0]
    here = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    documents = chunks(text)
    document = documents[index] if index < len(documents) else text
    problem, template = syntax_problem(words, here, document)
    hint = rendering_hint(source, template) if template else ""
    input_error = InputError(problem, source=source, index=index, place=place, hint=hint)
    path = Path(source)
    is_of_chart = bool(template) and ("templates" in path.parts or chart_of(path) is not None)
    return UnreadableDocument(
        input_error,
        line,
        None if mark is None else mark.column + 1,
        is_template=bool(template),
        is_foreign=not is_of_chart and not claims_identity(document),
    )


def _unfolded(document: Document, *, depth: int) -> Iterator[Document]:
    items = document.object.get("items")
    if items is None and (document.kind == "List" or (document.kind.endswith("List") and "items" in document.object)):
        return  # Go writes a list without entries as null
    if not document.kind.endswith("List") or not isinstance(items, list) or depth > LISTS_DEEP_MAX:
        yield document
        return
    inner_kind = document.kind.removesuffix("List")
    for position, item in enumerate(items):
        path = f"{document.item}.items[{position}]".lstrip(".")
        if not isinstance(item, dict):
            problem = f"is {'null' if item is None else f'a {_name_of(item)}'}, not an object"
            raise InputError(problem, source=document.source, index=document.index, place=path)
        if inner_kind and "kind" not in item:
            item = {"apiVersion": document.object.get("apiVersion", "v1"), "kind": inner_kind, **item}  # noqa: PLW2901 - items of a typed list have no kind
        yield from _unfolded(Document(document.source, document.index, item, path), depth=depth + 1)


def _refuse_plain(value: Any, source: str, index: int) -> None:
    if hint := unlisted_hint(value, source):
        problem = f"is a {_name_of(value)} of {len(value)} objects, which no API server accepts"
        raise InputError(problem, source=source, index=index, hint=hint)
    if not isinstance(value, dict):
        raise InputError(f"is a {_name_of(value)}, not an object with a kind", source=source, index=index)
    if any(key.startswith("---") for key in value):
        raise InputError("has text right after ---: put it on the next line", source=source, index=index)


def _name_of(value: object) -> str:
    names = {list: "list", dict: "mapping", str: "text", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), type(value).__name__)
