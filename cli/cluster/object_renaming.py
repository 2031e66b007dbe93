"""Replaces the names of a user's objects inside one object; the market that a decision reads stays unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from cli.cluster.named_fields import (
    ACCOUNT,
    ACCOUNTS,
    ADDRESS,
    AMOUNT,
    ANY_ADDRESS,
    DRIVERS,
    GROUPS,
    HEADERS,
    KEY_LISTS,
    KEYED,
    KUBELET,
    LABEL_MAPS,
    LEFT_OUT,
    NAMES,
    NAMESPACES,
    PROVISIONED_BY,
    QUANTITIES,
    RENAMED_ANNOTATIONS,
    SELECTOR,
    SOURCES,
)
from cli.cluster.public_names import (
    has_public_text,
    has_public_values,
    is_public_driver,
    is_public_group,
    is_public_key,
    is_public_resource,
    is_public_text,
)
from core import labels
from core.api.objects import JsonObject, mapping, sequence
from core.catalogue.discovered.address_reading import read_reading
from core.catalogue.discovered.node_memory import with_renamed_images
from core.catalogue.discovered.upcoming_reservations import read_upcoming
from core.catalogue.node_class import AddressReading
from core.manifests.wire.buffer import ACTIVE_CAPACITY

Rename = Callable[[str], str]
"""Name → its replacement."""


def _images(node_class: JsonObject) -> list[str]:
    return [str(image.get("id", "")) for image in sequence(mapping(node_class.get("status")).get("amis"))]


def _read(text: str) -> JsonObject | None:
    """Return the JSON object in an annotation, None if it has none: users may write anything there."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _is_amounts(found: JsonObject) -> bool:
    """Whether a map has amounts of resources, as in the status of a NodePool, and not requests and limits."""
    return all(isinstance(value, str | int) for value in found.values())


