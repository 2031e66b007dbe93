"""Collects all findings about all objects, in the order of the input."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from cli.manifests.documents import PART, Positions, RepeatedField
from cli.manifests.inventory import (
    Document,
    field_in,
    kind_read,
    refusals_of,
    refused_version_of,
    under_made_up_name,
    unmade_pods_of,
)
from cli.validation.calendars import calendar_findings
from cli.validation.formats import (
    TEMPLATES,
    Code,
    Finding,
    Severity,
    finding_in,
    mistyped_values,
    nearest,
    type_of,
    unknown_fields,
)
from cli.validation.launches import launch_findings
from cli.validation.pools import (
    ANY_TIME,
    KnownValues,
    disagreeing_limits,
    empty_pools,
    idle_limits,
    label_findings,
    nearest_label,
    provided_labels,
    short_lives,
    unmatched_values,
)
from core import labels
from core.api import older_versions
from core.api.objects import group_and_version, is_ours, kind_of, mapping, name_of, sequence
from core.api.older_versions import MODELS, problems
from core.api.schemas.fields import allowed_values
from core.api.status import Location, path_of
from core.cron import Schedule
from core.errors import InvalidInputError
from core.manifests.assemble import AUTO_MODE_GROUP, AUTO_MODE_KIND, assemble, owner_of
from core.manifests.wire.decoding import from_object
from core.manifests.wire.resources import PODS
from core.manifests.wire.versions import read_versions, removed_version
from core.manifests.workloads import expand
from core.model.catalogue import Catalogue
from core.model.snapshot import FeatureGates
from core.model.values.quantity import whole_number
from core.pods import NO_GROUP, OF_PODS_ALONE, unread_values

# Finds values of an EC2NodeClass that its schema allows but AWS refuses at the first launch.


_NO_GATES: Final = FeatureGates()
_WITH_IOPS: Final = ("gp3", "io1", "io2")
_WITH_THROUGHPUT: Final = ("gp3",)
_SELECTED: Final = {
    "subnetSelectorTerms": "subnet",
    "securityGroupSelectorTerms": "security group",
    "amiSelectorTerms": "image",
    "capacityReservationSelectorTerms": "capacity reservation",
}
"""List of terms in the spec → what one of its terms selects."""


def refused_values(document: Document) -> Iterator[Finding]:
    """Return errors for values that can never work, warnings for those that EC2 refuses today."""
    obj = document.object
    if kind_of(obj) != "EC2NodeClass" or group_and_version(obj) != (labels.AWS_GROUP, "v1"):
        return
    spec = mapping(obj.get("spec"))
    for index, device in enumerate(sequence(spec.get("blockDeviceMappings"))):
        for at, message in _of_device(mapping(device)):
            place = path_of(("spec", "blockDeviceMappings", index, *at))
            yield finding_in(document, Code.INVALID_VALUE, place, message, severity=Severity.WARNING)
    for place, message in _boundless_terms(spec):
        yield finding_in(document, Code.INVALID_VALUE, place, message)


def _boundless_terms(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the terms that only have an empty map of tags: the API server admits them, and EC2 is asked without a filter."""
    for field, selected in _SELECTED.items():
        for index, term in enumerate(sequence(spec.get(field))):
            if term == {"tags": {}}:
                place = path_of(("spec", field, index, "tags"))
                yield place, f"is empty, so the term selects every {selected} of the account; name a tag"


