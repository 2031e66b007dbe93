"""Which API versions of a kind can be read: an object of another would be read as something that it is not."""

from __future__ import annotations

import re
from typing import Final

from core.api.objects import JsonObject, group_and_version, is_ours, kind_of
from core.api.older_versions import OLD_VERSIONS
from core.manifests.wire.resources import ALL

_EXTENSIONS: Final = "extensions"
"""The group in which the kinds of `apps` began."""
_CORE: Final = ""
_PRERELEASE: Final = re.compile(r"v[12](alpha|beta)\d+")
"""Kubernetes served its own kinds under such versions first; what we read of them has not changed since."""
_GROUPS: Final = frozenset({resource.group for resource in ALL} | {_EXTENSIONS})
_CURRENT: Final = {resource.kind: (resource.group, resource.version) for resource in ALL}


def refused_version(obj: JsonObject) -> str:
    """Return why the `apiVersion` of an object is refused; empty if the object is read or skipped.

    A version that a kind does not have is refused with those that it has, and a kind that Karpenter's groups do not have. Kinds
    of other groups are not refused, whatever they are called: Knative has a Service, too.
    """
    kind, (group, version) = kind_of(obj), group_and_version(obj)
    read = read_versions(kind)
    given = f"{group}/{version}" if group else version
    if not read and kind and is_ours(obj):
        return f"{given} has no kind {kind}"
    if not read or given in read or group not in _GROUPS:
        return ""
    if kind in _CURRENT and _is_prerelease(group, version, _CURRENT[kind][0]):
        return ""
    problem = f"{given} has no {kind}" if given else "is missing"
    return f"{problem}; allowed: {', '.join(read)}"


def read_versions(kind: str) -> tuple[str, ...]:
    """Return the values of `apiVersion` under which a kind is read, the current one first; empty for other kinds."""
    older = tuple(f"{group}/{version}" for group, version, old in OLD_VERSIONS if old == kind)
    if kind not in _CURRENT:
        return older
    group, version = _CURRENT[kind]
    return (f"{group}/{version}" if group else version, *older)


def _is_prerelease(group: str, version: str, own_group: str) -> bool:
    """Whether Kubernetes may have served the kind under this version; Karpenter's older versions are listed one by one."""
    is_own = group == own_group or (group == _EXTENSIONS and own_group == "apps")
    is_kubernetes = group != _CORE and not group.startswith("karpenter.")
    return is_own and is_kubernetes and _PRERELEASE.fullmatch(version) is not None
