"""Reads the metadata and status of our objects. The API server and controllers write them, so invalid values are ignored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, TypedDict

import msgspec

from core.api.objects import JsonObject, generation_of, kind_of, mapping, name_of, sequence
from core.model.plan import READY, Condition
from core.model.values.quantity import in_calendar

# Problems of a user's object, in one line that names the field.


Location = tuple[str | int, ...]

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+\Z")


class Problem(msgspec.Struct, frozen=True, order=True):
    """One fault of one object. `field` is a path such as `spec.template.spec.requirements[0].operator`."""

    kind: str
    name: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.field}: {self.message}"


def path_of(location: Iterable[str | int]) -> str:
    """The field path: `a.b[0].c`; map keys that are not plain identifiers are in brackets, `labels[example.com/team]`."""
    path = ""
    for part in location:
        if isinstance(part, int) or not _PLAIN_KEY.match(part):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


class Identity(TypedDict):
    """The identity and age of an object."""

    name: str
    uid: str
    created_at: datetime | None
    deleted_at: datetime | None


def identity(obj: JsonObject) -> Identity:
    """Name, UID, creation and the beginning of its deletion."""
    metadata = mapping(obj.get("metadata"))
    return Identity(
        name=name_of(obj),
        uid=str(metadata.get("uid") or ""),
        created_at=moment(metadata.get("creationTimestamp")),
        deleted_at=moment(metadata.get("deletionTimestamp")),
    )


def labels_of(obj: JsonObject) -> dict[str, str]:
    """The object's own labels."""
    return _texts(mapping(obj.get("metadata")).get("labels"))


def annotations_of(obj: JsonObject) -> dict[str, str]:
    """The object's own annotations that decisions can read, those of Karpenter's domains and ours.

    Others are dropped here, at the edge: what `kubectl apply` leaves repeats user data and environment values, and would enter
    the ledger.
    """
    texts = _texts(mapping(obj.get("metadata")).get("annotations"))
    return {key: value for key, value in texts.items() if _is_read(key)}


_READ_DOMAINS: Final = ("karpenter.sh", "karpenter.k8s.aws", "fleetwright.dev")


def _is_read(key: str) -> bool:
    domain = key.partition("/")[0]
    return any(domain == read_domain or domain.endswith(f".{read_domain}") for read_domain in _READ_DOMAINS)


def conditions(obj: JsonObject) -> dict[str, Condition]:
    """`status.conditions` by type."""
    entries = sequence(mapping(obj.get("status")).get("conditions"))
    return {
        str(entry["type"]): Condition(
            status=str(entry.get("status", "Unknown")),
            reason=str(entry.get("reason", "")),
            message=str(entry.get("message", "")),
            changed_at=moment(entry.get("lastTransitionTime")),
        )
        for entry in entries
        if isinstance(entry, dict) and "type" in entry
    }


def is_ready(obj: JsonObject) -> bool | None:
    """Whether condition Ready is True; None where it is not set. Unknown counts as not ready: nothing is launched for it."""
    ready = conditions(obj).get(READY)
    return None if ready is None else ready.status == "True"


def readiness(obj: JsonObject) -> bool | None:
    """Return the value of condition Ready; None if it is not set or Unknown, so that both can be shown as such."""
    ready = conditions(obj).get(READY)
    return None if ready is None or ready.status == "Unknown" else ready.status == "True"


def is_stale(obj: JsonObject) -> bool:
    """Whether Ready, and the status beside it, describe an older generation of the object."""
    entries = sequence(mapping(obj.get("status")).get("conditions"))
    seen = next((c.get("observedGeneration") for c in entries if isinstance(c, dict) and c.get("type") == READY), None)
    return isinstance(seen, int) and seen < generation_of(obj)


def identified(value: object) -> list[JsonObject]:
    """Return the entries of a list of resolved objects that have an id."""
    return [entry for entry in sequence(value) if isinstance(entry, dict) and entry.get("id")]


def moment(value: object) -> datetime | None:
    """Parse an RFC 3339 time to UTC; None if the value is not one."""
    if not isinstance(value, str) or not value:
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return in_calendar(at.replace(tzinfo=UTC) if at.tzinfo is None else at).astimezone(UTC)


def _texts(value: object) -> dict[str, str]:
    return {str(key): str(text) for key, text in mapping(value).items()}


# Lists the fields that a converted object states and that its older form left to the defaults of its version.


_OLD_FIELDS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "NodePool": {
        "spec.template.spec.expireAfter": ("disruption.expireAfter",),
        "spec.disruption.consolidationPolicy": ("disruption.consolidationPolicy",),
        "spec.disruption.consolidateAfter": ("disruption.consolidateAfter",),
    },
    "Provisioner": {
        "spec.template.spec.expireAfter": ("ttlSecondsUntilExpired",),
        "spec.disruption.consolidationPolicy": ("consolidation", "ttlSecondsAfterEmpty"),
        "spec.disruption.consolidateAfter": ("ttlSecondsAfterEmpty",),
    },
    "EC2NodeClass": {"spec.amiSelectorTerms": ("amiSelectorTerms",), "spec.amiFamily": ("amiFamily",)},
    "AWSNodeTemplate": {"spec.amiSelectorTerms": ("amiSelector",), "spec.amiFamily": ("amiFamily",)},
}
"""Kind → field in v1 → the older fields beneath `spec`. Any one of them decides."""


def written_defaults(old: JsonObject, new: JsonObject) -> list[str]:
    """Return `field: value` of each field of the v1 object that its older form did not state."""
    fields = _OLD_FIELDS.get(kind_of(old), {})
    spec = mapping(old.get("spec"))
    unstated = [field for field, sources in fields.items() if not any(_at(spec, source) for source in sources)]
    defaults = [(field, _at(new, field)) for field in unstated]
    shown = [f"{field}: {_text(value)}" for field, value in defaults if value is not None]
    return [*shown, *_requirements(old, new), *_metadata_options(spec, new)]


def _requirements(old: JsonObject, new: JsonObject) -> Iterator[str]:
    """Return the requirements that a Provisioner's webhook added; conversion appends them to the Provisioner's own."""
    if kind_of(old) != "Provisioner":
        return
    old_spec = mapping(old.get("spec"))
    position = sum(isinstance(entry, dict) for entry in sequence(old_spec.get("requirements")))
    for entry in sequence(_at(new, "spec.template.spec.requirements"))[position:]:
        yield f"spec.template.spec.requirements: {entry['key']} {entry['operator']} {_text(entry['values'])}"


def _metadata_options(old_spec: JsonObject, new: JsonObject) -> Iterator[str]:
    stated = mapping(old_spec.get("metadataOptions"))
    for name, value in mapping(_at(new, "spec.metadataOptions")).items():
        if name not in stated:
            yield f"spec.metadataOptions.{name}: {value}"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(entry)}" for key, entry in value.items())
    return f"[{', '.join(map(_text, value))}]" if isinstance(value, list) else str(value)


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