def _of_device(device: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    if not device.get("deviceName"):
        yield ("deviceName",), "is missing: EC2 refuses a launch with a volume that has no device name"
    ebs = mapping(device.get("ebs"))
    kind = ebs.get("volumeType")
    for field, kinds in (("iops", _WITH_IOPS), ("throughput", _WITH_THROUGHPUT)):
        if field in ebs and kind is not None and kind not in kinds:
            yield ("ebs", field), f"EC2 refuses it for volumes of type {kind}; {' and '.join(kinds)} take it"
    if kind in ("io1", "io2") and "iops" not in ebs:
        yield ("ebs", "iops"), f"is missing: EC2 refuses volumes of type {kind} without it"


# Finds values in a pod template that the API server accepts and that are hardly intended.


_FORMER_ANNOTATIONS: Final = {
    "karpenter.sh/do-not-evict": labels.DO_NOT_DISRUPT,
    "karpenter.sh/do-not-consolidate": labels.DO_NOT_DISRUPT,
}
_MILLI: Final = re.compile(r"\d+m")
_BINARY: Final = re.compile(r"\d+(\.\d+)?[KMGT]i?")
Remark = tuple[Location, str]


def template_findings(document: Document) -> Iterator[Finding]:
    """The findings in a Pod or in the template of a workload."""
    place = () if document.kind == "Pod" else TEMPLATES.get(document.kind)
    if place is None or not type_of(document.object):
        return
    template = document.object
    for part in place:
        template = mapping(template.get(str(part)))
    for location, message in (*_odd_amounts(template), *_idle_spreads(template)):
        yield finding_in(document, Code.NO_EFFECT, path_of((*place, *location)), message, severity=Severity.WARNING)
    for field, message in unmade_pods_of(document):
        yield finding_in(document, Code.INVALID_VALUE, field, message)
    yield from _annotations(document, template, place)


def refused_fields(document: Document) -> Iterator[Finding]:
    """Return an error for each field for which the API server refuses the object."""
    mistyped = set()
    for finding in mistyped_values(document):
        mistyped.add(finding.field)
        yield finding
    for field, message in refusals_of(document):
        if field not in mistyped:
            yield finding_in(document, Code.INVALID_VALUE, field, message)


def _odd_amounts(template: Mapping[str, Any]) -> Iterator[Remark]:
    spec = mapping(template.get("spec"))
    for field in ("initContainers", "containers"):
        for index, container in enumerate(sequence(spec.get(field))):
            resources = mapping(mapping(container).get("resources"))
            for kind in ("requests", "limits"):
                for name, value in mapping(resources.get(kind)).items():
                    odd = _odd(name, str(value))
                    if odd:
                        yield ("spec", field, index, "resources", kind, name), odd


def _odd(name: str, value: str) -> str:
    """Return why an amount is hardly intended; empty for plausible ones."""
    if name in ("memory", "ephemeral-storage") and _MILLI.fullmatch(value):
        return f"{value} is thousandths of a byte; {value[:-1]}Mi is mebibytes"
    if name in ("memory", "ephemeral-storage") and 0 < (whole_number(value) or 0) < 1 << 20:
        return f"{value} is bytes; {value}Mi is mebibytes"
    if name == "cpu" and _BINARY.fullmatch(value):
        return f"{value} is a number of cores, not of bytes"
    return ""


def _idle_spreads(template: Mapping[str, Any]) -> Iterator[Remark]:
    spec = mapping(template.get("spec"))
    pod_labels = mapping(mapping(template.get("metadata")).get("labels"))
    for index, spread in enumerate(sequence(spec.get("topologySpreadConstraints"))):
        selector = mapping(mapping(spread).get("labelSelector"))
        equal = mapping(selector.get("matchLabels"))
        at = ("spec", "topologySpreadConstraints", index, "labelSelector")
        if not equal and not sequence(selector.get("matchExpressions")):
            yield at, "selects no pods, so the constraint spreads nothing"
        for key, value in equal.items():
            if pod_labels.get(key) != value:
                message = (
                    f"does not select the pod itself, which has {_label(key, pod_labels)}: its own place is not counted"
                )
                yield (*at, "matchLabels", key), message


def _annotations(document: Document, template: Mapping[str, Any], place: Location) -> Iterator[Finding]:
    annotations = mapping(mapping(template.get("metadata")).get("annotations"))
    for former, present in _FORMER_ANNOTATIONS.items():
        if former in annotations:
            field = path_of((*place, "metadata", "annotations", former))
            message = "is of an older version, and is ignored"
            yield finding_in(document, Code.OLD_VERSION, field, message, severity=Severity.WARNING, suggestion=present)
    for key, problem in unread_values({key: str(value) for key, value in annotations.items()}):
        field = path_of((*place, "metadata", "annotations", key))
        yield finding_in(document, Code.INVALID_VALUE, field, problem)
    yield from _sizeless_group(document, template, place)
    yield from idle_annotations(document)


def idle_annotations(document: Document) -> Iterator[Finding]:
    """Return a finding for each annotation of pods that a workload has itself, and its template lacks."""
    place = TEMPLATES.get(document.kind, ())
    template = document.object
    for part in place:
        template = mapping(template.get(str(part)))
    annotations = mapping(mapping(template.get("metadata")).get("annotations"))
    above = mapping(mapping(document.object.get("metadata")).get("annotations"))
    for key in OF_PODS_ALONE if place else ():
        if key in above and key not in annotations:
            field = path_of(("metadata", "annotations", key))
            meant = path_of((*place, "metadata", "annotations"))
            effect = "protects no pod here" if key == labels.DO_NOT_DISRUPT else "has no effect here"
            message = f"{effect}: pods take their annotations from {meant}"
            yield finding_in(document, Code.NO_EFFECT, field, message, severity=Severity.WARNING)


def _sizeless_group(document: Document, template: Mapping[str, Any], place: Location) -> Iterator[Finding]:
    """Return a finding about a group of our annotation alone that does not say how many start together."""
    metadata, spec = mapping(template.get("metadata")), mapping(template.get("spec"))
    notes = mapping(metadata.get("annotations"))
    marks = {*mapping(metadata.get("labels")), *notes, *spec}
    says_size = (labels.GROUP_MINIMUM, labels.VOLCANO_GROUP, *labels.GROUP_LABELS, "schedulingGroup", "workloadRef")
    if notes.get(labels.GROUP) not in (None, "", NO_GROUP) and marks.isdisjoint(says_size):
        field = path_of((*place, "metadata", "annotations", labels.GROUP))
        message = f"has no {labels.GROUP_MINIMUM} beside it: nothing is bought for the group"
        yield finding_in(document, Code.INVALID_VALUE, field, message)


_NODE_PLACES: Final[Mapping[str, Location]] = {
    "Node": (),
    "NodeClaim": (),
    "NodePool": ("spec", "template"),
}
"""Kind → where it has the metadata of nodes."""


def node_findings(document: Document) -> Iterator[Finding]:
    """Return a finding for each annotation of nodes, or of a NodePool's template, that protects them from nothing."""
    place = _NODE_PLACES.get(document.kind)
    if place is None:
        return
    holder = document.object
    for part in place:
        holder = mapping(holder.get(str(part)))
    notes = mapping(mapping(holder.get("metadata")).get("annotations"))
    for key, problem in unread_values({key: str(notes[key]) for key in (labels.DO_NOT_DISRUPT,) if key in notes}):
        yield finding_in(document, Code.INVALID_VALUE, path_of((*place, "metadata", "annotations", key)), problem)
    if str(notes.get(labels.DO_NOT_REPAIR, "true")) not in ("true", "false"):
        field = path_of((*place, "metadata", "annotations", labels.DO_NOT_REPAIR))
        yield finding_in(document, Code.INVALID_VALUE, field, 'is not "true": the node is repaired')


def _label(key: str, own_labels: Mapping[str, Any]) -> str:
    return f"{key}={own_labels[key]}" if key in own_labels else f"no {key}"


# Finds dangling references: a NodePool whose EC2NodeClass is not in the input.


_REFERENCE: Final = "spec.template.spec.nodeClassRef"
_FIELD: Final = f"{_REFERENCE}.name"


def dangling_references(documents: Sequence[Document]) -> Iterator[Finding]:
    """Return an error if the input has other EC2NodeClasses; otherwise a warning, since they may be elsewhere."""
    present = {name_of(doc.object) for doc in documents if doc.kind in ("EC2NodeClass", "AWSNodeTemplate")}
    for document in documents:
        if (misspelt := _misspelt_reference(document)) is not None:
            yield misspelt
            continue
        wanted = _class_of(document)
        if wanted and wanted not in present:
            yield finding_in(
                document,
                Code.NOT_FOUND,
                _FIELD,
                f"there is no EC2NodeClass {wanted!r} in the input; without it the NodePool launches nothing",
                severity=Severity.ERROR if present else Severity.WARNING,
                suggestion=nearest(wanted, present),
            )


def repeated_objects(documents: Sequence[Document]) -> Iterator[Finding]:
    """Return a warning for each repetition of kind, namespace and name in a file; variants belong in separate files."""
    first: dict[tuple[str, ...], Document] = {}
    for document in documents:
        if not document.name:
            continue
        group = group_and_version(document.object)[0]
        first_document = first.setdefault(
            (document.source, group, document.kind, document.namespace, document.name), document
        )
        if first_document is not document:
            message = f"is given in document {first_document.index + 1} already; the last one counts"
            yield finding_in(document, Code.DUPLICATE, "metadata.name", message, severity=Severity.WARNING)


def other_provider(document: Document) -> Finding | None:
    """Return a warning about a NodePool of another provider, or of EKS Auto Mode: it is not examined with EC2's types."""
    reference = _reference_of(document)
    owner = owner_of(str(reference.get("group") or ""), str(reference.get("kind") or ""))
    if not owner:
        return None
    message = f"the NodePool belongs to {owner}: it is left out of plans, and its requirements are not checked"
    return finding_in(document, Code.NO_EFFECT, _REFERENCE, message, severity=Severity.WARNING)


def _misspelt_reference(document: Document) -> Finding | None:
    """Return an error about a reference that is nearly one to an EC2NodeClass: Karpenter never finds the class."""
    reference = _reference_of(document)
    for field, right in (("group", labels.AWS_GROUP), ("kind", "EC2NodeClass")):
        written = str(reference.get(field) or right)
        if written != right and not owner_of(str(reference.get("group") or ""), str(reference.get("kind") or "")):
            message = f"there is no {field} {written!r} of Karpenter's: the NodePool never becomes ready"
            if written == AUTO_MODE_KIND:
                message = f"is EKS Auto Mode's kind, of group {AUTO_MODE_GROUP}; Karpenter's is {right}"
                return finding_in(document, Code.INVALID_VALUE, f"{_REFERENCE}.{field}", message)
            return finding_in(document, Code.INVALID_VALUE, f"{_REFERENCE}.{field}", message, suggestion=right)
    return None


def _class_of(document: Document) -> str:
    """Return the EC2NodeClass that a NodePool names, empty for other objects."""
    reference = _reference_of(document)
    is_foreign = owner_of(str(reference.get("group") or ""), str(reference.get("kind") or ""))
    return "" if is_foreign else str(reference.get("name") or "")


def _reference_of(document: Document) -> Mapping[str, Any]:
    """Return the nodeClassRef of a NodePool, empty for other objects."""
    if group_and_version(document.object)[0] != labels.CORE_GROUP or kind_of(document.object) != "NodePool":
        return {}
    try:
        pool = older_versions.as_v1(document.object)
    except InvalidInputError:
        return {}
    spec = mapping(mapping(mapping(pool.get("spec")).get("template")).get("spec"))
    return mapping(spec.get("nodeClassRef"))


# Suggests the probably intended value or key for a refused one.


def probably_meant(document: Document, field: str) -> str:
    """Return the allowed value with the spelling most similar to the field's; empty if the field has no closed list.

    For a requirement's key it is a node label, for an unknown kind or version the known one.
    """
    obj = document.object
    if older_versions.is_old(obj):
        return ""
    if field == "apiVersion":
        return _known_kind(obj)
    location = _location(field)
    value = _value(obj, location)
    model = MODELS.get((*group_and_version(obj), kind_of(obj)))
    if not isinstance(value, str) or model is None:
        return ""
    if location[-1:] == ("key",) and "requirements" in location:
        return nearest_label(value)
    return nearest(value, allowed_values(model, location))


def _known_kind(obj: dict[str, Any]) -> str:
    """Return the version of a known kind, or the kind with a similar spelling."""
    kind = kind_of(obj)
    versions = [f"{group}/{version}" for group, version, known_kind in MODELS if known_kind == kind]
    return versions[0] if versions else nearest(kind, (known_kind for _, _, known_kind in MODELS))


def _location(field: str) -> Location:
    return tuple(
        bracketed or plain or number if (index := whole_number(number)) is None else index
        for number, bracketed, plain in PART.findall(field)
    )


def _value(obj: Any, location: Location) -> object:
    for part in location:
        if isinstance(part, int):
            obj = obj[part] if isinstance(obj, list) and part < len(obj) else None
        else:
            obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def examine(
    documents: Sequence[Document],
    texts: Mapping[str, str],
    repeated: Iterable[RepeatedField],
    catalogue: Catalogue,
    *,
    is_lenient: bool,
    gates: FeatureGates = _NO_GATES,
    builtin_region: str = "",
    now: datetime = ANY_TIME,
) -> list[Finding]:
    """Return all findings, those of a file in the order of its lines.

    Args:
        documents: The objects.
        texts: Source → its text, for lines and columns.
        repeated: The keys that mappings repeat.
        catalogue: The catalogue against which requirements are checked.
        is_lenient: Whether unknown fields are warnings.
        gates: The feature gates that are on.
        builtin_region: Of which region the catalogue is, if it is a built-in one, which may be older than AWS's offers.
        now: The present time, from which calendars are followed.
    """
    of_all = _of_all(documents, catalogue, gates, now)
    positions = {source: Positions(text) for source, text in texts.items()}
    examined = _Examination(KnownValues(catalogue, builtin_region), catalogue, provided_labels(documents), is_lenient)
    findings = [*map(_repeated_key, repeated)]
    for document in documents:
        own_findings = [*examined.of_one(document)]
        own_fields = {finding.field for finding in own_findings}
        own_findings += [finding for finding in of_all.get(id(document), ()) if finding.field not in own_fields]
        findings += [_placed(finding, positions) for finding in own_findings]
    order = {source: position for position, source in enumerate(texts)}
    return sorted(findings, key=lambda finding: _place(finding, order))


def _place(finding: Finding, order: Mapping[str, int]) -> tuple[int, int, int, int]:
    source, index = finding.document.source, finding.document.index
    return order.get(source, len(order)), index, finding.line or 0, finding.column or 0


def _repeated_key(repeated: RepeatedField) -> Finding:
    """Return the finding about a repeated key: an error where answers may depend on which of the values counts."""
    message = "the same mapping has this key already; readers differ in which of the two they take"
    severity = Severity.ERROR if repeated.is_read else Severity.WARNING
    finding = finding_in(repeated.document, Code.DUPLICATE, repeated.field, message, severity=severity)
    return msgspec.structs.replace(finding, line=repeated.line, column=repeated.column)


def _of_all(
    documents: Sequence[Document], catalogue: Catalogue, gates: FeatureGates, now: datetime
) -> dict[int, list[Finding]]:
    """Return findings that need the whole input, by the identity of their document."""
    by_document: dict[int, list[Finding]] = {}
    of_launches = launch_findings(documents, catalogue, gates)
    of_calendars = calendar_findings(documents, now)
    of_groups = disagreeing_limits(documents)
    of_objects = (*dangling_references(documents), *repeated_objects(documents))
    for finding in (*of_objects, *of_launches, *of_calendars, *of_groups):
        by_document.setdefault(id(finding.document), []).append(finding)
    return by_document


class _Examination:
    """The checks of every document."""

    def __init__(
        self, known_values: KnownValues, catalogue: Catalogue, provided: frozenset[str], is_lenient: bool
    ) -> None:
        self._catalogue = catalogue
        self._known = known_values
        self._provided = provided
        self._is_lenient = is_lenient

    def of_one(self, document: Document) -> Iterator[Finding]:
        """Return the findings of one document; of several about one field, the first counts."""
        if older_versions.is_old(document.object):
            yield finding_in(document, Code.OLD_VERSION, "apiVersion", _old(document), severity=Severity.WARNING)
        yield from _removed(document)
        if (other := other_provider(document)) is not None:
            yield other
            yield from map(_of_placeholder, _faults(document))
            return
        lost = list(unmatched_values(document, self._known))
        closer = {error.field.rpartition("[")[0] for error in lost if error.severity is Severity.ERROR}
        faults = [_of_placeholder(fault) for fault in _faults(document) if fault.field not in closer]
        yield from faults
        yield from unknown_fields(document, is_lenient=self._is_lenient)
        broken = {fault.field for fault in faults}
        more = [*_bad_schedules(document), *refused_fields(document), *lost, *self._of_labels_and_values(document)]
        if not any(further.code is Code.MATCHES_NOTHING for further in more):
            more += empty_pools(document, self._catalogue, self._known)
        yield from (finding for finding in more if finding.field not in broken)

    def _of_labels_and_values(self, document: Document) -> Iterator[Finding]:
        yield from unfilled_values(document)
        yield from empty_taint_values(document)
        yield from label_findings(document, self._known, self._provided)
        yield from idle_limits(document, self._catalogue)
        yield from short_lives(document)
        yield from refused_values(document)
        yield from _unread_annotations(document)
        yield from template_findings(document)
        yield from node_findings(document)


def _of_placeholder(fault: Finding) -> Finding:
    """Return a fault with what to do, if the value is a placeholder that is not filled in."""
    placeholder = fault.document.placeholder_in(_value(fault.document.object, _location(fault.field)))
    return msgspec.structs.replace(fault, message=placeholder, suggestion="") if placeholder else fault


def unfilled_values(document: Document) -> Iterator[Finding]:
    """Return a warning about each text of Karpenter's objects that is to be filled in, but for user data, which is a script."""
    if not is_ours(document.object):
        return
    waiting: list[tuple[Location, Any]] = [(("spec",), mapping(document.object.get("spec")))]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((*place, key), part) for key, part in reversed(value.items()) if key != "userData"]
        elif isinstance(value, list):
            waiting += [((*place, index), part) for index, part in reversed([*enumerate(value)])]
        elif isinstance(value, str) and (says := document.placeholder_in(value)):
            yield finding_in(document, Code.INVALID_VALUE, path_of(place), says, severity=Severity.WARNING)


