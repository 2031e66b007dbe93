"""Translates volumes, claims and storage classes from wire to model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.manifests.wire import objects
from core.model.pod import (
    EBS_DRIVER,
    IMMEDIATE,
    LabelSelector,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumeRequest,
    default_class,
)
from core.model.values import quantity
from core.model.values.quantity import in_calendar
from core.model.values.requirements import (
    INTEGER_OPERATORS,
    Requirement,
    is_integer,
    is_label_key,
    is_label_value,
    key_fault,
    shown,
    value_fault,
)

# Translates selectors of pods and nodes from wire to model.


_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, *INTEGER_OPERATORS)


def label_selector(written: objects.WireLabelSelector | None, *, field: str) -> LabelSelector | None:
    """Translate a label selector; None, which selects nothing, stays None.

    Raises:
        InvalidInputError: If an expression has an unknown operator or lacks its values.
    """
    if written is None:
        return None
    equal = [Requirement(key, False, (value,)) for key, value in written.match_labels.items()]
    read = _requirements(written.match_expressions, _LABEL_OPERATORS, f"{field}.matchExpressions")
    listed = (
        msgspec.structs.replace(requirement, key=expression.key)
        for requirement, expression in zip(read, written.match_expressions, strict=True)
    )
    return LabelSelector(ordered((*equal, *listed)))


def equality_selector(labels: dict[str, str]) -> LabelSelector:
    """Translate a selector in the form of a plain mapping, as in a Service."""
    return LabelSelector(tuple(Requirement(key, False, (value,)) for key, value in sorted(labels.items())))


def node_terms(written: objects.NodeSelector | None, *, field: str) -> tuple[NodeSelectorTerm, ...]:
    """Return the alternatives of a node selector, in order; one that cannot be parsed is empty, as for kube-scheduler.

    Raises:
        InvalidInputError: If it has no alternative, or an expression cannot be read.
    """
    if written is None:
        return ()
    terms = written.node_selector_terms
    if not terms:
        raise InvalidInputError("needs at least one term", field=f"{field}.nodeSelectorTerms")
    return tuple(node_term(term, field=f"{field}.nodeSelectorTerms[{i}]") for i, term in enumerate(terms))


def node_term(written: objects.WireNodeSelectorTerm, *, field: str) -> NodeSelectorTerm:
    """Translate one alternative. It is empty if it cannot be parsed, which the API server allows: no node meets it.

    Raises:
        InvalidInputError: If an expression has an unknown operator or lacks its values.
    """
    expressions = written.match_expressions
    if any(e.operator in INTEGER_OPERATORS and len(e.values) == 1 and not is_integer(e.values[0]) for e in expressions):
        return NodeSelectorTerm(uses_fields=bool(written.match_fields))
    requirements = _requirements(expressions, _NODE_OPERATORS, f"{field}.matchExpressions")
    names = [_node_name(expression) for expression in written.match_fields]
    if term_fault(written, field=field) or any(_admits_no_number(requirement) for requirement in requirements):
        return NodeSelectorTerm()
    node_names = (name for name in names if name is not None)
    return NodeSelectorTerm(ordered((*requirements, *node_names)), uses_fields=None in names)


def _admits_no_number(requirement: Requirement) -> bool:
    """Return whether its bound lies beyond the last number: the API server accepts one that no label exceeds."""
    return requirement.gte is not None and requirement.lte is not None and requirement.gte > requirement.lte


def _node_name(written: objects.SelectorExpression) -> Requirement | None:
    """Return what an entry of matchFields requires of the node's name; None for any that is not one name."""
    if written.key != "metadata.name" or written.operator not in ("In", "NotIn") or len(written.values) != 1:
        return None
    return Requirement(labels.NODE_NAME, written.operator == "NotIn", written.values)


def selector_fault(selector: Mapping[str, str], *, field: str) -> str:
    """Return path and problem of the first key or value of a node selector that no label can have, empty if there is none."""
    for key in sorted(selector):
        fault = key_fault(key) or value_fault(selector[key])
        if fault:
            return f"{field}[{shown(key)}]: {fault}"
    return ""


def term_fault(term: objects.WireNodeSelectorTerm, *, field: str) -> str:
    """Return the same for one alternative of a node affinity. Bounds are numbers, which are checked elsewhere."""
    for i, expression in enumerate(term.match_expressions):
        where = f"{field}.matchExpressions[{i}]"
        if not is_label_key(expression.key):
            return f"{where}.key: {key_fault(expression.key)}"
        values = () if expression.operator in INTEGER_OPERATORS else expression.values
        for j, value in enumerate(values):
            if not is_label_value(value):
                return f"{where}.values[{j}]: {value_fault(value)}"
    return ""


