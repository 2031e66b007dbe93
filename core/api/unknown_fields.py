"""Finds fields of Karpenter's objects that this version does not know: the models say which ones it does, as for the CRDs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from core import labels
from core.api.objects import JsonObject, group_and_version, kind_of, mapping
from core.api.schemas.calendar import CalendarObject
from core.api.schemas.ec2_node_class import EC2NodeClassObject
from core.api.schemas.fields import ApiModel, parts
from core.api.schemas.node_pool import NodeClaimObject, NodeOverlayObject, NodePoolObject
from core.api.status import Location, path_of

_MODELS: Final[dict[tuple[str, str, str], type[ApiModel]]] = {
    (labels.CORE_GROUP, "v1", "NodePool"): NodePoolObject,
    (labels.CORE_GROUP, "v1", "NodeClaim"): NodeClaimObject,
    (labels.CORE_GROUP, "v1alpha1", "NodeOverlay"): NodeOverlayObject,
    (labels.AWS_GROUP, "v1", "EC2NodeClass"): EC2NodeClassObject,
    (labels.OWN_GROUP, "v1alpha1", "Calendar"): CalendarObject,
}


def unknown_fields(obj: JsonObject) -> tuple[str, ...]:
    """Return the paths of the unknown fields in an object's spec, sorted; none for other kinds and older versions."""
    spec = _spec_model(obj)
    return tuple(sorted(map(path_of, unknown_in(obj.get("spec"), spec, ("spec",))))) if spec is not None else ()


def without_unknown_fields(obj: JsonObject) -> JsonObject:
    """Return an object with only the known fields of its spec, as an API server stores it; other kinds unchanged."""
    spec = _spec_model(obj)
    return {**obj, "spec": _known_part(obj["spec"], spec)} if spec is not None and "spec" in obj else obj


def _spec_model(obj: JsonObject) -> type[ApiModel] | None:
    model = _MODELS.get((*group_and_version(obj), kind_of(obj)))
    return dict(parts(model)).get("spec") if model is not None else None


def _known_part(value: Any, model: type[ApiModel]) -> Any:
    if not isinstance(value, dict) or model.model_config.get("extra") == "forbid":
        return value
    known = _names(model)
    kept = {key: inner for key, inner in value.items() if key in known}
    for name, part in parts(model):
        inner = kept.get(name)
        if inner is not None:
            is_list = isinstance(inner, list)
            kept[name] = [_known_part(item, part) for item in inner] if is_list else _known_part(inner, part)
    return kept


def _names(model: type[ApiModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def not_ignored(obj: JsonObject) -> tuple[str, ...]:
    """Return the unknown fields that the object's annotation `labels.IGNORED_FIELDS` does not name."""
    unknown = unknown_fields(obj)
    if not unknown:
        return ()
    written = mapping(mapping(obj.get("metadata")).get("annotations")).get(labels.IGNORED_FIELDS)
    ignored = {name.strip() for name in written.split(",")} if isinstance(written, str) else set()
    return tuple(name for name in unknown if name not in ignored)


def unknown_in(value: object, model: type[ApiModel], at: Location) -> Iterator[Location]:
    """Yield the place of each field of a value that its model does not have; the kubelet's fields have a check of their own."""
    if not isinstance(value, dict) or model.model_config.get("extra") == "forbid":
        return
    known = _names(model)
    yield from ((*at, key) for key in value if key not in known)
    for name, part in parts(model):
        inner = value.get(name)
        items = enumerate(inner) if isinstance(inner, list) else [(None, inner)]
        for index, item in items:
            yield from unknown_in(item, part, (*at, name) if index is None else (*at, name, index))
