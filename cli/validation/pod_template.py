"""Finds problems that the API server refuses in a pod template, and accepted values that are hardly intended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cli.manifests.document import Document
from cli.validation.finding import Code, Finding, Severity, finding_in
from cli.validation.kubernetes_fields import type_of
from cli.validation.workload_places import TEMPLATES
from core import labels
from core.api.objects import mapping, sequence
from core.api.problem import Location, path_of
from core.errors import InvalidInputError
from core.model.values import quantity

_FORMER_ANNOTATIONS: Final = {
    "karpenter.sh/do-not-evict": labels.DO_NOT_DISRUPT,
    "karpenter.sh/do-not-consolidate": labels.DO_NOT_DISRUPT,
}
_SELECTED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
"""Kinds whose selector must match the labels of their template."""
_MILLI: Final = re.compile(r"\d+m")
_BINARY: Final = re.compile(r"\d+(\.\d+)?[KMGT]i?")
Fault = tuple[Location, str, Severity]


def template_findings(document: Document) -> Iterator[Finding]:
    """The findings in a Pod or in the template of a workload."""
    place = () if document.kind == "Pod" else TEMPLATES.get(document.kind)
    if place is None or not type_of(document.object):
        return
    template = document.object
    for part in place:
        template = mapping(template.get(str(part)))
    for location, message, severity in (*_selector(document), *_containers(template), *_rules(template)):
        where = location if location[:1] == ("selector",) else (*place, *location)
        path = path_of(("spec", *where) if where is location else where)
        code = Code.INVALID_VALUE if severity is Severity.ERROR else Code.NO_EFFECT
        yield finding_in(document, code, path, message, severity=severity)
    yield from _annotations(document, template, place)


def _selector(document: Document) -> Iterator[Fault]:
    if document.kind not in _SELECTED:
        return
    spec = mapping(document.object.get("spec"))
    own = mapping(mapping(mapping(spec.get("template")).get("metadata")).get("labels"))
    for key, value in mapping(mapping(spec.get("selector")).get("matchLabels")).items():
        if own.get(key) != value:
            message = f"does not match the labels of the template: they have {_label(key, own)}"
            yield ("selector", "matchLabels", key), message, Severity.ERROR


def _containers(template: Mapping[str, Any]) -> Iterator[Fault]:
    spec = mapping(template.get("spec"))
    if not spec.get("containers"):
        yield ("spec", "containers"), "is missing: a pod needs a container", Severity.ERROR
    for field in ("initContainers", "containers"):
        for index, container in enumerate(sequence(spec.get(field))):
            resources = mapping(mapping(container).get("resources"))
            at: Location = ("spec", field, index, "resources")
            requests, limits = mapping(resources.get("requests")), mapping(resources.get("limits"))
            for name, value in requests.items():
                if _amount(value, name) > _amount(limits.get(name, value), name):
                    message = f"{value} is more than the limit of {limits[name]}"
                    yield (*at, "requests", name), message, Severity.ERROR
            for kind, amounts in (("requests", requests), ("limits", limits)):
                for name, value in amounts.items():
                    odd = _odd(name, str(value))
                    if odd:
                        yield (*at, kind, name), odd, Severity.WARNING


def _odd(name: str, value: str) -> str:
    """Return why an amount is hardly intended; empty for plausible ones."""
    if name in ("memory", "ephemeral-storage") and _MILLI.fullmatch(value):
        return f"{value} is thousandths of a byte; {value[:-1]}Mi is mebibytes"
    if name in ("memory", "ephemeral-storage") and value.isdecimal() and 0 < int(value) < 1 << 20:
        return f"{value} is bytes; {value}Mi is mebibytes"
    if name == "cpu" and _BINARY.fullmatch(value):
        return f"{value} is a number of cores, not of bytes"
    return ""


def _rules(template: Mapping[str, Any]) -> Iterator[Fault]:
    spec = mapping(template.get("spec"))
    for index, toleration in enumerate(sequence(spec.get("tolerations"))):
        if mapping(toleration).get("operator") == "Exists" and mapping(toleration).get("value"):
            yield ("spec", "tolerations", index, "value"), "operator Exists takes no value", Severity.ERROR
    own = mapping(mapping(template.get("metadata")).get("labels"))
    for index, spread in enumerate(sequence(spec.get("topologySpreadConstraints"))):
        selector = mapping(mapping(spread).get("labelSelector"))
        equal = mapping(selector.get("matchLabels"))
        at = ("spec", "topologySpreadConstraints", index, "labelSelector")
        if not equal and not sequence(selector.get("matchExpressions")):
            yield at, "selects no pods, so the constraint spreads nothing", Severity.WARNING
        for key, value in equal.items():
            if own.get(key) != value:
                message = f"does not select the pod itself, which has {_label(key, own)}: its own place is not counted"
                yield (*at, "matchLabels", key), message, Severity.WARNING


def _annotations(document: Document, template: Mapping[str, Any], place: Location) -> Iterator[Finding]:
    found = mapping(mapping(template.get("metadata")).get("annotations"))
    for former, present in _FORMER_ANNOTATIONS.items():
        if former in found:
            field = path_of((*place, "metadata", "annotations", former))
            message = "is of an older version, and is ignored"
            yield finding_in(document, Code.OLD_VERSION, field, message, severity=Severity.WARNING, suggestion=present)
    above = mapping(mapping(document.object.get("metadata")).get("annotations"))
    if place and labels.DO_NOT_DISRUPT in above and labels.DO_NOT_DISRUPT not in found:
        field = path_of(("metadata", "annotations", labels.DO_NOT_DISRUPT))
        meant = path_of((*place, "metadata", "annotations"))
        message = f"protects no pod here: pods take their annotations from {meant}"
        yield finding_in(document, Code.NO_EFFECT, field, message, severity=Severity.WARNING)


def _label(key: str, own: Mapping[str, Any]) -> str:
    return f"{key}={own[key]}" if key in own else f"no {key}"


def _amount(value: object, name: str) -> int:
    try:
        return quantity.parse(str(value), name)
    except InvalidInputError:
        return 0
