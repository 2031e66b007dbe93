"""Encodes snapshots and plans as canonical JSON, which the ledger stores and replays decisions from.

Keys are sorted and equal values give equal bytes. Pods refer to their spec by number, since most of them share one.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from core.errors import InvalidInputError
from core.model.plan import DisruptionPlan, Plan
from core.model.pod import Pod, PodSpec
from core.model.snapshot import Snapshot

SCHEMA_VERSION: Final = 1
"""Incremented whenever newer code could misread an older document."""

SNAPSHOT: Final = "Snapshot"
"""Kind of a document with a snapshot."""

T = TypeVar("T")

_POD_FIELDS: Final = tuple(field for field in msgspec.structs.fields(Pod) if field.name != "spec")
_POD_NAMES: Final = tuple(field.name for field in _POD_FIELDS)
_identity_of: Final = attrgetter(*_POD_NAMES)


def _with_default(field: Any) -> tuple[str, Any, Any]:
    if field.default_factory is not msgspec.NODEFAULT:
        return (field.name, field.type, msgspec.field(default_factory=field.default_factory))
    return (field.name, field.type, field.default)


PodRecord: Final[Any] = msgspec.defstruct(
    "PodRecord",
    [
        ("spec", int),
        *((field.name, field.type) for field in _POD_FIELDS if field.required),
        *(_with_default(field) for field in _POD_FIELDS if not field.required),
    ],
    omit_defaults=True,
)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot; the order of its objects is kept."""
    numbers: dict[int, int] = {}
    specs: list[PodSpec] = []
    known: dict[bytes, int] = {}
    for pod in snapshot.pods:
        if id(pod.spec) not in numbers:
            number = known.setdefault(msgspec.json.encode(pod.spec, order="sorted"), len(specs))
            if number == len(specs):
                specs.append(pod.spec)
            numbers[id(pod.spec)] = number
    document = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": SNAPSHOT,
        "specs": specs,
        "pods": [PodRecord(numbers[id(pod.spec)], *_identity_of(pod)) for pod in snapshot.pods],
        "body": msgspec.structs.replace(snapshot, pods=()),
    }
    return msgspec.json.encode(document, order="sorted")


def decode_snapshot(raw: bytes) -> Snapshot:
    """Read a snapshot that `encode_snapshot` wrote.

    Raises:
        InvalidInputError: If it is none, or of another schema version.
    """
    envelope = opened(raw, SNAPSHOT)
    specs = _decoded(envelope.specs, tuple[PodSpec, ...])
    records = _decoded(envelope.pods, tuple[PodRecord, ...])
    try:
        pods = tuple(pod_of(record, specs[record.spec]) for record in records)
    except IndexError as error:
        raise InvalidInputError("a pod refers to a spec that is not there", subject="Snapshot") from error
    return msgspec.structs.replace(_decoded(envelope.body, Snapshot), pods=pods)


def pod_of(record: Any, spec: PodSpec) -> Pod:
    """Return the pod of a record."""
    return Pod(spec=spec, **dict(zip(_POD_NAMES, _identity_of(record), strict=True)))


def encode_plan(plan: Plan) -> bytes:
    """Write a plan."""
    return _closed("Plan", plan)


def encode_disruption_plan(plan: DisruptionPlan) -> bytes:
    """Write a disruption plan."""
    return _closed("DisruptionPlan", plan)


def decode_disruption_plan(raw: bytes) -> DisruptionPlan:
    """Read a disruption plan that `encode_disruption_plan` wrote.

    Raises:
        InvalidInputError: If it is none, or of another schema version.
    """
    return _decoded(opened(raw, "DisruptionPlan").body, DisruptionPlan)


class Envelope(msgspec.Struct, rename="camel"):
    """A document whose parts are not decoded yet."""

    schema_version: int
    kind: str
    body: msgspec.Raw
    specs: msgspec.Raw = msgspec.Raw(b"[]")
    pods: msgspec.Raw = msgspec.Raw(b"[]")


def _closed(kind: str, body: Plan | DisruptionPlan) -> bytes:
    return msgspec.json.encode({"schemaVersion": SCHEMA_VERSION, "kind": kind, "body": body}, order="sorted")


def opened(raw: bytes, kind: str) -> Envelope:
    """Return the parts of a document of this kind and schema version. Raises InvalidInputError."""
    envelope = _decoded(raw, Envelope)
    if envelope.kind != kind:
        raise InvalidInputError(f"is a {envelope.kind}, not a {kind}", subject="document", field="kind")
    if envelope.schema_version != SCHEMA_VERSION:
        problem = f"{envelope.schema_version} cannot be read by this version, which writes {SCHEMA_VERSION}"
        raise InvalidInputError(problem, subject=kind, field="schemaVersion")
    return envelope


def _decoded(raw: bytes | msgspec.Raw, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot be read: {error}", subject="document") from error
