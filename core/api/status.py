"""Reads the metadata and status of our objects. The API server and controllers write them, so invalid values are ignored."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypedDict

from core.api.objects import JsonObject, generation_of, mapping, name_of, sequence
from core.model.node_claim import READY, Condition


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
    """The object's own annotations."""
    return _texts(mapping(obj.get("metadata")).get("annotations"))


def conditions(obj: JsonObject) -> dict[str, Condition]:
    """`status.conditions` by type."""
    found = sequence(mapping(obj.get("status")).get("conditions"))
    return {
        str(entry["type"]): Condition(
            status=str(entry.get("status", "Unknown")),
            reason=str(entry.get("reason", "")),
            message=str(entry.get("message", "")),
            changed_at=moment(entry.get("lastTransitionTime")),
        )
        for entry in found
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
    found = sequence(mapping(obj.get("status")).get("conditions"))
    seen = next((c.get("observedGeneration") for c in found if isinstance(c, dict) and c.get("type") == READY), None)
    return isinstance(seen, int) and seen < generation_of(obj)


def identified(value: object) -> list[JsonObject]:
    """Return the entries of a list of resolved objects that have an id."""
    return [entry for entry in sequence(value) if isinstance(entry, dict) and entry.get("id")]


def moment(value: object) -> datetime | None:
    """Parse an RFC 3339 time to UTC; None if the value is not one."""
    if not isinstance(value, str) or not value:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _texts(value: object) -> dict[str, str]:
    return {str(key): str(text) for key, text in mapping(value).items()}
