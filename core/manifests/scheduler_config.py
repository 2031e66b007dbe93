"""Reads the cluster's default topology spread constraints and its scoring strategy from the scheduler's configuration.

It accepts Karpenter's form (`podTopologySpread.defaultConstraints`), EKS's (`nodeResourcesFit.scoringStrategy`),
kube-scheduler's KubeSchedulerConfiguration, and the PodTopologySpreadArgs in it, so that users can pass the file that they
have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from core.errors import InvalidInputError
from core.manifests.pods import topology_spread
from core.manifests.wire.decoding import explained
from core.manifests.wire.pod import TopologySpreadConstraint
from core.model.pod import DEFAULT_SCHEDULER, TopologySpread
from core.model.snapshot import LEAST_ALLOCATED, MOST_ALLOCATED
from core.pods import SYSTEM_SPREADS

_SUBJECT: Final = "scheduler configuration"
_KNOWN: Final = frozenset(field.encode_name for field in msgspec.structs.fields(TopologySpreadConstraint))
_DEDUCED: Final = ("labelSelector", "matchLabelKeys")


def default_spreads(document: object) -> tuple[TopologySpread, ...]:
    """Return the constraints for pods without their own.

    Raises:
        InvalidInputError: If the document is none of the three, or kube-scheduler would reject a constraint.
    """
    try:
        return _spreads(document)
    except InvalidInputError as error:
        raise error.within(subject=_SUBJECT) from error


def scoring(document: object) -> str:
    """Return the scoring strategy of NodeResourcesFit: LeastAllocated unless MostAllocated is configured.

    Raises:
        InvalidInputError: If it is none that EKS knows.
    """
    try:
        return _scoring(document)
    except InvalidInputError as error:
        raise error.within(subject=_SUBJECT) from error


def _scoring(document: object) -> str:
    configuration = _mapping(document, "")
    where, arguments = "nodeResourcesFit", _mapping(configuration.get("nodeResourcesFit") or {}, "nodeResourcesFit")
    if configuration.get("kind") == "KubeSchedulerConfiguration":
        where, arguments = _plugin(configuration, "NodeResourcesFit")
    strategy = _mapping(arguments.get("scoringStrategy") or {}, f"{where}.scoringStrategy").get("type", LEAST_ALLOCATED)
    if strategy not in (LEAST_ALLOCATED, MOST_ALLOCATED):
        problem = f"is {strategy}: {LEAST_ALLOCATED} and {MOST_ALLOCATED} are known"
        raise InvalidInputError(problem, field=f"{where}.scoringStrategy.type")
    return str(strategy)


def _spreads(document: object) -> tuple[TopologySpread, ...]:
    parsed = _mapping(document, "")
    kind = parsed.get("kind")
    if kind == "KubeSchedulerConfiguration":
        return _of_profiles(parsed)
    if kind == "PodTopologySpreadArgs":
        return _of_arguments(parsed, "")
    if kind is not None or set(parsed) - {"podTopologySpread", "nodeResourcesFit"}:
        other = ", ".join(sorted(set(parsed) - {"podTopologySpread", "nodeResourcesFit"}))
        problem = f"has {other}: give podTopologySpread.defaultConstraints, or a KubeSchedulerConfiguration"
        raise InvalidInputError(problem)
    plugin = _mapping(parsed.get("podTopologySpread") or {}, "podTopologySpread")
    if set(plugin) - {"defaultConstraints"}:
        raise InvalidInputError("knows defaultConstraints only", field="podTopologySpread")
    return _constraints(plugin.get("defaultConstraints"), "podTopologySpread.defaultConstraints")


def _of_profiles(configuration: Mapping[str, Any]) -> tuple[TopologySpread, ...]:
    """Return the constraints of the default profile."""
    where, arguments = _plugin(configuration, "PodTopologySpread")
    return _of_arguments(arguments, f"{where}.") if arguments else SYSTEM_SPREADS


def _plugin(configuration: Mapping[str, Any], name: str) -> tuple[str, Mapping[str, Any]]:
    """Return the place and the arguments of a plugin in the default profile."""
    profiles = _sequence(configuration.get("profiles"), "profiles") or [{}]
    read = [_mapping(profile, f"profiles[{i}]") for i, profile in enumerate(profiles)]
    names = [profile.get("schedulerName", DEFAULT_SCHEDULER) for profile in read]
    chosen = names.index(DEFAULT_SCHEDULER) if DEFAULT_SCHEDULER in names else 0
    where = f"profiles[{chosen}].pluginConfig"
    for i, entry in enumerate(_sequence(read[chosen].get("pluginConfig"), where)):
        plugin = _mapping(entry, f"{where}[{i}]")
        if plugin.get("name") == name:
            return f"{where}[{i}].args", _mapping(plugin.get("args") or {}, f"{where}[{i}].args")
    return where, {}


def _of_arguments(arguments: Mapping[str, Any], prefix: str) -> tuple[TopologySpread, ...]:
    defaults, field = arguments.get("defaultConstraints"), f"{prefix}defaultConstraints"
    if arguments.get("defaultingType", "System") == "List":
        return _constraints(defaults, field)
    if defaults:
        raise InvalidInputError(
            "needs `defaultingType: List` beside it (kube-scheduler refuses it otherwise)", field=field
        )
    return SYSTEM_SPREADS


def _constraints(written: object, field: str) -> tuple[TopologySpread, ...]:
    constraints: list[TopologySpread] = []
    for i, entry in enumerate(_sequence(written, field)):
        spread = _constraint(_mapping(entry, f"{field}[{i}]"), f"{field}[{i}]")
        for j, other in enumerate(constraints):
            if (spread.topology_key, spread.when_unsatisfiable) == (other.topology_key, other.when_unsatisfiable):
                raise InvalidInputError(f"repeats topologyKey and whenUnsatisfiable of [{j}]", field=f"{field}[{i}]")
        constraints.append(spread)
    return tuple(constraints)


def _constraint(entry: Mapping[str, Any], field: str) -> TopologySpread:
    for key in sorted(entry):
        if key in _DEDUCED:
            raise InvalidInputError("must be left out: it is deduced for each pod", field=f"{field}.{key}")
        if key not in _KNOWN:
            raise InvalidInputError("is not a field of a constraint", field=f"{field}.{key}")
    for key in ("maxSkew", "topologyKey", "whenUnsatisfiable"):
        if entry.get(key) in (None, ""):
            raise InvalidInputError("is missing", field=f"{field}.{key}")
    try:
        written = msgspec.convert(entry, TopologySpreadConstraint)
    except msgspec.ValidationError as error:
        problem, place = explained(str(error))
        raise InvalidInputError(problem, field=f"{field}.{place}") from error
    return topology_spread(written, field=field)


def _mapping(value: object, field: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInputError("is not an object", field=field)
    return value


def _sequence(value: object, field: str) -> Sequence[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInputError("is not a list", field=field)
    return value
