"""Snapshots as stored bytes: blocks that several share are written once, and decoded once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, get_args, get_origin

import msgspec

from core import codec, labels
from core.errors import InvalidInputError
from core.interpreter import ByIdentity
from core.model.catalogue import Catalogue
from core.model.pod import Pod, PodSpec
from core.model.snapshot import Node, Snapshot

# Reads one JSON array after another; elements that the last array has too are decoded once and stay the same object.
#
# A week of a cluster has thousands of arrays with thousands of pods, of which some twenty differ from the last array. So whole
# blocks of elements are compared, and only blocks that differ are divided into elements.


BLOCK_BYTES: Final = 1 << 14
"""How long a block is; up to twice as long, and shorter where elements were removed."""

PASSED_MAX: Final = 8
"""After so many consecutive blocks that differ, the rest of the array is divided into elements, too."""

AHEAD: Final = 1 << 16
"""How many bytes of new elements may precede a block; beyond, its elements are decoded again."""

_split: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Block(msgspec.Struct, frozen=True, eq=False):
    """Consecutive elements.

    Attributes:
        elements: As written.
        text: The same, each with a comma at its end.
        objects: As decoded.
    """

    elements: tuple[bytes, ...]
    text: bytes
    objects: tuple[Any, ...]


class ArrayReader:
    """Reads arrays of one type. Only the last one is kept."""

    def __init__(self, type_: Any) -> None:
        self._decode = msgspec.json.Decoder(type_).decode
        self._blocks: Sequence[Block] = ()

    def blocks(self, array: msgspec.Raw | bytes) -> Sequence[Block]:
        """Return the array in blocks; an unchanged block is the same object. Raises msgspec.MsgspecError."""
        written = memoryview(array)
        try:
            if bytes(written[:1]) != b"[" or bytes(written[-1:]) != b"]":
                _split(array)  # raises, unless there are spaces around the array
            self._blocks = self._compared(b"".join((written[1:-1], b",")))
        except msgspec.MsgspecError:  # a block's text in the middle of an element
            self._blocks = list(self._divided([bytes(element) for element in _split(array)], {}))
        return self._blocks

    def objects(self, array: msgspec.Raw | bytes) -> tuple[Any, ...]:
        """Return the array's elements. Raises msgspec.MsgspecError."""
        return tuple(chain.from_iterable(block.objects for block in self.blocks(array)))

    def _compared(self, text: bytes) -> list[Block]:
        """Return the blocks of a text of elements, each with a comma at its end."""
        blocks: list[Block] = []
        passed: list[Block] = []
        at = skipped = 0
        for block in self._blocks:
            start = None
            if text.startswith(block.text, at):
                start = at
            elif len(passed) < PASSED_MAX:
                start = _next(block, text, at, at + skipped + AHEAD)
            if start is None:
                passed.append(block)
                skipped += len(block.text)
                continue
            self._add(text[at:start], passed, blocks)
            blocks.append(block)
            at, passed, skipped = start + len(block.text), [], 0
        self._add(text[at:], passed, blocks)
        return blocks

    def _add(self, text: bytes, passed: Sequence[Block], blocks: list[Block]) -> None:
        """Add the blocks of a text that replaces the passed blocks; a small block before it becomes part of them."""
        if text in (b"", b","):
            return
        elements = [bytes(element) for element in _split(b"[" + text[:-1] + b"]")]
        decoded: dict[bytes, Any] = {}
        if blocks and len(blocks[-1].text) < BLOCK_BYTES // 2:
            elements[:0] = blocks[-1].elements
            passed = (*passed, blocks.pop())
        for block in passed:
            decoded.update(zip(block.elements, block.objects, strict=True))
        blocks += self._divided(elements, decoded)

    def _divided(self, elements: Sequence[bytes], decoded: dict[bytes, Any]) -> Iterator[Block]:
        length = sum(map(len, elements))
        size = max(1, len(elements) if length <= 2 * BLOCK_BYTES else len(elements) * BLOCK_BYTES // length)
        for start in range(0, len(elements), size):
            part = tuple(elements[start : start + size])
            objects = tuple(decoded[element] if element in decoded else self._decode(element) for element in part)
            yield Block(part, b",".join(part) + b",", objects)


def _next(block: Block, text: bytes, at: int, end: int) -> int | None:
    """Return where the block begins in the text from `at` on, before `end`; None if its first element is not followed by it.

    What is found is an element's beginning if the text before it consists of whole elements.
    """
    start = text.find(block.elements[0] + b",", at, end)
    return None if start < 0 or not text.startswith(block.text, start) else start


# Reduces a snapshot to the form stored in the ledger: everything that decisions depend on, and nothing else.


NODE_ANNOTATIONS: Final = (labels.DO_NOT_DISRUPT,)
"""Annotations of nodes that decisions depend on. Annotations of pods are already reduced when they are read."""


def written_form(snapshot: Snapshot) -> bytes:
    """Return the snapshot without its catalogue and without annotations that no decision reads."""
    nodes = tuple(_thinned(node) for node in snapshot.nodes)
    return codec.encode_snapshot(msgspec.structs.replace(snapshot, nodes=nodes, catalogue=Catalogue()))


def read_form(raw: bytes, catalogue: Catalogue) -> Snapshot:
    """Return the snapshot that was written, with its catalogue.

    Raises:
        InvalidInputError: If it cannot be read.
    """
    return msgspec.structs.replace(codec.decode_snapshot(raw), catalogue=catalogue)


def encode_catalogue(catalogue: Catalogue) -> bytes:
    """Encode the catalogue as a separate document."""
    return msgspec.json.encode(catalogue, order="sorted")


def decode_catalogue(raw: bytes) -> Catalogue:
    """Decode a catalogue."""
    return msgspec.json.decode(raw, type=Catalogue)


def _thinned(node: Node) -> Node:
    kept = {key: node.annotations[key] for key in NODE_ANNOTATIONS if key in node.annotations}
    return node if kept == node.annotations else msgspec.structs.replace(node, annotations=kept)


CATALOGUES_KEPT: Final = 8


class SnapshotForm(msgspec.Struct, frozen=True):
    """A snapshot and its catalogue as the ledger stores them."""

    snapshot: bytes
    catalogue: bytes


class FormReader:
    """Reads forms one after another. Only parts of the last one are kept."""

    def __init__(self) -> None:
        self._catalogues: ByIdentity[bytes, Catalogue] = ByIdentity(decode_catalogue, size=CATALOGUES_KEPT)
        self._pods = _PodReader()
        fields = msgspec.structs.fields(Snapshot)
        self._fields = {field.name: _field_reader(field.type) for field in fields}
        self._required = tuple(field.name for field in fields if field.required)

    def read(self, form: SnapshotForm) -> Snapshot:
        """Return the snapshot with its catalogue.

        Raises:
            InvalidInputError: If it cannot be read.
        """
        envelope = codec.opened(form.snapshot, codec.SNAPSHOT)
        try:
            body = msgspec.json.decode(envelope.body, type=dict[str, msgspec.Raw])
            fields = {name: self._fields[name](raw) for name, raw in body.items() if name in self._fields}
            fields |= {"pods": self._pods.read(envelope), "catalogue": self._catalogues(form.catalogue)}
            missing = [name for name in self._required if name not in fields]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"cannot be read: {error}", subject="document") from error
        if missing:
            raise InvalidInputError(f"cannot be read: it has no `{missing[0]}`", subject="document")
        return Snapshot(**fields)


