"""Translates the users' objects to `core.model`. Older API versions are converted on the way.

Every function raises InvalidInputError, naming object and field, for an unusable object; the caller decides how to proceed
without it. Status fields come from controllers and are read leniently.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import lru_cache, wraps
from typing import Final, TypeVar

from core import labels
from core.api import conversion, drift_hash, status
from core.api.node_class_translation import node_class_of
from core.api.objects import JsonObject, kind_of, mapping, name_of, sequence, without_nulls
from core.api.problem import path_of
from core.api.schemas import fields, tuning
from core.api.schemas.base import ApiModel, examined
from core.api.schemas.ec2_node_class import EC2NodeClassObject
from core.api.schemas.node_claim import NodeClaimObject, NodeClassReference
from core.api.schemas.node_overlay import NodeOverlayObject
from core.api.schemas.node_pool import DisruptionPolicy, NodePoolObject
from core.api.schemas.requirement import ClaimRequirement, RequirementEntry
from core.api.schemas.taint import TaintEntry
from core.errors import InvalidInputError
from core.model.node_claim import NodeClaim, ObjectRef
from core.model.node_pool import Budget, Disruption, NodeClass, NodePool
from core.model.overlay import NodeOverlay
from core.model.values import resources
from core.model.values.duration import parse_duration
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint

M = TypeVar("M", bound=ApiModel)
T = TypeVar("T")

KEPT: Final = 256
"""How many NodePools, and how many EC2NodeClasses, are cached as read: each observation reads all of them, and they rarely
change."""

_WITHOUT_REFERENCES: Final = 2
"""The version of marshal's format in which equal content has equal bytes, regardless of sharing."""


class _Written:
    """An object as written, compared by content. Raises ValueError for values that JSON cannot represent."""

    __slots__ = ("_content", "obj")

    def __init__(self, obj: JsonObject) -> None:
        self.obj = obj
        self._content = marshal.dumps(obj, _WITHOUT_REFERENCES)

    def __hash__(self) -> int:
        return hash(self._content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Written) and self._content == other._content


def _cached(read: Callable[[JsonObject], T]) -> Callable[[JsonObject], T]:
    """Return the same function with its last `KEPT` results cached by the content of the object."""

    @lru_cache(maxsize=KEPT)
    def kept(written: _Written) -> T:
        return read(written.obj)

    @wraps(read)
    def cached(obj: JsonObject) -> T:
        try:
            written = _Written(obj)
        except ValueError:
            return read(obj)
        return kept(written)

    return cached


@_cached
def node_pool(obj: JsonObject) -> NodePool:
    """Read a NodePool. A bad budget does not invalidate the pool: it is passed on as written, and closes the pool.

    Raises:
        InvalidInputError: If anything else in it is wrong.
    """
    present = _present(obj)
    spec, budgets = _read(NodePoolObject, _without_budgets(present)).spec, _budgets(present)
    template, annotations = spec.template, status.annotations_of(present)
    return NodePool(
        labels=dict(template.metadata.labels),
        annotations=labels.without_own(template.metadata.annotations),
        taints=_taints(template.spec.taints),
        startup_taints=_taints(template.spec.startup_taints),
        requirements=_requirements(template.spec.requirements),
        node_class=_reference(template.spec.node_class_ref),
        expire_after=_duration(template.spec.expire_after),
        termination_grace_period=_duration(template.spec.termination_grace_period),
        limits=resources.parse(spec.limits),
        weight=spec.weight or 0,
        replicas=spec.replicas,
        disruption=_disruption(spec.disruption, budgets),
        is_ready=status.is_ready(present),
        own_annotations=annotations,
        price_factors=tuning.price_factors(annotations),
        expires_forcefully=tuning.expires_forcefully(annotations),
        evictions_per_hour=tuning.evictions_per_hour(annotations),
        largest_node=tuning.largest_node(annotations),
        template_hash=drift_hash.of_template(template),
        **status.identity(present),
    )


@_cached
def node_class(obj: JsonObject) -> NodeClass:
    """Read an EC2NodeClass and what its status says it resolves to.

    Raises:
        InvalidInputError: If its spec is wrong.
    """
    present = _present(obj)
    return node_class_of(_read(EC2NodeClassObject, present).spec, present)


