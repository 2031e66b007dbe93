"""Formats findings for people and programs: lines, our JSON, and formats that CI systems show beside the code."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import msgspec

from cli.answers.plan import API_VERSION
from cli.manifests.inventory import Document
from cli.terminal.style import on_one_line, printable, style
from core.api import older_versions
from core.api.objects import JsonObject, group_and_version, is_ours, kind_of, sequence
from core.api.older_versions import MODELS
from core.api.schemas.fields import ApiModel, parts
from core.api.status import Location, path_of

# Finds where a misplaced field belongs: deeper, in another object, or under a newer name.


_RENAMED: Final = {
    "ttlSecondsAfterEmpty": "spec.disruption.consolidateAfter",
    "ttlSecondsUntilExpired": "spec.template.spec.expireAfter",
    "consolidation": "spec.disruption.consolidationPolicy",
    "providerRef": "spec.template.spec.nodeClassRef",
    "provider": "spec.template.spec.nodeClassRef",
    "kubeletConfiguration": "spec.kubelet of the EC2NodeClass",
    "subnetSelector": "spec.subnetSelectorTerms",
    "securityGroupSelector": "spec.securityGroupSelectorTerms",
    "amiSelector": "spec.amiSelectorTerms",
    "launchTemplate": "spec.userData, spec.blockDeviceMappings and spec.metadataOptions",
}
"""Fields of older versions → their place in v1."""

_GROUP_OF_REFERENCE: Final = ("nodeClassRef", "apiVersion")
_OTHERS: Final = {"NodePool": "EC2NodeClass", "EC2NodeClass": "NodePool"}


def right_place(obj: dict[str, Any], location: Location) -> str:
    """Return the path where an unknown field belongs; empty unless exactly one place has a field of that name."""
    if location[-2:] == _GROUP_OF_REFERENCE:
        return "group"
    name = str(location[-1])
    places = _places(kind_of(obj), group_and_version(obj)[0], name)
    if len(places) == 1:
        return places[0]
    if name in _RENAMED:
        return _RENAMED[name]
    other = _OTHERS.get(kind_of(obj), "")
    group = next((key[0] for key in MODELS if key[2] == other), "")
    others = _places(other, group, name) if other and not places else ()
    return f"{others[0]} of the {other}" if len(others) == 1 else ""


@cache
def _places(kind: str, group: str, name: str) -> tuple[str, ...]:
    """Return every place where a kind has a field of this name, outside of lists."""
    model = next((kind_model for key, kind_model in MODELS.items() if (key[0], key[2]) == (group, kind)), None)
    spec = dict(parts(model)).get("spec") if model is not None else None
    return tuple(path_of(place) for place in _fields(spec, ("spec",)) if place[-1] == name) if spec else ()


def _fields(model: type[ApiModel], at: Location) -> Iterator[Location]:
    within = dict(parts(model))
    for name, field in model.model_fields.items():
        wire_name = field.alias or name
        yield (*at, wire_name)
        if wire_name in within and not _is_list(field.annotation):
            yield from _fields(within[wire_name], (*at, wire_name))


def _is_list(annotation: Any) -> bool:
    return "list[" in str(annotation)


# A finding: one problem of one object of the input, and its position in the file.


class Severity(StrEnum):
    """Whether a finding makes the input invalid."""

    ERROR = "error"
    WARNING = "warning"


class Code(StrEnum):
    """The category of a finding: a closed list for programs."""

    INVALID_VALUE = "InvalidValue"
    UNKNOWN_FIELD = "UnknownField"
    INVALID_CRON = "InvalidCron"
    MATCHES_NOTHING = "MatchesNothing"
    NOT_FOUND = "NotFound"
    OLD_VERSION = "OldVersion"
    NO_EFFECT = "NoEffect"
    DUPLICATE = "Duplicate"
    UNREADABLE = "Unreadable"
    OVERLAP = "Overlap"
    NEVER_HOLDS = "NeverHolds"
    NEVER_OPENS = "NeverOpens"
    LEAD_TIME = "LeadTime"


MEANINGS: Final = {
    Code.INVALID_VALUE: "A field is missing, has a value that it cannot have, or contradicts another field.",
    Code.UNKNOWN_FIELD: "There is no such field: the API server drops or refuses it. An error in a workload's pod template "
    "and where a known field is spelled alike or belongs elsewhere (a warning with `--lenient`), else a warning.",
    Code.INVALID_CRON: "A budget's schedule is not a cron schedule or never occurs; its budget then allows no removal.",
    Code.MATCHES_NOTHING: "No instance type, zone or capacity type of the catalogue has a value that a requirement demands.",
    Code.NOT_FOUND: "An object names another object that is not in the input.",
    Code.OLD_VERSION: "The object has an older version, which `fleetwright convert` writes in the present one, or uses a label "
    "or an annotation that Karpenter has given up.",
    Code.NO_EFFECT: "The setting has no effect: a limit on a resource that no instance type has, a label that no node "
    "carries, an annotation in a place where nobody reads it, a selector that does not match the pod's own labels.",
    Code.UNREADABLE: "A file, or a document of it, cannot be read: it is not YAML or JSON, or a template that must be rendered "
    "first. The other documents are examined all the same.",
    Code.DUPLICATE: "An object is in a file, or a key in a mapping, more than once; the last one counts here.",
    Code.OVERLAP: "Two rules of Calendars hold for a NodePool at once and set the same; the later one counts.",
    Code.NEVER_HOLDS: "A rule of a Calendar does not hold within the next 400 days, or clocks skip a window of it.",
    Code.NEVER_OPENS: "Calendars close a NodePool for all of the next 400 days.",
    Code.LEAD_TIME: "A rule's lead time is as long as the gap: a closed NodePool hardly empties, and warm room never ends.",
}
"""Code → its meaning, for the reference page."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding.

    Attributes:
        document: The object's document.
        kind, name: The object's kind and name, as the document spells them.
        field: The field's path such as `spec.template.spec.requirements[0].operator`; of an older version its path in v1.
        message: What is wrong, as the end of a sentence that the field begins.
        suggestion: What was probably meant, empty if nothing is similar.
        line, column: The field's position in the file, from 1; None if unknown.
    """

    document: Document
    severity: Severity
    code: Code
    kind: str
    name: str
    field: str
    message: str
    suggestion: str = ""
    line: int | None = None
    column: int | None = None

    @property
    def object(self) -> str:
        """The object for programs: `NodePool/default`."""
        return f"{self.kind}/{self.name}"

    @property
    def text(self) -> str:
        """The message with the suggestion, for people."""
        return f"{self.message} (did you mean {self.suggestion!r}?)" if self.suggestion else self.message


def finding_in(
    document: Document,
    code: Code,
    field: str,
    message: str,
    *,
    severity: Severity = Severity.ERROR,
    suggestion: str = "",
    subject: tuple[str, str] | None = None,
) -> Finding:
    """Return a finding about a document's object, or about another `subject` (kind and name)."""
    kind, name = subject or document.subject.split(" ", 1)
    return Finding(
        document=document,
        severity=severity,
        code=code,
        kind=kind,
        name=name,
        field=field,
        message=message,
        suggestion=suggestion,
    )