class _PodReader:
    """Reads the pods of forms. A pod with the record and the spec of one in the last form is the same object."""

    def __init__(self) -> None:
        self._specs = ArrayReader(PodSpec)
        self._records = ArrayReader(codec.PodRecord)
        self._last_specs: tuple[PodSpec, ...] = ()
        self._known: dict[int, tuple[Block, tuple[Pod, ...]]] = {}

    def read(self, envelope: codec.Envelope) -> tuple[Pod, ...]:
        """Return the pods of a document that is not decoded yet. Raises msgspec.MsgspecError or InvalidInputError."""
        specs, blocks = self._specs.objects(envelope.specs), self._records.blocks(envelope.pods)
        has_all = len(specs) >= len(self._last_specs) and all(map(operator.is_, specs, self._last_specs))
        # An entry keeps its block alive, so no other block has its identity.
        kept = {id(block): self._known[id(block)] for block in blocks if has_all and id(block) in self._known}
        records = {
            id(record): pod
            for identity, (block, pods) in self._known.items()
            if identity not in kept
            for record, pod in zip(block.objects, pods, strict=True)
        }
        by_block = {id(block): kept.get(id(block)) or (block, _pods_of(block, specs, records)) for block in blocks}
        self._last_specs, self._known = specs, by_block
        return tuple(chain.from_iterable(pods for _, pods in by_block.values()))


def _pods_of(block: Block, specs: Sequence[PodSpec], records: Mapping[int, Pod]) -> tuple[Pod, ...]:
    """Return the pods of a block; `records` has those of the last form, by the identity of their records."""
    pods = []
    for record in block.objects:
        if record.spec >= len(specs):
            raise InvalidInputError("a pod refers to a spec that is not there", subject="Snapshot")
        spec, pod = specs[record.spec], records.get(id(record))
        pods.append(pod if pod is not None and pod.spec is spec else codec.pod_of(record, spec))
    return tuple(pods)


class _Whole:
    """Reads a value. One with the bytes of the last is the same object."""

    def __init__(self, decode: Callable[[Any], Any]) -> None:
        self._decode = decode
        self._last: tuple[bytes, Any] | None = None

    def __call__(self, raw: msgspec.Raw) -> Any:
        written = bytes(raw)
        if self._last is None or self._last[0] != written:
            self._last = written, self._decode(written)
        return self._last[1]


def _field_reader(type_: Any) -> Callable[[msgspec.Raw], Any]:
    """Return a reader: tuples are read by element, everything else as a whole."""
    if get_origin(type_) is tuple:
        return _Whole(ArrayReader(get_args(type_)[0]).objects)
    return _Whole(msgspec.json.Decoder(type_).decode)