def node_claim(obj: JsonObject) -> NodeClaim:
    """Read a NodeClaim.

    Raises:
        InvalidInputError: If its spec, or an amount in its status, is wrong.
    """
    present = _present(obj)
    spec = _read(NodeClaimObject, present).spec
    found, identity = mapping(present.get("status")), status.identity(present)
    return NodeClaim(
        labels=status.labels_of(present),
        annotations=status.annotations_of(present),
        taints=_taints(spec.taints),
        startup_taints=_taints(spec.startup_taints),
        requirements=_requirements(spec.requirements),
        resources=resources.parse(spec.resources.requests),
        node_class=_reference(spec.node_class_ref),
        expire_after=_duration(spec.expire_after),
        termination_grace_period=_duration(spec.termination_grace_period),
        provider_id=str(found.get("providerID", "")),
        node_name=str(found.get("nodeName", "")),
        image_id=str(found.get("imageID", "")),
        capacity=_amounts(found, "capacity", identity["name"]),
        allocatable=_amounts(found, "allocatable", identity["name"]),
        conditions=status.conditions(present),
        last_pod_event_at=status.moment(found.get("lastPodEventTime")),
        **identity,
    )


def node_overlay(obj: JsonObject) -> NodeOverlay:
    """Read a NodeOverlay.

    Raises:
        InvalidInputError: If anything in it is wrong.
    """
    present = _present(obj)
    spec = _read(NodeOverlayObject, present).spec
    return NodeOverlay(
        name=name_of(present),
        requirements=_requirements(spec.requirements),
        price=None if spec.price is None else nanodollars(spec.price),
        price_adjustment=spec.price_adjustment,
        capacity=resources.parse(spec.capacity),
        weight=spec.weight or 0,
    )


def _present(obj: JsonObject) -> JsonObject:
    present: JsonObject = without_nulls(conversion.as_v1(obj))
    return present


def _read(model: type[M], present: JsonObject) -> M:
    read, faults = examined(model, present)
    if read is None or faults:
        location, message = faults[0]
        subject = f"{kind_of(present)} {name_of(present)}"
        raise InvalidInputError(message, subject=subject, field=path_of(location))
    return read


def _requirements(entries: Iterable[RequirementEntry]) -> tuple[Requirement, ...]:
    return tuple(
        Requirement.of(
            entry.key,
            entry.operator,
            entry.values,
            entry.min_values if isinstance(entry, ClaimRequirement) else None,
        )
        for entry in entries
    )


def _taints(entries: Iterable[TaintEntry]) -> tuple[Taint, ...]:
    return tuple(Taint(entry.key, entry.effect, entry.value) for entry in entries)


def _reference(reference: NodeClassReference) -> ObjectRef:
    return ObjectRef(reference.group, reference.kind, reference.name)


def _without_budgets(pool: JsonObject) -> JsonObject:
    spec = mapping(pool.get("spec"))
    policy = spec.get("disruption")
    if not isinstance(policy, dict):
        return pool
    return {**pool, "spec": {**spec, "disruption": {key: policy[key] for key in policy if key != "budgets"}}}


def _disruption(policy: DisruptionPolicy, budgets: tuple[Budget, ...]) -> Disruption:
    after = _duration(policy.consolidate_after)
    return Disruption(policy=policy.consolidation_policy, consolidate_after=after, budgets=budgets)


def _budgets(pool: JsonObject) -> tuple[Budget, ...]:
    policy = mapping(mapping(pool.get("spec")).get("disruption"))
    written = (entry for entry in sequence(policy.get("budgets")) if isinstance(entry, dict))
    return tuple(map(_budget, written)) if "budgets" in policy else Disruption().budgets


def _budget(raw: JsonObject) -> Budget:
    """A budget as written. An unreadable window leaves a schedule without its duration, which closes the pool."""
    reasons, schedule, duration = raw.get("reasons"), raw.get("schedule"), raw.get("duration")
    return Budget(
        nodes=str(raw.get("nodes", "10%")),
        reasons=None if reasons is None else tuple(str(reason) for reason in sequence(reasons)),
        schedule="" if schedule is None and duration is not None else schedule and str(schedule),
        duration=None if duration is None else parse_duration(str(duration)),
    )


def _amounts(found: JsonObject, field: str, name: str) -> dict[str, int]:
    try:
        return resources.parse(mapping(found.get(field)), field=f"status.{field}")
    except InvalidInputError as error:
        raise error.within(subject=f"NodeClaim {name}") from error


def _duration(text: str | None) -> timedelta | None:
    return None if text is None or text == fields.NEVER else parse_duration(text)
