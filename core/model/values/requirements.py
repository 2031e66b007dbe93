"""Sets of label values, and conjunctions of them over labels.

The form is Karpenter's: a requirement is a finite set of values or the complement of one, with integer bounds. Gt and Lt
become Gte and Lte. Requirements form a lattice under `intersection`, with Exists on top.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.interpreter import ByIdentity

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,63}")
"""No longer than a label's value may be: Python refuses to parse numbers of thousands of digits."""
INTEGER_OPERATORS: Final = ("Gt", "Lt", "Gte", "Lte")
BOUND_MIN: Final = -(2**63)
BOUND_MAX: Final = 2**63 - 1
"""Kubernetes reads a bound as a whole number of 64 bits, and every document of ours stores it as one."""


class Requirement(msgspec.Struct, frozen=True, order=True):
    """The values that one label may take.

    Attributes:
        key: Label key, aliases already replaced.
        complement: Whether `values` are excluded (and all others allowed) instead of allowed.
        values: Sorted, without duplicates.
        gte, lte: Inclusive bounds; with either, only integers are in the set.
        min_values: How many distinct values of this key the instance types of a claim must still offer.
    """

    key: str
    complement: bool = True
    values: tuple[str, ...] = ()
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None

    @classmethod
    def of(cls, key: str, operator: str, values: Iterable[str] = (), min_values: int | None = None) -> Requirement:
        """Build a requirement from a Kubernetes operator.

        Raises:
            InvalidInputError: If the operator is unknown, In has no values, or a bound is not one whole number.
        """
        key, ordered = labels.normalized(key), tuple(sorted(set(values)))
        if operator in ("In", "NotIn"):
            return cls(key, operator == "NotIn", ordered, min_values=min_values)
        if operator == "Exists":
            return cls(key, True, min_values=min_values)
        if operator == "DoesNotExist":
            return cls(key, False, min_values=min_values)
        if operator in INTEGER_OPERATORS:
            bound = _bound(key, operator, ordered)
            if (operator, bound) in (("Gt", BOUND_MAX), ("Lt", BOUND_MIN)):
                return cls(
                    key, gte=BOUND_MAX, lte=BOUND_MIN, min_values=min_values
                )  # no number is beyond: an empty set
            if operator in ("Gt", "Gte"):
                return cls(key, gte=bound + (operator == "Gt"), min_values=min_values)
            return cls(key, lte=bound - (operator == "Lt"), min_values=min_values)
        raise InvalidInputError(f"unknown operator {operator!r}, use one of {', '.join(OPERATORS)}", field="operator")

    @classmethod
    def one_of(cls, key: str, *values: str) -> Requirement:
        """Return the requirement for exactly these values: In."""
        return cls(labels.normalized(key), False, tuple(sorted(set(values))))

    @property
    def operator(self) -> str:
        """In, NotIn, Exists or DoesNotExist: the form of the set, regardless of bounds."""
        if self.complement:
            return "NotIn" if self.values else "Exists"
        return "In" if self.values else "DoesNotExist"

    @property
    def is_finite(self) -> bool:
        """Whether `values` lists all allowed values."""
        return not self.complement

    @property
    def tolerates_absence(self) -> bool:
        """Whether a node without the label satisfies this: NotIn and DoesNotExist do."""
        return self.complement == bool(self.values)

    def has(self, value: str) -> bool:
        """Whether `value` is in the set."""
        return (value in self.values) != self.complement and _within(value, self.gte, self.lte)

    def intersection(self, other: Requirement) -> Requirement:
        """Return what both allow. Commutative, associative, idempotent; Exists is the identity.

        Raises:
            InvalidInputError: If the keys differ.
        """
        if self.key != other.key:
            raise InvalidInputError(f"cannot intersect {self.key} with {other.key}")
        gte, lte = _highest(self.gte, other.gte), _lowest(self.lte, other.lte)
        min_values = _highest(self.min_values, other.min_values)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(self.key, False, min_values=min_values)
        if self.complement and other.complement:
            excluded = tuple(v for v in sorted({*self.values, *other.values}) if _within(v, gte, lte))
            return Requirement(self.key, True, excluded, gte, lte, min_values)
        kept = tuple(v for v in (self if not self.complement else other).values if self.has(v) and other.has(v))
        return Requirement(self.key, False, kept, min_values=min_values)

    def intersects(self, other: Requirement) -> bool:
        """Whether some value is in both sets; two complements always share one unless their bounds cross."""
        if self.complement and other.complement:
            gte, lte = _highest(self.gte, other.gte), _lowest(self.lte, other.lte)
            return gte is None or lte is None or gte <= lte
        finite, rest = (self, other) if not self.complement else (other, self)
        for value in finite.values:  # noqa: SIM110 - a generator takes twice as long, and every narrowing asks this
            if finite.has(value) and rest.has(value):
                return True
        return False

    def contradicts(self, other: Requirement) -> bool:
        """Whether no node meets both: they share no value, and one of them needs the label."""
        return not self.intersects(other) and not (self.tolerates_absence and other.tolerates_absence)

    def to_manifest(self) -> list[dict[str, object]]:
        """Return the equivalent entries of a `requirements:` list; two if both bounds are set."""
        bounds = [("Gte", self.gte), ("Lte", self.lte)]
        entries: list[dict[str, object]] = [
            {"key": self.key, "operator": operator, "values": [str(bound)]}
            for operator, bound in bounds
            if bound is not None
        ]
        if self.values or not entries:
            entry: dict[str, object] = {"key": self.key, "operator": self.operator}
            if self.values:
                entry["values"] = list(self.values)
            entries.append(entry)
        if self.min_values is not None:
            entries[0]["minValues"] = self.min_values
        return entries