def nearest(word: str, known_words: Iterable[str]) -> str:
    """Return the known word with the spelling most similar to `word`, empty if none is similar; case is ignored."""
    by_lower = {known_word.lower(): known_word for known_word in sorted(known_words, reverse=True)}
    close = difflib.get_close_matches(word.lower(), sorted(by_lower))
    return by_lower[close[0]] if close else ""


_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def as_lines(findings: Sequence[Finding], *, objects: int) -> str:
    """Format one line per finding (`pools.yaml:61:3: NodePool/default: spec.disrution: …`), then a line with the totals."""
    return "\n".join([*map(_line, findings), _summary(findings, objects)])


def as_document(findings: Sequence[Finding]) -> JsonObject:
    """Return the answer for programs."""
    errors, warnings = _counts(findings)
    return {
        "apiVersion": API_VERSION,
        "kind": "Validation",
        "valid": not errors,
        "errors": errors,
        "warnings": warnings,
        "problems": [_entry(finding) for finding in findings],
    }


def as_github(findings: Sequence[Finding]) -> str:
    """Workflow commands that annotate a pull request."""
    lines = []
    for finding in findings:
        place = {"file": finding.document.source, "line": finding.line, "col": finding.column, "title": finding.code}
        properties = ",".join(
            f"{key}={_escaped_property(str(value))}" for key, value in place.items() if value is not None
        )
        lines.append(f"::{finding.severity} {properties}::{_escaped(_sentence(finding))}")
    return "\n".join(lines)


