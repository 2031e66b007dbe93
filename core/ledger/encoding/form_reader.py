"""Reads many snapshots of one ledger: parts that are equal in several of them are decoded once and become the same object."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, get_args, get_origin

import msgspec

from core import codec
from core.errors import InvalidInputError
from core.identity_cache import ByIdentity
from core.ledger.encoding.array_reader import ArrayReader, Block
from core.ledger.written_form import decode_catalogue
from core.model.catalogue import Catalogue
from core.model.pod import Pod, PodSpec
from core.model.snapshot import Snapshot

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
            given = {name: self._fields[name](raw) for name, raw in body.items() if name in self._fields}
            given |= {"pods": self._pods.read(envelope), "catalogue": self._catalogues(form.catalogue)}
            missing = [name for name in self._required if name not in given]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"cannot be read: {error}", subject="document") from error
        if missing:
            raise InvalidInputError(f"cannot be read: it has no `{missing[0]}`", subject="document")
        return Snapshot(**given)


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
        found = {id(block): kept.get(id(block)) or (block, _pods_of(block, specs, records)) for block in blocks}
        self._last_specs, self._known = specs, found
        return tuple(chain.from_iterable(pods for _, pods in found.values()))


def _pods_of(block: Block, specs: Sequence[PodSpec], records: Mapping[int, Pod]) -> tuple[Pod, ...]:
    """Return the pods of a block; `records` has those of the last form, by the identity of their records."""
    found = []
    for record in block.objects:
        if record.spec >= len(specs):
            raise InvalidInputError("a pod refers to a spec that is not there", subject="Snapshot")
        spec, known = specs[record.spec], records.get(id(record))
        found.append(known if known is not None and known.spec is spec else codec.pod_of(record, spec))
    return tuple(found)


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
