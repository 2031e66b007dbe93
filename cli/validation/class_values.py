"""Finds values of an EC2NodeClass that its schema allows but AWS refuses at the first launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cli.manifests.document import Document
from cli.validation.finding import Code, Finding, Severity, finding_in
from core import labels
from core.api.objects import group_and_version, kind_of, mapping, sequence
from core.api.problem import path_of

_WITH_IOPS: Final = ("gp3", "io1", "io2")
_WITH_THROUGHPUT: Final = ("gp3",)
_NAMED: Final = ("role", "instanceProfile")
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
    for field in _NAMED:
        value = spec.get(field)
        if isinstance(value, str) and value.startswith("arn:"):
            message = "is an ARN, and IAM's calls take the name alone"
            name = value.rpartition("/")[2]
            yield finding_in(document, Code.INVALID_VALUE, f"spec.{field}", message, suggestion=name)
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
