"""Reads what a refused call lacks from the answer of AWS or the API server: the action, and the resource that it is about."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

NOT_NAMED: Final = "not named"
"""The resource of an answer that names none, such as an exceeded quota; CloudWatch takes no empty dimension."""

LENGTH_MAX: Final = 250
"""Characters of a dimension's value; CloudWatch takes 1,024."""

_OF_AWS: Final = re.compile(r"not authorized to perform: ([\w-]+:\w+)(?:.*? on resource: (\S+))?", re.DOTALL)
_OF_KUBERNETES: Final = re.compile(r'cannot (\w+) resource "([\w./-]+)"(?: in API group "([\w.-]*)")?')
_OF_AN_OBJECT: Final = re.compile(r"(?<=/)[a-z]+-[0-9a-z]{8,17}$")
"""The last part of an EC2 ARN: one refused action would have as many metrics as there are instances."""

_NOT_ASCII: Final = re.compile(r"[^\x21-\x7e]+")


class RefusedCall(NamedTuple):
    """What a permission is missing for: an action, and a resource."""

    action: str
    resource: str


def refused_call(message: str) -> RefusedCall:
    """Return what a decision's message says is refused; without a missing permission in it, the call with which it begins."""
    by_aws = _OF_AWS.search(message)
    if by_aws:
        return _named(by_aws[1], _OF_AN_OBJECT.sub("*", (by_aws[2] or "").rstrip(".,;")))
    by_kubernetes = _OF_KUBERNETES.search(message)
    if by_kubernetes:
        verb, resource, group = by_kubernetes.groups()
        return _named(f"kube:{verb}", f"{resource}.{group}" if group else resource)
    return _named(message.partition(": ")[0], "")


def _named(action: str, resource: str) -> RefusedCall:
    found = _NOT_ASCII.sub(" ", resource)[:LENGTH_MAX].strip()
    return RefusedCall(_NOT_ASCII.sub(" ", action)[:LENGTH_MAX].strip() or NOT_NAMED, found or NOT_NAMED)
