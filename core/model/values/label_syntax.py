"""Kubernetes' syntax of a label's key and value.

A key is a name of up to 63 characters, with or without a DNS subdomain of up to 253 before it; a value is empty or such a name.
Some selectors are not checked by the API server and may contain anything (preferred node affinity, older versions).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from core.model.values.requirements import Requirement

NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
NAME_LENGTH_MAX: Final = 63
DOMAIN_LENGTH_MAX: Final = 253

_KEY: Final = re.compile(rf"({SUBDOMAIN}/)?{NAME}")
_VALUE: Final = re.compile(rf"({NAME})?")
_SHOWN_MAX: Final = 80
"""The most characters of an invalid value in a message, which appears in logs and events."""


def length_fault(key: str) -> str | None:
    """Return which part of a qualified name is too long, None if none is."""
    domain, _, name = key.rpartition("/")
    if len(name) > NAME_LENGTH_MAX:
        return f"the name {name!r} has more than {NAME_LENGTH_MAX} characters"
    if len(domain) > DOMAIN_LENGTH_MAX:
        return f"the domain {domain!r} has more than {DOMAIN_LENGTH_MAX} characters"
    return None


def is_label_key(text: str) -> bool:
    """Whether a label may have this key."""
    return _KEY.fullmatch(text) is not None and length_fault(text) is None


def is_label_value(text: str) -> bool:
    """Whether a label may have this value."""
    return len(text) <= NAME_LENGTH_MAX and _VALUE.fullmatch(text) is not None


def key_fault(text: str) -> str:
    """Return why no label can have this key, empty if one can."""
    return "" if is_label_key(text) else f"{shown(text)} cannot be the key of a label"


def value_fault(text: str) -> str:
    """Return why no label can have this value, empty if one can."""
    return "" if is_label_value(text) else f"{shown(text)} cannot be the value of a label"


def requirement_fault(requirement: Requirement) -> str:
    """Return why no node can carry a label that satisfies this requirement, empty if one can."""
    return next(filter(None, (key_fault(requirement.key), *map(value_fault, requirement.values))), "")


def labels_fault(labels: Mapping[str, str]) -> str:
    """Return why no node can carry these labels, empty if one can."""
    faults = (key_fault(key) or value_fault(labels[key]) for key in sorted(labels))
    return next(filter(None, faults), "")


def shown(text: str) -> str:
    """Return the text quoted, control characters escaped, truncated if it is long."""
    return ascii(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "...")
