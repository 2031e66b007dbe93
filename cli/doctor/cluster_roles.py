"""Checks that each function's group has the permissions in the cluster that the deployed settings need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from cli.doctor.account import Account
from cli.doctor.cluster_api import BINDINGS, ROLES
from cli.doctor.finding import OK, PROBLEM, AccountFinding
from core.api.objects import mapping, sequence
from core.manifests.wire.api_resources import Resource
from installation.cluster_roles import manifests, verbs

VERBS_MAX: Final = 3
"""The most missing permissions of a function that a line names."""

FLAGS: Final[Mapping[str, tuple[str, str]]] = {
    "approval": ("MODE", "approve"),
    "shadow": ("MODE", "shadow"),
    "steering": ("STEER_SCALE_IN", "true"),
    "surge": ("SURGE_RESTARTS", "true"),
}
"""Argument of `manifests` → the environment variable and the value that ask for it."""

_OPTIONS: Final[Mapping[str, str]] = {
    "approval": "--approve",
    "shadow": "--shadow",
    "steering": "--steer",
    "surge": "--surge",
}
"""Argument of `manifests` → the option of `infra.cluster_role`."""

_MAY_BE_REMOVED: Final[Mapping[tuple[str, str, str], str]] = {
    ("", "pods/binding", "create"): "BIND_PODS",
    ("", "pods/status", "patch"): "NOMINATE_PODS",
}
"""Permission → the setting without which it is not used."""

RESOURCES: Final[Mapping[str, Resource]] = {ROLES.kind: ROLES, BINDINGS.kind: BINDINGS}

Manifest = Mapping[str, Any]

Permission = tuple[str, str, str]
"""API group, resource and verb."""


def cluster_roles(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether each function's ClusterRole and binding are there, with every rule that the settings need."""
    environment = account.settings() if account.is_deployed() else {}
    flags = {flag: environment.get(key, "").lower() == value for flag, (key, value) in FLAGS.items()}
    not_needed = {rule for rule, key in _MAY_BE_REMOVED.items() if environment.get(key, "").lower() == "false"}
    wanted = manifests(**flags)
    present = [account.api.find(RESOURCES[manifest["kind"]], str(manifest["metadata"]["name"])) for manifest in wanted]
    problems = [*_absent(wanted, present), *_wrong(wanted, present, not_needed)]
    if problems:
        options = "".join(f" {_OPTIONS[flag]}" for flag in sorted(_OPTIONS) if flags[flag])
        mends = f"{_deletes(wanted, present)}.venv/bin/python -m infra.cluster_role{options} | kubectl apply -f -"
        return AccountFinding(name, PROBLEM, "; ".join(problems), mends)
    return AccountFinding(name, OK, "each function's group is bound to a ClusterRole with all that it needs")


def _absent(wanted: Sequence[Manifest], present: Sequence[Manifest | None]) -> Iterator[str]:
    for kind in RESOURCES:
        names = [
            str(manifest["metadata"]["name"])
            for manifest, found in zip(wanted, present, strict=True)
            if found is None and manifest["kind"] == kind
        ]
        if names:
            yield f"there is no {kind} {', '.join(names)}"


def _wrong(
    wanted: Sequence[Manifest], present: Sequence[Manifest | None], not_needed: set[Permission]
) -> Iterator[str]:
    for manifest, found in zip(wanted, present, strict=True):
        if found is not None and manifest["kind"] == ROLES.kind:
            yield from _of_role(manifest, found, not_needed)
        elif found is not None:
            yield from _of_binding(manifest, found)


def _of_role(manifest: Manifest, found: Manifest, not_needed: set[Permission]) -> Iterator[str]:
    rules = [(rule["apiGroups"][0], tuple(rule["resources"]), tuple(rule["verbs"])) for rule in manifest["rules"]]
    granted = sequence(found.get("rules"))
    lacks = sorted(wanted for wanted in verbs(rules) - not_needed if not _allows(granted, wanted))
    if lacks:
        more = f" and {len(lacks) - VERBS_MAX} more" if len(lacks) > VERBS_MAX else ""
        named = ", ".join(map(_said, lacks[:VERBS_MAX]))
        yield f"ClusterRole {manifest['metadata']['name']} does not allow {named}{more}"


def _of_binding(manifest: Manifest, found: Manifest) -> Iterator[str]:
    name, group = manifest["metadata"]["name"], manifest["subjects"][0]["name"]
    subjects = {(subject.get("kind"), subject.get("name")) for subject in sequence(found.get("subjects"))}
    if _is_of_another_role(manifest, found) or ("Group", group) not in subjects:
        yield f"ClusterRoleBinding {name} does not bind the group {group} to ClusterRole {name}"


def _is_of_another_role(manifest: Manifest, found: Manifest) -> bool:
    """Whether a binding has the name of one of ours, and binds another role."""
    return bool(mapping(found.get("roleRef")).get("name") != manifest["roleRef"]["name"])


def _deletes(wanted: Sequence[Manifest], present: Sequence[Manifest | None]) -> str:
    """Return the command that must come first: a binding of another role is deleted, since `roleRef` is immutable."""
    names = [
        str(manifest["metadata"]["name"])
        for manifest, found in zip(wanted, present, strict=True)
        if found is not None and manifest["kind"] == BINDINGS.kind and _is_of_another_role(manifest, found)
    ]
    return f"kubectl delete clusterrolebinding {' '.join(names)} && " if names else ""


def _allows(granted: Iterable[Mapping[str, Any]], wanted: Permission) -> bool:
    """Whether a rule allows it for every object of the kind, as Kubernetes' RBAC reads rules."""
    group, resource, verb = wanted
    named = {resource, "*", f"*/{resource.partition('/')[2]}"} if "/" in resource else {resource, "*"}
    return any(
        not rule.get("resourceNames")
        and not {group, "*"}.isdisjoint(sequence(rule.get("apiGroups")))
        and not named.isdisjoint(sequence(rule.get("resources")))
        and not {verb, "*"}.isdisjoint(sequence(rule.get("verbs")))
        for rule in granted
    )


def _said(permission: Permission) -> str:
    group, resource, verb = permission
    return f"{verb} {resource}.{group}" if group else f"{verb} {resource}"