def as_sarif(findings: Sequence[Finding]) -> str:
    """SARIF 2.1.0, for code scanning."""
    rules = [{"id": code.value, "shortDescription": {"text": text}} for code, text in MEANINGS.items()]
    run = {"tool": {"driver": {"name": "fleetwright", "rules": rules}}, "results": [_result(f) for f in findings]}
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def as_junit(findings: Sequence[Finding], *, objects: int) -> str:
    """JUnit's XML: a test case for each finding; a warning is a passed case with its text as output."""
    errors, _ = _counts(findings)
    counts = {"tests": str(max(len(findings), 1)), "failures": str(errors)}
    suite = ET.Element("testsuite", {"name": "fleetwright validate", **counts})
    for finding in findings:
        case = ET.SubElement(suite, "testcase", {"classname": finding.object, "name": finding.field or finding.code})
        if finding.severity is Severity.ERROR:
            failure = ET.SubElement(case, "failure", {"type": finding.code, "message": finding.text})
            failure.text = _line(finding)
        else:
            ET.SubElement(case, "system-out").text = _line(finding)
    if not findings:
        ET.SubElement(suite, "testcase", {"classname": "fleetwright", "name": f"{objects} objects"})
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


def _line(finding: Finding) -> str:
    document = finding.document
    place = document.source if finding.line is None else f"{document.source}:{finding.line}:{finding.column}"
    inside = f"document {document.index + 1}" + (f", {document.item}" if document.item else "")
    is_warning = finding.severity is Severity.WARNING
    mark = f"{style.styled('warning', 'yellow')}: " if is_warning else ""
    subject = f"{finding.kind} {finding.name or 'without a name'}"
    field = style.styled(finding.field, "yellow" if is_warning else "red")
    line = ": ".join(part for part in (place, inside, f"{mark}{subject}", field, finding.text) if part)
    return on_one_line(line)


def _sentence(finding: Finding) -> str:
    return ": ".join(part for part in (finding.object, finding.field, finding.text) if part)


def _summary(findings: Sequence[Finding], objects: int) -> str:
    errors, warnings = _counts(findings)
    if not errors and not warnings:
        return f"{_plural(objects, 'object')}, no problem"
    return f"{_plural(objects, 'object')}, {_plural(errors, 'error')}, {_plural(warnings, 'warning')}"


def _counts(findings: Sequence[Finding]) -> tuple[int, int]:
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    return errors, len(findings) - errors


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _entry(finding: Finding) -> JsonObject:
    document = finding.document
    return {
        "severity": finding.severity.value,
        "code": finding.code.value,
        "file": document.source,
        "document": document.index,
        "item": document.item,
        "line": finding.line,
        "column": finding.column,
        "object": finding.object,
        "kind": finding.kind,
        "name": finding.name,
        "field": finding.field,
        "message": finding.message,
        "suggestion": finding.suggestion or None,
    }


def _result(finding: Finding) -> JsonObject:
    location: JsonObject = {"artifactLocation": {"uri": finding.document.source}}
    if finding.line is not None:
        location["region"] = {"startLine": finding.line, "startColumn": finding.column}
    return {
        "ruleId": finding.code.value,
        "level": finding.severity.value,
        "message": {"text": _sentence(finding)},
        "locations": [{"physicalLocation": location}],
    }


def _escaped(text: str) -> str:
    return printable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _escaped_property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


# The fields of Kubernetes' kinds: a bundled table, written by `make docs` from the pinned client.