def scoring_fault(term: objects.WireNodeSelectorTerm, *, field: str) -> str:
    """Return why kube-scheduler cannot parse a preferred term, empty if it can: as `term_fault`, and for bounds, too."""
    for i, expression in enumerate(term.match_expressions):
        is_bound = expression.operator in INTEGER_OPERATORS
        if is_bound and not all(map(is_integer, expression.values)):
            return f"{field}.matchExpressions[{i}].values: {expression.operator} takes one whole number"
    return term_fault(term, field=field)


def ordered(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Return the requirements in an order that is independent of the manifest's."""
    return tuple(sorted(requirements, key=lambda r: (r.key, r.complement, r.values, r.gte or -1, r.lte or -1)))


def _requirements(
    expressions: Iterable[objects.SelectorExpression], operators: tuple[str, ...], field: str
) -> list[Requirement]:
    requirements = []
    for i, expression in enumerate(expressions):
        where, operator = f"{field}[{i}]", expression.operator
        if operator not in operators:
            allowed = ", ".join(operators)
            raise InvalidInputError(f"unknown operator {operator!r}, use one of {allowed}", field=f"{where}.operator")
        if operator in ("In", "NotIn") and not expression.values:
            raise InvalidInputError(f"{operator} needs at least one value", field=f"{where}.values")
        try:
            requirements.append(Requirement.of(expression.key, operator, expression.values))
        except InvalidInputError as error:
            raise error.within(field=where) from error
    return requirements


_IN_TREE_EBS: Final = "kubernetes.io/aws-ebs"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_ZONAL_LABELS: Final = (
    labels.ZONE,
    labels.REGION,
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


def volume(written: objects.WirePersistentVolume) -> PersistentVolume:
    """Translate a volume. Zone labels, which older provisioners set instead of a node affinity, restrict it to their zones.

    Raises:
        InvalidInputError: If its node affinity cannot be understood.
    """
    spec, metadata = written.spec, written.metadata
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    terms = node_terms(required, field="spec.nodeAffinity.required")
    return PersistentVolume(
        name=metadata.name,
        node_terms=_held_to_labels(terms, metadata.labels),
        driver=_driver(spec),
        is_local=spec.local is not None or spec.host_path is not None,
        is_terminating=metadata.deletion_timestamp is not None,
        labels=metadata.labels,
        storage_class=metadata.annotations.get(_CLASS_ANNOTATION, spec.storage_class_name),
        size=_size(spec.capacity, field="spec.capacity"),
        access_modes=spec.access_modes,
        mode=spec.volume_mode,
        attributes_class=spec.volume_attributes_class_name or "",
        phase=written.status.phase,
        claim=(spec.claim_ref.namespace or "default", spec.claim_ref.name) if spec.claim_ref is not None else None,
    )


def _size(amounts: Mapping[str, object], *, field: str) -> int:
    return quantity.parse_resources(amounts, field=field).get("storage", 0)


def volume_request(written: objects.WireClaimSpec, *, field: str) -> VolumeRequest:
    """Translate what a claim asks of its volume.

    Raises:
        InvalidInputError: If its size or selector cannot be understood.
    """
    return VolumeRequest(
        size=_size(written.resources.requests, field=f"{field}.resources.requests"),
        access_modes=written.access_modes,
        mode=written.volume_mode,
        attributes_class=written.volume_attributes_class_name or "",
        selector=label_selector(written.selector, field=f"{field}.selector"),
    )


def volume_claim(written: objects.WirePersistentVolumeClaim) -> PersistentVolumeClaim:
    """Translate a claim.

    Raises:
        InvalidInputError: If its size or selector cannot be understood.
    """
    metadata, spec = written.metadata, written.spec
    return PersistentVolumeClaim(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        volume_name=spec.volume_name,
        storage_class=spec.storage_class_name
        if spec.storage_class_name is not None
        else metadata.annotations.get(_CLASS_ANNOTATION),
        phase=written.status.phase or "Pending",
        is_terminating=metadata.deletion_timestamp is not None,
        is_bind_completed=_BIND_COMPLETED in metadata.annotations,
        selected_node=metadata.annotations.get(_SELECTED_NODE, ""),
        request=volume_request(spec, field="spec"),
    )


def storage_class(written: objects.WireStorageClass) -> StorageClass:
    """Translate a class; the in-tree EBS provisioner gets the name of its CSI driver.

    Raises:
        InvalidInputError: If an allowed topology names no value.
    """
    annotations, born = written.metadata.annotations, written.metadata.creation_timestamp
    return StorageClass(
        name=written.metadata.name,
        provisioner=EBS_DRIVER if written.provisioner == _IN_TREE_EBS else written.provisioner,
        binding_mode=written.volume_binding_mode or IMMEDIATE,
        allowed_topologies=tuple(
            _allowed(topology, field=f"allowedTopologies[{i}]") for i, topology in enumerate(written.allowed_topologies)
        ),
        is_default=any(annotations.get(key) == "true" for key in _DEFAULT_ANNOTATIONS),
        created_at=None if born is None else in_calendar(born),
    )


def attachment(written: objects.WireVolumeAttachment) -> VolumeAttachment:
    """Translate an attachment."""
    return VolumeAttachment(
        name=written.metadata.name,
        node_name=written.spec.node_name,
        volume_name=written.spec.source.persistent_volume_name,
    )


def with_default_class(
    claims: Iterable[PersistentVolumeClaim], classes: Iterable[StorageClass]
) -> tuple[PersistentVolumeClaim, ...]:
    """Return the claims, with the default class for those that name none, as the API server does."""
    default = default_class(classes)
    return tuple(
        msgspec.structs.replace(claim, storage_class=default)
        if claim.storage_class is None and not claim.volume_name
        else claim
        for claim in claims
    )


def _held_to_labels(terms: tuple[NodeSelectorTerm, ...], volume_labels: dict[str, str]) -> tuple[NodeSelectorTerm, ...]:
    zonal = [Requirement.one_of(key, *volume_labels[key].split("__")) for key in _ZONAL_LABELS if key in volume_labels]
    if not zonal:
        return terms
    return tuple(
        NodeSelectorTerm(tuple(sorted({*term.requirements, *zonal})), term.uses_fields)
        for term in terms or (NodeSelectorTerm(),)
    )


def _driver(spec: objects.PersistentVolumeSpec) -> str:
    if spec.csi is not None:
        return spec.csi.driver
    return EBS_DRIVER if spec.aws_elastic_block_store is not None else ""


def _allowed(written: objects.AllowedTopology, *, field: str) -> NodeSelectorTerm:
    requirements = []
    for i, expression in enumerate(written.match_label_expressions):
        if not expression.values:
            raise InvalidInputError("needs at least one value", field=f"{field}.matchLabelExpressions[{i}].values")
        requirements.append(Requirement.one_of(expression.key, *expression.values))
    return NodeSelectorTerm(tuple(sorted(requirements)))


# Translates the CSINodes of nodes: how many volumes of each driver may be attached.


DRIVER_COMES_WITHIN: Final = timedelta(minutes=5)
"""How long a new node may lack a driver that will come: its pod is a DaemonSet's, and registers once it runs."""


class VolumeLimits:
    """How many volumes nodes may attach, by CSI driver."""

    def __init__(
        self, nodes: Iterable[objects.CsiNode], drivers: Iterable[objects.CsiDriverInstalled], now: datetime
    ) -> None:
        """Read the CSINodes and the CSIDrivers of a cluster."""
        self._drivers = {node.metadata.name: node.spec.drivers for node in nodes}
        self._required = sorted(d.metadata.name for d in drivers if d.spec.prevent_pod_scheduling_if_missing)
        self._now = now

    def of(self, node: objects.WireNode) -> dict[str, int]:
        """Return driver → how many volumes a node may attach, for drivers that state a limit.

        It is zero for a driver that the node lacks and whose pods the scheduler then refuses (`preventPodSchedulingIfMissing`).
        """
        present = self._drivers.get(node.metadata.name, ())
        counts = {driver.name: driver.allocatable.count if driver.allocatable else None for driver in present}
        missing = [name for name in self._required if name not in counts]
        if missing and not self._is_new(node):
            counts |= dict.fromkeys(missing, 0)
        return {name: count for name, count in sorted(counts.items()) if count is not None}

    def _is_new(self, node: objects.WireNode) -> bool:
        created = node.metadata.creation_timestamp
        return created is not None and self._now - in_calendar(created) < DRIVER_COMES_WITHIN