def empty_taint_values(document: Document) -> Iterator[Finding]:
    """Return a warning for each empty value of a taint: Karpenter's own definition refuses the object, so it cannot go back."""
    if not is_ours(document.object) or kind_of(document.object) != "NodePool":
        return
    place = ("spec", "template", "spec")
    spec = mapping(mapping(mapping(document.object.get("spec")).get("template")).get("spec"))
    for field in ("taints", "startupTaints"):
        for index, taint in enumerate(sequence(spec.get(field))):
            if mapping(taint).get("value") == "":
                at = path_of((*place, field, index, "value"))
                message = (
                    "is empty: Karpenter's NodePool definition refuses it; leave the field out, which means the same"
                )
                yield finding_in(document, Code.INVALID_VALUE, at, message, severity=Severity.WARNING)


def _removed(document: Document) -> Iterator[Finding]:
    """Return a warning about a version of a built-in kind that no API server serves any more."""
    removed = removed_version(document.object)
    if removed is not None:
        release, present = removed
        version = "/".join(part for part in group_and_version(document.object) if part)
        message = f"{version} was removed in Kubernetes {release}: the API server refuses the object"
        yield finding_in(
            document, Code.OLD_VERSION, "apiVersion", message, severity=Severity.WARNING, suggestion=present
        )