KUBERNETES_FIELDS: Final = Path(__file__).parents[1] / "assets" / "kubernetes-fields.json"
"""Type → field → type of its value: a type of the table, or a plain one. `[]` stands before a list's and `{}` before a map's.

It is empty where values of several types are taken, and for the status of an object.
"""

OBJECT_META: Final = "V1ObjectMeta"

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        *("LimitRange", "PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate", "ReplicationController"),
        "ResourceQuota",
    ),
    "apps": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "batch": ("CronJob", "Job"),
    "extensions": ("DaemonSet", "Deployment", "ReplicaSet"),
    "node.k8s.io": ("RuntimeClass",),
    "policy": ("PodDisruptionBudget",),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("StorageClass",),
}
"""API group → its kinds that people write and the table knows."""

_ALL_VERSIONS: Final = {"HorizontalPodAutoscaler": ("V1", "V2")}
"""Kind → its versions in the table, where it is not the first alone."""

_OF_EARLIER_RELEASES: Final[Mapping[str, Mapping[str, str]]] = {
    "V1PodSpec": {"workloadRef": "V1WorkloadReference"},
    "V1WorkloadReference": {"name": "string", "podGroup": "string", "podGroupReplicaKey": "string"},
}
"""Fields that the pinned client no longer has, and that are read: Kubernetes 1.35 wrote groups so, and 1.36 took it away."""


def type_of(obj: JsonObject) -> str:
    """Return the type in the table of an object, empty if it has none."""
    group, version = group_and_version(obj)
    kind = kind_of(obj)
    if kind not in _KINDS.get(group, ()):
        return ""
    if kind not in _ALL_VERSIONS:
        return f"V1{kind}"
    return f"{version.upper()}{kind}" if version.upper() in _ALL_VERSIONS[kind] else ""


@cache
def kubernetes_fields() -> dict[str, dict[str, str]]:
    """The table."""
    fields: dict[str, dict[str, str]] = json.loads(KUBERNETES_FIELDS.read_text(encoding="utf-8"))
    return fields


def written_fields() -> str:
    """The table as the pinned Kubernetes client has it: what `make docs` writes to `KUBERNETES_FIELDS`."""
    from kubernetes.client import models

    every = (kind for kinds in _KINDS.values() for kind in kinds)
    roots = [f"{version}{kind}" for kind in every for version in _ALL_VERSIONS.get(kind, ("V1",))]
    fields: dict[str, dict[str, str]] = {}
    waiting = list(roots)
    while waiting:
        kind = waiting.pop()
        if kind in fields:
            continue
        described = getattr(models, kind)
        types = {described.attribute_map[name]: _written(text) for name, text in described.openapi_types.items()}
        types |= {name: "number" for name in _NUMBERS if types.get(name) == ""}
        types |= {name: text.replace("string", "amount") for name, text in types.items() if (kind, name) in _AMOUNTS}
        types |= {"status": ""} if kind in roots and "status" in types else {}  # controllers write it
        fields[kind] = dict(sorted(types.items()))
        waiting += [inner for inner in map(_struct_in, types.values()) if inner]
    for kind, earlier in _OF_EARLIER_RELEASES.items():
        fields[kind] = dict(sorted({**fields.get(kind, {}), **earlier}.items()))
    return json.dumps(dict(sorted(fields.items())), indent=1) + "\n"


_PLAIN: Final = {"str": "string", "int": "integer", "bool": "boolean", "object": "", "datetime": ""}
"""Plain type of the client → its name in the table."""

_AMOUNTS: Final = frozenset(
    {
        *(("V1ResourceRequirements", "limits"), ("V1ResourceRequirements", "requests")),
        *(("V1VolumeResourceRequirements", "limits"), ("V1VolumeResourceRequirements", "requests")),
        *(("V1PodSpec", "overhead"), ("V1Overhead", "podFixed"), ("V1PersistentVolumeSpec", "capacity")),
        *(
            ("V1EmptyDirVolumeSource", "sizeLimit"),
            ("V1ResourceFieldSelector", "divisor"),
            ("V1ResourceQuotaSpec", "hard"),
        ),
        *(("V2MetricTarget", "value"), ("V2MetricTarget", "averageValue"), ("V2HPAScalingRules", "tolerance")),
        *(("V1LimitRangeItem", name) for name in ("default", "defaultRequest", "max", "maxLimitRequestRatio", "min")),
    }
)
"""Type and field of amounts, which the client calls texts although numbers are taken, too."""

