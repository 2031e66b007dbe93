"""Reads many snapshots of one ledger: parts that are equal in several of them are decoded once and become the same object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, get_args, get_origin

import msgspec

from core import codec
from core.errors import InvalidInputError
from core.identity_cache import ByIdentity
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
        self._specs = _Parts(PodSpec)
        self._records = _Parts(codec.PodRecord)
        self._pods: dict[tuple[int, int], tuple[Any, Pod]] = {}
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
            given |= {"pods": self._read_pods(envelope), "catalogue": self._catalogues(form.catalogue)}
            missing = [name for name in self._required if name not in given]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"cannot be read: {error}", subject="document") from error
        if missing:
            raise InvalidInputError(f"cannot be read: it has no `{missing[0]}`", subject="document")
        return Snapshot(**given)

    def _read_pods(self, envelope: codec.Envelope) -> tuple[Pod, ...]:
        specs = self._specs(envelope.specs)
        before, self._pods = self._pods, {}
        found = []
        for record in self._records(envelope.pods):
            if record.spec >= len(specs):
                raise InvalidInputError("a pod refers to a spec that is not there", subject="Snapshot")
            spec = specs[record.spec]
            key = id(record), id(spec)
            pair = before.get(key) or (record, codec.pod_of(record, spec))
            self._pods[key] = pair
            found.append(pair[1])
        return tuple(found)


class _Parts:
    """Reads the elements of an array. An element with the bytes of one in the last array is the same object."""

    def __init__(self, type_: Any) -> None:
        self._decode = msgspec.json.Decoder(type_).decode
        self._known: dict[bytes, Any] = {}

    def __call__(self, raw: msgspec.Raw | bytes) -> tuple[Any, ...]:
        before, self._known = self._known, {}
        found = []
        for element in msgspec.json.decode(raw, type=list[msgspec.Raw]):
            written = bytes(element)
            known = self._known.get(written) or before.get(written)
            if known is None:
                known = self._decode(written)
            self._known[written] = known
            found.append(known)
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
    """Return a reader: tuples of objects are read by element, everything else as a whole."""
    if get_origin(type_) is tuple and issubclass(get_args(type_)[0], msgspec.Struct):
        return _Whole(_Parts(get_args(type_)[0]))
    return _Whole(msgspec.json.Decoder(type_).decode)