def _faults(document: Document) -> Iterable[Finding]:
    """Return violations of Karpenter's schemas and rules; for other kinds, problems that prevent reading them."""
    refused = refused_version_of(document)
    if refused and (versions := read_versions(document.kind)):
        suggestion = "" if "did you mean" in refused else versions[0]
        return [finding_in(document, Code.INVALID_VALUE, "apiVersion", refused, suggestion=suggestion)]
    if "did you mean" in refused and not is_ours(document.object):
        return [finding_in(document, Code.INVALID_VALUE, "kind", refused)]
    faults = problems(document.object)
    if faults:
        return [
            finding_in(
                document,
                Code.INVALID_VALUE,
                p.field,
                p.message,
                suggestion=probably_meant(document, p.field),
                subject=(p.kind, p.name),
            )
            for p in faults
        ]
    named, resource = under_made_up_name(document), kind_read(document)
    if resource is None or older_versions.is_old(document.object):
        return []
    if not named.name:
        return [finding_in(document, Code.INVALID_VALUE, "metadata.name", "is missing")]
    try:
        objects: dict[Any, Any] = {resource: [from_object(resource, named.object)]}
        for expansion in expand(objects, most_per_workload=1):
            objects = {**objects, PODS: list(expansion.pods[:1])}
    except InvalidInputError as error:
        return [finding_in(document, Code.INVALID_VALUE, error.field, error.problem)]
    return [
        finding_in(document, Code.INVALID_VALUE, field_in(document, p.resource, p.field), p.problem)
        for p in assemble(objects, now=ANY_TIME, catalogue=Catalogue())[1]
        if not p.is_warning
    ]


