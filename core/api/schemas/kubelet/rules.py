"""`spec.kubelet` of an EC2NodeClass: what the kubelet takes, and what each AMI family can pass on to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from core.ami_families.family import AmiFamily
from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import Rule
from core.api.schemas.kubelet.fields import KubeletFields
from core.catalogue.kubelet import RESERVABLE
from core.errors import InvalidInputError
from core.model.values import quantity
from core.model.values.duration import parse_duration

EVICTION_SIGNALS: Final = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)

_UNIVERSAL: Final = (
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
)
"""The fields that every family can pass on."""

_EVICTION_MAPS: Final = ("evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim")
_THRESHOLDS: Final = ("evictionHard", "evictionSoft", "evictionMinimumReclaim")
_RESERVED_MAPS: Final = ("kubeReserved", "systemReserved")
_COUNTS: Final = ("maxPods", "podsPerCore", "evictionMaxPodGracePeriod")
_PERCENTS: Final = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent")
_PERCENTAGE: Final = re.compile(r"[+]?([0-9]+\.?[0-9]*|\.[0-9]+)%\Z")


def unsupported(kubelet: JsonObject, family: AmiFamily) -> Iterator[Location]:
    """Return the fields that the family's bootstrapping cannot pass on."""
    if family.takes_any_kubelet_field:
        return
    for name, value in kubelet.items():
        has_one_server = name != "clusterDNS" or len(value) <= 1
        if name not in _UNIVERSAL or not has_one_server or not family.supports_kubelet_field(name):
            yield (name,)


def _set_by_us(kubelet: JsonObject) -> list[Location]:
    return [("registerWithTaints",)] if "registerWithTaints" in kubelet else []


def _unknown_signals(kubelet: JsonObject) -> Iterator[Location]:
    return ((field, key) for field, key, _ in _entries(kubelet, _EVICTION_MAPS) if key not in EVICTION_SIGNALS)


def _bad_thresholds(kubelet: JsonObject) -> Iterator[Location]:
    return ((field, key) for field, key, value in _entries(kubelet, _THRESHOLDS) if not _is_threshold(value))


def _bad_grace_periods(kubelet: JsonObject) -> Iterator[Location]:
    for field, key, value in _entries(kubelet, ("evictionSoftGracePeriod",)):
        span = parse_duration(value)
        if span is None or span.total_seconds() < 0:
            yield (field, key)


def _soft_without_partner(kubelet: JsonObject) -> Iterator[Location]:
    pair = ("evictionSoft", "evictionSoftGracePeriod")
    for field, other in (pair, pair[::-1]):
        yield from ((field, key) for key in kubelet.get(field, {}) if key not in kubelet.get(other, {}))


def _not_reservable(kubelet: JsonObject) -> Iterator[Location]:
    return ((field, key) for field, key, _ in _entries(kubelet, _RESERVED_MAPS) if key not in RESERVABLE)


def _negative_reserve(kubelet: JsonObject) -> Iterator[Location]:
    return ((field, key) for field, key, value in _entries(kubelet, _RESERVED_MAPS) if value.startswith("-"))


def _negative_counts(kubelet: JsonObject) -> Iterator[Location]:
    return ((name,) for name in _COUNTS if isinstance(kubelet.get(name), int) and kubelet[name] < 0)


def _beyond_percent(kubelet: JsonObject) -> Iterator[Location]:
    return ((name,) for name in _PERCENTS if not 0 <= kubelet.get(name, 0) <= 100)


def _high_not_above_low(kubelet: JsonObject) -> list[Location]:
    high, low = (kubelet.get(name) for name in _PERCENTS)
    return [(_PERCENTS[0],)] if high is not None and low is not None and high <= low else []