class Requirements(Mapping[str, Requirement]):
    """A conjunction: one requirement for each label named; other labels are unrestricted.

    Immutable and hashable; iteration is in key order. In `A.compatible(B)`, A is what a node offers, B what a pod requires.
    """

    __slots__ = ("_by_key", "_hash")

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        merged: dict[str, Requirement] = {}
        for requirement in requirements:
            present = merged.get(requirement.key)
            merged[requirement.key] = requirement if present is None else present.intersection(requirement)
        self._by_key: dict[str, Requirement] = dict(sorted(merged.items()))
        self._hash: int | None = None

    @classmethod
    def from_labels(cls, node_labels: Mapping[str, str]) -> Requirements:
        """Return a node's labels as requirements: each key has exactly its one value."""
        return cls([Requirement(labels.normalized(key), False, (value,)) for key, value in node_labels.items()])

    def __getitem__(self, key: str) -> Requirement:
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Requirements) and self._by_key == other._by_key

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._by_key.values()))
        return self._hash

    def __repr__(self) -> str:
        return f"Requirements({list(self._by_key.values())!r})"

    def of(self, key: str) -> Requirement:
        """Return the requirement on `key`, Exists if there is none."""
        return self._by_key.get(key) or Requirement(key)

    def merged(self, other: Iterable[Requirement]) -> Requirements:
        """Return the conjunction of both, key by key; an empty intersection remains as DoesNotExist."""
        further = tuple(other)
        return Requirements((*self._by_key.values(), *further)) if further else self

    def without(self, *keys: str) -> Requirements:
        """Return all but these keys."""
        return Requirements(r for k, r in self._by_key.items() if k not in keys)

    def conflict(self, required: Requirements) -> str | None:
        """Return the first key on which the two share no value, or None. Keys that only one side names do not conflict."""
        for key, theirs in required._by_key.items():
            ours = self._by_key.get(key)
            if ours is not None and ours.contradicts(theirs):
                return key
        return None

    def incompatibility(self, required: Requirements, *, allow_undefined: frozenset[str] = frozenset()) -> str | None:
        """Return the first key for which these do not offer what is required, or None.

        A key that is required but not offered is a mismatch, unless it is in `allow_undefined` or the requirement tolerates its
        absence (NotIn, DoesNotExist).
        """
        for key, theirs in required._by_key.items():
            if key not in self._by_key and key not in allow_undefined and not theirs.tolerates_absence:
                return key
        return self.conflict(required)

    def compatible(self, required: Requirements, *, allow_undefined: frozenset[str] = frozenset()) -> bool:
        """Whether `incompatibility` finds nothing."""
        return self.incompatibility(required, allow_undefined=allow_undefined) is None


def contradiction(parts: Iterable[Requirement]) -> str | None:
    """Return the key of the first part that contradicts those before it, None if all of them can be met together."""
    merged: dict[str, Requirement] = {}
    for part in parts:
        before = merged.get(part.key)
        if before is not None and before.contradicts(part):
            return part.key
        merged[part.key] = part if before is None else before.intersection(part)
    return None


def is_integer(text: str) -> bool:
    """Whether a label's value is a whole number by Kubernetes' rules: of 64 bits; Python would also accept `1_0`."""
    return _INTEGER.fullmatch(text) is not None and BOUND_MIN <= int(text) <= BOUND_MAX


def _bound(key: str, operator: str, values: tuple[str, ...]) -> int:
    if len(values) != 1 or not is_integer(values[0]):
        shown = ", ".join(values) or "none"
        raise InvalidInputError(f"{operator} on {key} takes one whole number, not {shown}", field="values")
    return int(values[0])


def _within(value: str, gte: int | None, lte: int | None) -> bool:
    if gte is None and lte is None:
        return True
    if not is_integer(value):
        return False
    number = int(value)
    return (gte is None or number >= gte) and (lte is None or number <= lte)


def _highest(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else max(first, second)


def _lowest(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else min(first, second)


# Labels of nodes and claims as requirements, computed once for each object.


OBJECTS_REMEMBERED: Final = 4_000
"""Labels of 2,000 nodes and their claims, some kilobytes each.

A pass reads them for drift, and once for each of its planners."""

requirements_of_labels: Final = ByIdentity[Mapping[str, str], Requirements](
    Requirements.from_labels, size=OBJECTS_REMEMBERED
)
"""The requirements of an object's labels, which never change."""


# Kubernetes' syntax of a label's key and value.
#
# A key is a name of up to 63 characters, with or without a DNS subdomain of up to 253 before it; a value is empty or such a
# name. Some selectors are not checked by the API server and may contain anything (preferred node affinity, older versions).


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