def _bad_schedules(document: Document) -> Iterator[Finding]:
    """Return invalid schedules: the API server's pattern allows `0 25 * * *`, which the parser of budgets refuses."""
    if not is_ours(document.object) or kind_of(document.object) != "NodePool":
        return
    disruption = mapping(mapping(document.object.get("spec")).get("disruption"))
    for index, budget in enumerate(sequence(disruption.get("budgets"))):
        schedule = mapping(budget).get("schedule")
        if not isinstance(schedule, str):
            continue
        try:
            Schedule.parse(schedule)
        except InvalidInputError as error:
            field = f"spec.disruption.budgets[{index}].schedule"
            message = f"{error.problem}; the budget would let no node go, at any time"
            yield finding_in(document, Code.INVALID_CRON, field, message)


def _unread_annotations(document: Document) -> Iterator[Finding]:
    """Return a warning for a mode of sharing GPUs between resource claims, which are not planned for."""
    annotations = mapping(mapping(document.object.get("metadata")).get("annotations"))
    mode = annotations.get(labels.CONSUMABLE_CAPACITY)
    if is_ours(document.object) and kind_of(document.object) == "EC2NodeClass" and mode not in (None, "disabled"):
        field = path_of(("metadata", "annotations", labels.CONSUMABLE_CAPACITY))
        message = "pods with resource claims are not planned for, so the annotation has no effect"
        yield finding_in(document, Code.NO_EFFECT, field, message, severity=Severity.WARNING)


def _old(document: Document) -> str:
    version = group_and_version(document.object)[1]
    return f"{version} is an older version; `fleetwright convert` writes the object as v1"


def _placed(finding: Finding, positions: Mapping[str, Positions]) -> Finding:
    document = finding.document
    path = ".".join(part for part in (document.item, finding.field) if part)
    place = positions[document.source].of(document.index, path) if document.source in positions else None
    return finding if place is None else msgspec.structs.replace(finding, line=place[0], column=place[1])