def _entries(kubelet: JsonObject, names: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    return ((name, key, value) for name in names for key, value in kubelet.get(name, {}).items())


def _is_threshold(text: str) -> bool:
    if text.endswith("%"):
        return _PERCENTAGE.match(text) is not None and float(text[:-1]) <= 100
    try:
        return quantity.parse(text) >= 0 and not text.startswith("-") and text == text.strip()
    except InvalidInputError:
        return False


_CEL_IS_PERCENTAGE: Final = (
    "{0}.matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)%$') && double({0}.substring(0, {0}.size() - 1)) <= 100.0"
)
_CEL_IS_THRESHOLD: Final = (
    f"({{0}}.endsWith('%') ? ({_CEL_IS_PERCENTAGE}) : (isQuantity({{0}}) && !{{0}}.startsWith('-')))"
)


def _cel_all(names: Iterable[str], holds: str) -> str:
    """For the API server: `holds` of every `key` (and `{0}`, its value) of every one of the maps."""
    return " && ".join(
        f"(!has(self.{name}) || self.{name}.all(key, {holds.format(f'self.{name}[key]')}))" for name in names
    )


def _cel_same_keys(one: str, other: str) -> str:
    within = "(!has(self.{0}) || self.{0}.all(key, has(self.{1}) && key in self.{1}))"
    return f"{within.format(one, other)} && {within.format(other, one)}"


def cel_supported(takes_any_field: str, lacks: Mapping[str, str]) -> str:
    """The opposite of `unsupported` for the API server.

    Args:
        takes_any_field: An expression over the class' `self`: whether its family passes on every field.
        lacks: Field that most families know → an expression: whether the family does not.
    """
    others = sorted(
        field.alias or name
        for name, field in KubeletFields.model_fields.items()
        if field.alias not in (*_UNIVERSAL, "registerWithTaints")
    )
    none = [f"!has(self.kubelet.{name})" for name in others]
    one_server = "(!has(self.kubelet.clusterDNS) || self.kubelet.clusterDNS.size() <= 1)"
    known = [f"(!{is_lacking} || !has(self.kubelet.{field}))" for field, is_lacking in lacks.items()]
    return f"!has(self.kubelet) || {takes_any_field} || ({' && '.join([one_server, *known, *none])})"


class KubeletConfiguration(KubeletFields):
    """`spec.kubelet`. Counts and reservations may be expressions, which are checked where they are evaluated."""

    rules = (
        Rule(
            (),
            _set_by_us,
            "is set by the provisioner from the NodePool's taints",
            "!has(self.registerWithTaints)",
            "registerWithTaints",
        ),
        Rule(
            _EVICTION_MAPS,
            _unknown_signals,
            f"is no eviction signal; there are {', '.join(EVICTION_SIGNALS)}",
            _cel_all(_EVICTION_MAPS, f"key in {list(EVICTION_SIGNALS)}"),
        ),
        Rule(
            _THRESHOLDS,
            _bad_thresholds,
            "must be a percentage up to 100% or a quantity of zero or more",
            _cel_all(_THRESHOLDS, _CEL_IS_THRESHOLD),
        ),
        Rule(
            ("evictionSoftGracePeriod",),
            _bad_grace_periods,
            "must be a duration of zero or more such as 90s",
            _cel_all(("evictionSoftGracePeriod",), "duration({0}) >= duration('0s')"),
        ),
        Rule(
            _EVICTION_MAPS,
            _soft_without_partner,
            "evictionSoft and evictionSoftGracePeriod must have the same keys",
            _cel_same_keys("evictionSoft", "evictionSoftGracePeriod"),
        ),
        Rule(
            _RESERVED_MAPS,
            _not_reservable,
            f"cannot be reserved; {', '.join(RESERVABLE)} can",
            _cel_all(_RESERVED_MAPS, f"key in {list(RESERVABLE)}"),
        ),
        Rule(
            _RESERVED_MAPS,
            _negative_reserve,
            "must not be negative",
            _cel_all(_RESERVED_MAPS, "!{0}.startsWith('-')"),
        ),
        Rule(
            _COUNTS,
            _negative_counts,
            "must not be negative",
            "(!has(self.maxPods) || type(self.maxPods) != int || self.maxPods >= 0)"
            " && (!has(self.podsPerCore) || self.podsPerCore >= 0)"
            " && (!has(self.evictionMaxPodGracePeriod) || self.evictionMaxPodGracePeriod >= 0)",
        ),
        Rule(
            _PERCENTS,
            _beyond_percent,
            "must be a percentage from 0 to 100",
            " && ".join(f"(!has(self.{name}) || (self.{name} >= 0 && self.{name} <= 100))" for name in _PERCENTS),
        ),
        Rule(
            _PERCENTS,
            _high_not_above_low,
            "must be greater than imageGCLowThresholdPercent",
            f"!has(self.{_PERCENTS[0]}) || !has(self.{_PERCENTS[1]}) || self.{_PERCENTS[0]} > self.{_PERCENTS[1]}",
        ),
    )