_NUMBERS: Final = ("maxSurge", "maxUnavailable", "minAvailable", "port")
"""Fields that take a whole number, or a text such as 25% or the name of a port."""


def _written(text: str) -> str:
    """Return how the table writes a client's type such as `List[V1Container]`."""
    match = re.fullmatch(r"(?:([Ll]ist|[Dd]ict)\[(?:str, )?)?(\w+)\]?", text)
    if match is None:
        return ""
    holder, inner = match.groups()
    return {None: "", "list": "[]", "dict": "{}"}[holder and holder.lower()] + _PLAIN.get(inner, inner)


def _struct_in(text: str) -> str:
    """Return the Kubernetes type in a type of the table such as `[]V1Container`; empty for plain values and for maps."""
    inner = text.removeprefix("[]")
    return inner if re.fullmatch(r"(?:Core)?V[0-9]\w*", inner) else ""


# Finds where a misplaced field of a Pod or a workload belongs: below, in its template, or above.


TEMPLATES: Final[Mapping[str, Location]] = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
"""The path of a workload's pod template."""


def place_in_workload(kind: str, type_: str, location: Location) -> str:
    """Return the path where an unknown field belongs, the nearest one below before those above; empty if nowhere.

    Args:
        kind: The object's kind.
        type_: Its type in the table of fields.
        location: The path of the unknown field.
    """
    *within, name = location
    places = [place for place, fields in _levels(kind, type_) if name in fields]
    below = [place for place in places if len(place) > len(within) and list(place[: len(within)]) == within]
    above = [place for place in places if len(place) < len(within) and within[: len(place)] == list(place)]
    nearest = [*below[:1], *above[-1:]]
    return path_of((*nearest[0], name)) if nearest else ""


def _levels(kind: str, type_: str) -> Iterator[tuple[Location, Mapping[str, str]]]:
    """Yield the specifications from the object's own to the pod's, each with its path and its fields."""
    fields = kubernetes_fields()[type_]
    place: Location = ()
    for part in (*TEMPLATES.get(kind, ()), "spec"):
        place = (*place, part)
        fields = kubernetes_fields()[_struct_in(fields[str(part)])]
        yield place, fields


# Finds fields that no API server knows: in Karpenter's objects, in Pods, workloads and the other kinds that people write.


_OBJECT_FIELDS: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_WITH_PODS: Final = (*TEMPLATES, "Pod")

Unknown = tuple[Location, str]
"""The path of an unknown field, and the known field with the most similar spelling."""


def unknown_fields(document: Document, *, is_lenient: bool) -> Iterator[Finding]:
    """Return a finding for each unknown field; older versions of Karpenter's objects are not checked.

    In the pod template of a workload each is an error. Elsewhere, a field with a spelling similar to a known one, or known in
    another place, is an error; any other is a warning, since it may be of a newer version.
    """
    template = TEMPLATES.get(document.kind, ())
    for location, similar in _found(document):
        is_in_template = bool(template) and location[: len(template)] == template
        elsewhere = _right_place(document, location)
        meant = elsewhere or similar
        severity = Severity.ERROR if (meant or is_in_template) and not is_lenient else Severity.WARNING
        message = "there is no such field here" if elsewhere else "there is no such field"
        yield finding_in(document, Code.UNKNOWN_FIELD, path_of(location), message, severity=severity, suggestion=meant)


def _found(document: Document) -> Iterator[Unknown]:
    obj = document.object
    group, version = group_and_version(obj)
    model = MODELS.get((group, version, kind_of(obj)))
    if model is not None and not older_versions.is_old(obj):
        yield from _unknown_keys(obj, _OBJECT_FIELDS, ())
        yield from _in_struct(obj.get("metadata"), OBJECT_META, ("metadata",))
        if "spec" in dict(parts(model)):
            yield from _in_model(obj.get("spec"), dict(parts(model))["spec"], ("spec",))
    elif kind := type_of(obj):
        yield from _in_struct(obj, kind, ())


