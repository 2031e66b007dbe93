"""Encodes snapshots and plans as canonical JSON, which the ledger stores and replays decisions from.

Keys are sorted and equal values give equal bytes. Pods refer to their spec by number, since most of them share one.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from core import labels
from core.disruption.drift import DriftCheck
from core.errors import InvalidInputError
from core.labels import HASH_VERSION
from core.model.node_pool import NodeClass, NodePool
from core.model.plan import LAUNCHED, Condition, DisruptionPlan, NodeClaim, Plan
from core.model.pod import Pod, PodSpec
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.reasons.nodes import NodeReason

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
    number_of: dict[bytes, int] = {}
    for pod in snapshot.pods:
        if id(pod.spec) not in numbers:
            number = number_of.setdefault(msgspec.json.encode(pod.spec, order="sorted"), len(specs))
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


# Finds the running nodes that drift because manifests changed.


_POOL_KEYS: Final = (labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION)
_CLASS_KEYS: Final = (labels.NODECLASS_HASH, labels.NODECLASS_HASH_VERSION)


class DriftedNode(msgspec.Struct, frozen=True, order=True):
    """A node that a change makes drift: `reason` is a drift reason, or NodePoolNotFound if its pool is gone."""

    node: str
    node_pool: str
    reason: str


def newly_drifted(before: Snapshot, after: Snapshot) -> tuple[DriftedNode, ...]:
    """Return, by name, the nodes of `after` that drift under its NodePools and EC2NodeClasses but not under those of `before`.

    A claim counts as launched from the pools of `before`, whatever hash it carries: hashes of Karpenter's or of an older
    release cannot be compared with those of the files.
    """
    earlier = _Rules(before)
    later = _Rules(after)
    nodes = []
    for state in state_nodes(after):
        pool = earlier.pools.get(state.node_pool)
        if state.claim is None or pool is None:
            continue
        reason = later.reason(earlier.launched(state, state.claim, pool))
        if reason and reason != earlier.reason(earlier.launched(state, state.claim, pool)):
            nodes.append(DriftedNode(state.name, pool.name, reason))
    return tuple(sorted(nodes))


class _Rules:
    """The NodePools and EC2NodeClasses of one side."""

    def __init__(self, snapshot: Snapshot) -> None:
        classes = tuple(map(_with_class_hash, snapshot.node_classes))
        self.pools: Mapping[str, NodePool] = {pool.name: _with_pool_hash(pool) for pool in snapshot.node_pools}
        self._classes = {node_class.name: node_class for node_class in classes}
        self._check = DriftCheck(msgspec.structs.replace(snapshot, node_classes=classes))

    def launched(self, state: StateNode, claim: NodeClaim, pool: NodePool) -> NodeClaim:
        """Return the claim as if these pools and classes had just launched it."""
        carried = dict(claim.annotations) | {key: pool.own_annotations[key] for key in _POOL_KEYS}
        reference = claim.node_class or pool.node_class
        node_class = self._classes.get(reference.name)
        if node_class is not None:
            carried |= {key: node_class.own_annotations[key] for key in _CLASS_KEYS}
        conditions = dict(claim.conditions)
        if state.node is not None:
            conditions[LAUNCHED] = Condition("True")
        return msgspec.structs.replace(claim, annotations=carried, conditions=conditions)

    def reason(self, claim: NodeClaim) -> str:
        """Return why the claim has drifted under these rules, empty if it has not."""
        pool = self.pools.get(claim.node_pool)
        return NodeReason.NODE_POOL_NOT_FOUND if pool is None else self._check.reason(claim, pool)


def _with_pool_hash(pool: NodePool) -> NodePool:
    stamped = pool.own_annotations | dict(zip(_POOL_KEYS, (pool.template_hash, HASH_VERSION), strict=True))
    return msgspec.structs.replace(pool, own_annotations=stamped)


def _with_class_hash(node_class: NodeClass) -> NodeClass:
    stamped = node_class.own_annotations | dict(zip(_CLASS_KEYS, (node_class.spec_hash, HASH_VERSION), strict=True))
    return msgspec.structs.replace(node_class, own_annotations=stamped)
