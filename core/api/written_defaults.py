"""Lists the fields that a converted object states and that its older form left to the defaults of its version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from core.api.objects import JsonObject, kind_of, mapping, sequence

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
"""Kind → field in v1 → the fields of the older form, beneath `spec`, any of which decides it."""


def written_defaults(old: JsonObject, new: JsonObject) -> list[str]:
    """Return `field: value` of each field of the v1 object that its older form did not state."""
    fields = _OLD_FIELDS.get(kind_of(old), {})
    spec = mapping(old.get("spec"))
    unstated = [field for field, sources in fields.items() if not any(_at(spec, source) for source in sources)]
    found = [(field, _at(new, field)) for field in unstated]
    shown = [f"{field}: {_text(value)}" for field, value in found if value is not None]
    return [*shown, *_requirements(old, new), *_metadata_options(spec, new)]


def _requirements(old: JsonObject, new: JsonObject) -> Iterator[str]:
    """Return the requirements that a Provisioner's webhook added; conversion appends them to the Provisioner's own."""
    if kind_of(old) != "Provisioner":
        return
    old_spec = mapping(old.get("spec"))
    own = sum(isinstance(entry, dict) for entry in sequence(old_spec.get("requirements")))
    for entry in sequence(_at(new, "spec.template.spec.requirements"))[own:]:
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