def _right_place(document: Document, location: Location) -> str:
    """Return the path where the field belongs, empty if it belongs nowhere."""
    if is_ours(document.object):
        return right_place(document.object, location)
    return place_in_workload(document.kind, type_of(document.object), location) if document.kind in _WITH_PODS else ""


def _in_model(value: object, model: type[ApiModel], at: Location) -> Iterator[Unknown]:
    if not isinstance(value, dict) or model.model_config.get("extra") == "forbid":
        return
    wire_names = [field.alias or name for name, field in model.model_fields.items()]
    yield from _unknown_keys(value, wire_names, at)
    for name, part in parts(model):
        for place, item in _items(value.get(name), (*at, name)):
            yield from _in_model(item, part, place)


def _in_struct(value: object, kind: str, at: Location) -> Iterator[Unknown]:
    if not isinstance(value, dict):
        return
    fields = kubernetes_fields()[kind]
    yield from _unknown_keys(value, fields, at)
    for name, text in fields.items():
        if inner := _struct_in(text):
            for place, item in _items(value.get(name), (*at, name)):
                yield from _in_struct(item, inner, place)


def _items(value: object, at: Location) -> Iterator[tuple[Location, object]]:
    if isinstance(value, list):
        yield from (((*at, index), item) for index, item in enumerate(value))
    else:
        yield at, value


def _unknown_keys(value: Mapping[str, Any], known_keys: Any, at: Location) -> Iterator[Unknown]:
    names = list(known_keys)
    for key in value:
        if key not in names:
            yield (*at, key), nearest(key, names)


# Finds values of another type than their field has: the API server decodes none of the object.


_AMOUNT: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?").fullmatch
_TAKES: Final[Mapping[str, Callable[[object], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "amount": lambda value: not isinstance(value, bool) and _AMOUNT(str(value).strip()) is not None,
    "number": lambda value: isinstance(value, str) or _TAKES["integer"](value),
    "integer": lambda value: (type(value) is int) or (isinstance(value, float) and value.is_integer()),
}
_CALLED: Final = {
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "amount": "an amount, as 500m or 1Gi",
    "number": "a whole number or text",
}


def mistyped_values(document: Document) -> Iterator[Finding]:
    """Return an error for each value of a type that its field does not take."""
    if kind := type_of(document.object):
        for location, message in _mistyped(document.object, kind, ()):
            yield finding_in(document, Code.INVALID_VALUE, path_of(location), message)


def _mistyped(value: Any, type_: str, at: Location) -> Iterator[tuple[Location, str]]:
    """Yield the paths of values that their types do not take, each with what would be right. Null is no value."""
    if value is None or not type_:
        return
    if type_ in _TAKES:
        if not _TAKES[type_](value):
            yield at, f"must be {_CALLED[type_]}, not {_said(value, type_)}"
    elif type_.startswith("[]"):
        if not isinstance(value, list):
            yield at, f"must be a list, not {_said(value)}"
        for index, item in enumerate(sequence(value)):
            yield from _mistyped(item, type_.removeprefix("[]"), (*at, index))
    elif not isinstance(value, dict):
        yield at, f"must be an object, not {_said(value)}"
    elif type_.startswith("{}"):
        for key, item in value.items():
            yield from _mistyped(item, type_.removeprefix("{}"), (*at, str(key)))
    else:
        fields = kubernetes_fields()[type_]
        for name, inner in fields.items():
            yield from _mistyped(value.get(name), inner, (*at, name))


def _said(value: object, wanted: str = "") -> str:
    """Return what a value of another type is, and how to write it as the type that is wanted, if that is easy."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        is_close = _TAKES[wanted](_plain(value)) if wanted else False
        return f"the text {value!r}" + (": take the quotes away" if is_close else "")
    written = str(value).lower()
    return f"{written}: put it in quotes" if wanted == "string" else written


def _plain(text: str) -> object:
    """Return what a text would be without its quotes."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch("-?[0-9]{1,18}", text) else text