class ObjectRenaming:
    """Walks through an object and replaces names of the user's objects."""

    def __init__(self, namespace: Rename, name: Rename) -> None:
        self._namespace = namespace
        self._name = name

    def object(self, obj: JsonObject) -> JsonObject:
        """Return the object with renamed names."""
        if obj.get("kind") == "Namespace":
            own = {key: value for key, value in obj["metadata"].items() if key != "name"}
            named = {"name": self._namespace(obj["metadata"]["name"])}
            return {**self._mapping(obj), "metadata": named | self._mapping(own)}
        renamed = self._mapping(obj)
        memory = mapping(obj["metadata"].get("annotations")).get(labels.NODE_MEMORY)
        if memory is not None and (kept := with_renamed_images(memory, _images(obj), _images(renamed))) is not None:
            renamed["metadata"]["annotations"][labels.NODE_MEMORY] = kept
        return renamed

    def _mapping(self, value: JsonObject) -> JsonObject:
        return dict(self._fields(value))

    def _fields(self, value: JsonObject) -> Iterator[tuple[str, Any]]:
        for key, inner in value.items():
            if key in LEFT_OUT:
                continue
            yield key, self._field(value, key, inner)

    def _field(self, parent: JsonObject, key: str, inner: Any) -> Any:
        if isinstance(inner, str):
            return self._text(parent, key, inner)
        if isinstance(inner, list):
            return self._list(parent, key, inner)
        return self._map(key, inner) if isinstance(inner, dict) else inner

    def _map(self, key: str, inner: JsonObject) -> JsonObject:
        is_flat = not any(isinstance(value, dict) for value in inner.values())
        if key in SOURCES:
            return {"path": "left-out"}
        if key == KUBELET:
            return {own: self._setting(inner, own, value) for own, value in inner.items()}
        if key in LABEL_MAPS or (key == SELECTOR and all(isinstance(value, str) for value in inner.values())):
            return {self._key(own): self._tag(own, text) for own, text in inner.items()}
        if (key in QUANTITIES and is_flat) or (key == "resources" and _is_amounts(inner)):
            return {self._resource(own): amount for own, amount in inner.items()}
        if key == "annotations":
            texts = ((own, self._annotation(own, text)) for own, text in inner.items())
            return {own: text for own, text in texts if text is not None}
        return self._mapping(inner)

    def _setting(self, parent: JsonObject, key: str, value: Any) -> Any:
        """Return a setting of the kubelet, of whose texts only amounts are shown."""
        if key == HEADERS:
            return {}
        if isinstance(value, dict):
            return {self._setting_key(own): self._setting(value, own, inner) for own, inner in value.items()}
        if isinstance(value, list):
            return (
                self._list(parent, key, value) if key == "clusterDNS" else [self._setting({}, "", one) for one in value]
            )
        if not isinstance(value, str) or AMOUNT.fullmatch(value):
            return value
        return self._text(parent, key, value) if key in ("apiVersion", "kind") else self._any(value)

    def _setting_key(self, key: str) -> str:
        return self._key(key) if "/" in key else key

    def _text(self, parent: JsonObject, key: str, text: str) -> str:
        if key == "namespace" and text:
            return self._namespace(text)
        if key in KEYED:
            return self._key(text)
        if key == "value" and "key" in parent:
            return self._value(str(parent["key"]), text)
        if key in GROUPS:
            return text if is_public_group(text) else self._any(text)
        if key in ACCOUNTS:
            return self._account(text)
        if key in DRIVERS:
            return self._driver(text)
        if key == "provisioningStrategy":
            return text if text == ACTIVE_CAPACITY else self._any(text)
        if key in ("kind", "type", "reason"):
            return self._word(parent, key, text)
        if key == "hostIP":
            return text if text in ANY_ADDRESS else self._any(text)
        return self._any(text) if key in NAMES or key == "providerID" else text

    def _word(self, parent: JsonObject, key: str, text: str) -> str:
        """Return a kind, or a condition's type or reason; a pseudonym if its group or type is the user's own."""
        if key == "kind":
            group = next((str(parent[name]) for name in GROUPS if name in parent), "")
            return text if is_public_group(group) else self._any(text)
        own = str(parent.get("type", ""))
        return self._any(text) if "status" in parent and "/" in own and not is_public_key(own) else text

    def _list(self, parent: JsonObject, key: str, inner: list[Any]) -> list[Any]:
        if key == NAMESPACES:
            return [self._namespace(text) for text in inner]
        if key in KEY_LISTS or key == "finalizers":
            return [self._key(text) for text in inner]
        if key == "values":
            return [self._value(str(parent.get("key", "")), text) for text in inner]
        if key == "drivers":
            return [{**driver, "name": self._driver(driver["name"])} for driver in inner]
        if key == "clusterDNS":
            return [ADDRESS for _ in inner]
        return [self._mapping(found) if isinstance(found, dict) else found for found in inner]

    def _key(self, key: str) -> str:
        return key if is_public_key(key) else self._any(key)

    def _value(self, key: str, text: str) -> str:
        if has_public_values(key):
            return text
        if key == "kubernetes.io/metadata.name":
            return self._namespace(text)
        return self._any(text)

    def _tag(self, key: str, text: str) -> str:
        """Return the value of a label or tag, with a pseudonym for long numbers too: no decision compares these."""
        return self._account(text) if ACCOUNT.fullmatch(text) else self._value(key, text)

    def _account(self, text: str) -> str:
        return self._name(text) if ACCOUNT.fullmatch(text) else text

    def _annotation(self, key: str, text: str) -> str | None:
        if key in RENAMED_ANNOTATIONS:
            return self._name(text)
        if key == PROVISIONED_BY:
            return self._driver(text)
        if key == labels.RESERVATION_PLACES:
            places = _read(text)
            return None if places is None else json.dumps({self._any(own): count for own, count in places.items()})
        if key == labels.UPCOMING_RESERVATIONS:
            upcoming = read_upcoming(text)
            return (
                None if upcoming is None else json.dumps([self._mapping(msgspec.to_builtins(one)) for one in upcoming])
            )
        if key == labels.SUBNET_ADDRESSES:
            reading = read_reading(text)
            return None if reading is None else self._addresses(reading)
        if key == labels.PLACEMENT_GROUP:
            group = _read(text)
            return None if group is None else json.dumps(self._mapping(group))
        return text if has_public_text(key) else None

    def _addresses(self, reading: AddressReading) -> str:
        free = {self._any(subnet): count for subnet, count in reading.free.items()}
        return msgspec.json.encode(msgspec.structs.replace(reading, free=free)).decode()

    def _driver(self, driver: str) -> str:
        return driver if is_public_driver(driver) else self._any(driver)

    def _resource(self, resource: str) -> str:
        return resource if is_public_resource(resource) else self._any(resource)

    def _any(self, text: str) -> str:
        return text if is_public_text(text) else self._name(text)
