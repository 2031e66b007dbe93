"""The checks, in the order in which a deployment would meet the problems. Each finding has a repair command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from cli.doctor import network
from cli.doctor.cluster_api import (
    BINDINGS,
    DEFINITIONS,
    ROLES,
    NoClusterError,
    NotAllowedError,
    NotAnsweredError,
    unanswered,
)
from cli.doctor.network import NEVER_CREATED, NOT_YET, OK, PROBLEM, UNKNOWN, Account, AccountFinding, way_out
from cli.doctor.roles import LaunchingRole, access_entries, any_of, applies, class_roles, node_roles
from core import labels
from core.api import crds, problems
from core.api.objects import mapping, sequence
from core.api.translation import not_ignored
from core.catalogue.kubelet import expressions
from core.manifests.wire.resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_OVERLAYS, NODE_POOLS, Resource
from core.model.plan import REBOOTING
from core.model.snapshot import LEAST_ALLOCATED, VARIABLE, parse_feature_gates
from installation.cluster_roles import manifests, verbs
from installation.settings import parse_scoring
from installation.wiring import FUNCTIONS

# Checks that each function's group has the permissions in the cluster that the deployed settings need.


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
    gates = parse_feature_gates(environment.get(VARIABLE, "")).gates
    flags["steering"] |= gates.pod_deletion_cost_management  # Karpenter's name for the same
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
            for manifest, manifest_there in zip(wanted, present, strict=True)
            if manifest_there is None and manifest["kind"] == kind
        ]
        if names:
            yield f"there is no {kind} {', '.join(names)}"


def _wrong(
    wanted: Sequence[Manifest], present: Sequence[Manifest | None], not_needed: set[Permission]
) -> Iterator[str]:
    for manifest, manifest_there in zip(wanted, present, strict=True):
        if manifest_there is not None and manifest["kind"] == ROLES.kind:
            yield from _of_role(manifest, manifest_there, not_needed)
        elif manifest_there is not None:
            yield from _of_binding(manifest, manifest_there)


def _of_role(manifest: Manifest, installed: Manifest, not_needed: set[Permission]) -> Iterator[str]:
    rules = [(rule["apiGroups"][0], tuple(rule["resources"]), tuple(rule["verbs"])) for rule in manifest["rules"]]
    granted = sequence(installed.get("rules"))
    lacks = sorted(wanted for wanted in verbs(rules) - not_needed if not _allows(granted, wanted))
    if lacks:
        more = f" and {len(lacks) - VERBS_MAX} more" if len(lacks) > VERBS_MAX else ""
        named = ", ".join(map(_said, lacks[:VERBS_MAX]))
        yield f"ClusterRole {manifest['metadata']['name']} does not allow {named}{more}"


def _of_binding(manifest: Manifest, installed: Manifest) -> Iterator[str]:
    name, group = manifest["metadata"]["name"], manifest["subjects"][0]["name"]
    subjects = {(subject.get("kind"), subject.get("name")) for subject in sequence(installed.get("subjects"))}
    if _is_of_another_role(manifest, installed) or ("Group", group) not in subjects:
        yield f"ClusterRoleBinding {name} does not bind the group {group} to ClusterRole {name}"


def _is_of_another_role(manifest: Manifest, installed: Manifest) -> bool:
    """Whether a binding has the name of one of ours, and binds another role."""
    return bool(mapping(installed.get("roleRef")).get("name") != manifest["roleRef"]["name"])


def _deletes(wanted: Sequence[Manifest], present: Sequence[Manifest | None]) -> str:
    """Return the command that must come first: a binding of another role is deleted, since `roleRef` is immutable."""
    names = [
        str(manifest["metadata"]["name"])
        for manifest, manifest_there in zip(wanted, present, strict=True)
        if manifest_there is not None
        and manifest["kind"] == BINDINGS.kind
        and _is_of_another_role(manifest, manifest_there)
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


# Checks that the API server answers, and that the CustomResourceDefinitions are installed with all fields of this release.


APPLIES: Final = "fleetwright crds | kubectl apply --server-side -f -"
REPLACES: Final = "fleetwright crds | kubectl apply --server-side --force-conflicts -f -"

FIELDS_MAX: Final = 3
"""The most fields that a line names."""

_KUBELET: Final = "spec.kubelet."
"""Karpenter's definition has fourteen of kubelet's fields, ours all: a definition with fewer works."""

_NOT_RELEVANT: Final = ("apiVersion", "kind", "metadata", "status")
"""Parts of an object whose fields a definition does not drop, or that users do not write."""


def api_server(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the API server answers these credentials; whether it answers the functions is what `endpoint` says."""
    return AccountFinding(name, OK, f"it answers, and is {account.api.version()}")


def _definitions(account: Account) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the definitions of this release and those that the cluster has, both by name."""
    ours = {str(definition["metadata"]["name"]): definition for definition in crds.definitions()}
    answers = {name: account.api.find(DEFINITIONS, name) for name in ours}
    return ours, {name: definition for name, definition in answers.items() if definition is not None}


def definitions(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether each definition is there, serves and stores our version, and keeps every field that this release reads."""
    ours, present = _definitions(account)
    if missing := [definition_name for definition_name in ours if definition_name not in present]:
        return AccountFinding(name, PROBLEM, f"the cluster has no {', '.join(missing)}", APPLIES)
    problems = [
        f"{definition_name} {problem}"
        for definition_name, definition in present.items()
        for problem in _problems(ours[definition_name], definition)
    ]
    if problems:
        return AccountFinding(name, PROBLEM, "; ".join(problems), REPLACES)
    fewer = sum(
        len(_dropped(ours[definition_name], definition, of_kubelet=True))
        for definition_name, definition in present.items()
    )
    fields = f"all but {fewer} of spec.kubelet, as Karpenter's lack" if fewer else "every field of this release"
    return AccountFinding(name, OK, f"all {len(ours)} are installed, with {fields}")


def _problems(ours: Mapping[str, Any], installed: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with an installed definition."""
    wanted = ours["spec"]["versions"][0]
    versions = {str(version["name"]): version for version in installed.get("spec", {}).get("versions", ())}
    version = versions.get(wanted["name"], {})
    if not version.get("served"):
        yield f"does not serve {wanted['name']}, only {', '.join(versions) or 'nothing'}"
        return
    if not version.get("storage"):
        stored = [label for label, other in versions.items() if other.get("storage")]
        yield f"stores {', '.join(stored)}, so {wanted['name']} depends on another program's conversion"
    conditions = {str(seen["type"]): seen for seen in sequence(mapping(installed.get("status")).get("conditions"))}
    established = conditions.get("Established", {})
    if established.get("status", "True") != "True":
        yield f"is not established: {established.get('message') or established.get('reason', '')}"
    if "status" not in mapping(version.get("subresources")):
        yield "has no subresource status, so no condition can be written"
    dropped = _dropped(ours, installed, of_kubelet=False)
    if dropped:
        more = f" and {len(dropped) - FIELDS_MAX} more" if len(dropped) > FIELDS_MAX else ""
        yield f"drops {', '.join(dropped[:FIELDS_MAX])}{more}, which this release reads"


def _dropped(ours: Mapping[str, Any], installed: Mapping[str, Any], *, of_kubelet: bool) -> list[str]:
    """Return the fields of our version that an installed definition drops, of the kubelet or all others."""
    wanted = ours["spec"]["versions"][0]
    versions = {str(version["name"]): version for version in installed["spec"]["versions"]}
    paths = _dropped_paths(_schema(wanted), _schema(versions[wanted["name"]]))
    return [path for path in paths if path.startswith(_KUBELET) == of_kubelet]


def _schema(version: Mapping[str, Any]) -> dict[str, Any]:
    schema = mapping(mapping(version.get("schema")).get("openAPIV3Schema"))
    relevant = {key: value for key, value in mapping(schema.get("properties")).items() if key not in _NOT_RELEVANT}
    return {**schema, "properties": relevant}


def _dropped_paths(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of fields that an API server with their schema removes from objects without a word."""
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    fields, rest = mapping(theirs.get("properties")), theirs.get("additionalProperties")
    for key, schema in mapping(ours.get("properties")).items():
        where = f"{path}.{key}" if path else key
        if key in fields:
            yield from _dropped_paths(schema, fields[key], where)
        elif not rest:
            yield where
    for part, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(ours.get(part), dict) and isinstance(theirs.get(part), dict):
            yield from _dropped_paths(ours[part], theirs[part], path + mark)


# Says which Karpenter the cluster's definitions and objects belong to, and what of them means something else here.


OBJECTS_MAX: Final = 3
"""The most objects that a line names."""

_ENCLAVES: Final = "spec.enclaveOptions"
_SINCE: Final = ((_ENCLAVES, "1.15"),)
"""Field of an EC2NodeClass that a version of Karpenter brought → that version, the newest first."""

_HASHES: Final[Mapping[str, str]] = {"v6": "1.15", "v5": "1.14"}
"""Version of the hash that Karpenter's controller writes on an EC2NodeClass → the Karpenter that writes it."""

_JUDGES: Final = "kubectl get nodepools,ec2nodeclasses,nodeoverlays -o yaml | fleetwright validate -f -"


def karpenter(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether every field of the installed definitions and every object means here what it means to its Karpenter."""
    ours, present = _definitions(account)
    if not present:
        return AccountFinding(name, OK, "no definition of Karpenter is installed")
    objects = [
        *_named(NODE_POOLS, account.api.list(NODE_POOLS)),
        *_named(EC2_NODE_CLASSES, account.api.list(EC2_NODE_CLASSES)),
        *_named(NODE_OVERLAYS, account.api.list(NODE_OVERLAYS)),
    ]
    origin = "; ".join(filter(None, [_of_definitions(ours, present), _of_objects(objects)]))
    lost = [
        f"{definition_name} {path}"
        for definition_name in present
        for path in _only_theirs(ours[definition_name], present[definition_name])
    ]
    changes = [*_few("our definitions lack", lost), *_changed(objects), *_rebooting(account)]
    if not changes:
        return AccountFinding(name, OK, f"{origin}; every field and object means the same here")
    return AccountFinding(name, PROBLEM, "; ".join([origin, *changes]), _JUDGES)


def _named(resource: Resource, objects: Iterable[Manifest]) -> list[dict[str, Any]]:
    """Return the objects with their kind, which items of a list lack."""
    return [{**obj, "apiVersion": resource.api_version, "kind": resource.kind} for obj in objects]


def _of_definitions(ours: Mapping[str, Manifest], present: Mapping[str, Manifest]) -> str:
    """Return whose definitions are installed: ours name each field of kubelet, Karpenter's since 1.15 none of them."""
    class_definition = next((name for name in present if name.startswith(EC2_NODE_CLASSES.plural)), "")
    if not class_definition:
        return "definitions of Karpenter without EC2NodeClass"
    paths = set(_paths(_newest(present[class_definition])))
    if {path for path in _paths(_newest(ours[class_definition])) if path.startswith(_KUBELET)} <= paths:
        return "the definitions are ours"
    version = next((version for field, version in _SINCE if field in paths), "")
    return f"the definitions are Karpenter's, {f'{version} or later' if version else f'before {_SINCE[-1][1]}'}"


def _of_objects(objects: Iterable[Manifest]) -> str:
    """Return which Karpenter has written hashes on the EC2NodeClasses; empty for none."""
    annotations = (mapping(mapping(obj.get("metadata")).get("annotations")) for obj in objects)
    written = {str(obj[labels.NODECLASS_HASH_VERSION]) for obj in annotations if labels.NODECLASS_HASH_VERSION in obj}
    versions = [_HASHES.get(version, f"of another version (hash {version})") for version in sorted(written)]
    return f"the EC2NodeClasses were last hashed by Karpenter {' and '.join(versions)}" if versions else ""


def _only_theirs(ours: Manifest, present: Manifest) -> list[str]:
    """Return the fields that an installed definition has and ours lacks: an object would lose them with our definition."""
    wanted, versions = ours["spec"]["versions"][0], sequence(mapping(present.get("spec")).get("versions"))
    version: dict[str, Any] = next((candidate for candidate in versions if candidate.get("name") == wanted["name"]), {})
    return [path for path in _dropped_paths(_schema(version), _schema(wanted)) if not path.endswith(_WRITTEN_BY_NOBODY)]


_WRITTEN_BY_NOBODY: Final = ".timeAdded"
"""When a taint was added: Kubernetes writes it on nodes, and nobody writes it in a template."""


def _changed(objects: Sequence[Manifest]) -> Iterator[str]:
    """Yield what is refused here, or means less than to Karpenter."""
    unknown = [f"{_shown(obj)} {path}" for obj in objects for path in not_ignored(dict(obj))]
    yield from _few(
        "fields that this version does not know, so that nothing is launched from their EC2NodeClass:", unknown
    )
    understood = [obj for obj in objects if not not_ignored(dict(obj))]
    yield from _few("our rules refuse", [_shown(obj) for obj in understood if problems(dict(obj))])
    of_classes = [obj for obj in understood if obj["kind"] == EC2_NODE_CLASSES.kind]
    computed = [_shown(obj) for obj in of_classes if expressions(mapping(mapping(obj.get("spec")).get("kubelet")))]
    yield from _few("not ready here, since expressions in spec.kubelet are not evaluated:", computed)
    shared = [_shown(obj) for obj in of_classes if _annotation(obj, labels.CONSUMABLE_CAPACITY)]
    yield from _few("GPUs are not shared between resource claims here:", shared)


def _rebooting(account: Account) -> Iterator[str]:
    """Yield the nodes that Karpenter reboots now: they are left alone until that is over."""
    claims = account.api.list(NODE_CLAIMS)
    names = [str(mapping(claim.get("metadata")).get("name")) for claim in claims if _reboots(claim)]
    yield from _few("Karpenter reboots nodes of these NodeClaims, so take over when it has ended:", names)


def _reboots(claim: Manifest) -> bool:
    conditions = sequence(mapping(claim.get("status")).get("conditions"))
    return any(condition.get("type") == REBOOTING and condition.get("status") == "True" for condition in conditions)


def _annotation(obj: Manifest, name: str) -> str:
    return str(mapping(mapping(obj.get("metadata")).get("annotations")).get(name, ""))


def _shown(obj: Manifest) -> str:
    return f"{obj['kind']} {mapping(obj.get('metadata')).get('name')}"


def _few(what: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - OBJECTS_MAX} more" if len(names) > OBJECTS_MAX else ""
        yield f"{what} {', '.join(names[:OBJECTS_MAX])}{more}"


def _newest(definition: Manifest) -> dict[str, Any]:
    versions = sequence(mapping(definition.get("spec")).get("versions"))
    return _schema(next((candidate for candidate in versions if candidate.get("storage")), {}))


def _paths(schema: Mapping[str, Any], at: str = "") -> Iterator[str]:
    for key, inner in mapping(schema.get("properties")).items():
        where = f"{at}.{key}" if at else key
        yield where
        yield from _paths(inner, where)


# Checks that CloudFormation finished what it began with the stack.


def finished(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the stack is there, or can be deployed."""
    status = account.stack_status()
    if status in NOT_YET:
        return AccountFinding(name, OK, f"{account.stack} is {status}" if status else "not deployed yet")
    if not status.endswith("_FAILED") and status not in NEVER_CREATED:
        return AccountFinding(name, OK, f"{account.stack} is {status}")
    stack = f"--stack-name {account.stack} --region {account.region}"
    says, command = _DELETES if status in NEVER_CREATED else _REPAIRS.get(status, _READS)
    return AccountFinding(
        name, PROBLEM, f"{account.stack} is {status}: {says}", f"aws cloudformation {command} {stack}"
    )


_DELETES: Final = ("describe-stack-events says why; delete the stack, then deploy again", "delete-stack")

_REPAIRS: Final = {
    "UPDATE_ROLLBACK_FAILED": (
        "describe-stack-events names the cause; remove it, then continue the rollback",
        "continue-update-rollback",
    ),
    "UPDATE_FAILED": ("describe-stack-events says why; roll back, then deploy again", "rollback-stack"),
}
"""Status → what to do, and the command for it."""

_READS: Final = ("the events of the stack name the cause; remove it, then deploy again", "describe-stack-events")


# Checks that the functions that launch may use the key with which the account encrypts volumes.


LAUNCHING: Final = ("execute", "provision", "reconcile")
"""Functions whose roles launch instances."""

OPERATIONS: Final = (
    "CreateGrant",
    "Decrypt",
    "DescribeKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
)
"""What EC2 does with the key of a volume in the name of the role that launches, by the guide of EBS encryption."""


def volume_key(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the key is usable, and its policy or grants admit the roles: they have no permission for any key of their own."""
    encrypted = mapping(account.ask("ec2", "GetEbsEncryptionByDefault")).get("EbsEncryptionByDefault")
    default = mapping(account.ask("ec2", "GetEbsDefaultKmsKeyId")).get("KmsKeyId", "") if encrypted else ""
    if not default or default.endswith("alias/aws/ebs"):
        return AccountFinding(name, OK, "volumes are encrypted with EBS' own key, or not")
    key = mapping(account.ask("kms", "DescribeKey", KeyId=default)).get("KeyMetadata", {})
    if key.get("KeyManager") == "AWS":
        return AccountFinding(name, OK, "volumes are encrypted with EBS' own key, or not")
    if key.get("KeyState") != "Enabled":
        return _unusable(name, account, default, str(key.get("KeyState", "not there")))
    arn = str(key["Arn"])
    policy = json.loads(
        mapping(account.ask("kms", "GetKeyPolicy", KeyId=arn, PolicyName="default")).get("Policy", "{}")
    )
    roles = _launching_roles(account)
    admitted = {role.arn: _may_use(policy, _grants(account, arn, role.arn), role) for role in roles}
    shut_out = [role for role, may in admitted.items() if may is False]
    if shut_out and any(_is_denied(policy, role) for role in roles):
        says = f"the policy of the key {arn} of volumes denies its use to {', '.join(shut_out)}: launches fail"
        return AccountFinding(name, PROBLEM, says, f"aws kms get-key-policy --region {account.region} --key-id {arn}")
    if shut_out:
        return _shut_out(name, account, arn, shut_out)
    unclear = [role for role, may in admitted.items() if may is None]
    if unclear:
        says = f"cannot tell whether the key {arn} of volumes admits {', '.join(unclear)}: it depends on conditions"
        return AccountFinding(name, UNKNOWN, says)
    return AccountFinding(name, OK, f"the key {arn} of volumes admits the functions' roles")


def _unusable(name: str, account: Account, key: str, state: str) -> AccountFinding:
    command = {"PendingDeletion": "cancel-key-deletion", "Disabled": "enable-key"}.get(state, "describe-key")
    says = f"volumes are encrypted with the key {key}, which is {state}: launches fail"
    return AccountFinding(name, PROBLEM, says, f"aws kms {command} --region {account.region} --key-id {key}")


def _shut_out(name: str, account: Account, key: str, roles: list[str]) -> AccountFinding:
    grant = f"aws kms create-grant --region {account.region} --key-id {key} --operations {' '.join(OPERATIONS)}"
    says = f"volumes are encrypted with the key {key}, which does not admit {', '.join(roles)}: launches fail"
    mends = " && ".join(f"{grant} --grantee-principal {role}" for role in roles)
    if not account.is_deployed():
        says = f"{says}; the roles exist only after the deployment, so create the grants then"
    return AccountFinding(name, PROBLEM, says, mends)


def _launching_roles(account: Account) -> list[LaunchingRole]:
    """Return the roles that launch."""
    arns = [account.role(account.role_name(function)) for function in LAUNCHING]
    return [LaunchingRole(arn, arn.split(":")[4], account.region) for arn in arns]


def _may_use(policy: Mapping[str, Any], grants: Sequence[Mapping[str, Any]], role: LaunchingRole) -> bool | None:
    answers = {_may(policy, grants, role, operation) for operation in OPERATIONS}
    return False if False in answers else None if None in answers else True


def _is_denied(policy: Mapping[str, Any], role: LaunchingRole) -> bool:
    return any(applies(policy, "Deny", role, f"kms:{operation}") for operation in OPERATIONS)


def _may(
    policy: Mapping[str, Any], grants: Sequence[Mapping[str, Any]], role: LaunchingRole, operation: str
) -> bool | None:
    """Return whether EC2 may do this for the role: policy or a grant allows it, and no statement of the policy denies it."""
    granted = (None if grant.get("Constraints") else True for grant in grants if operation in grant["Operations"])
    is_allowed = any_of([applies(policy, "Allow", role, f"kms:{operation}"), *granted])
    is_denied = applies(policy, "Deny", role, f"kms:{operation}")
    if is_denied or is_allowed is False:
        return False
    return None if is_denied is None else is_allowed


def _grants(account: Account, key: str, role: str) -> list[Mapping[str, Any]]:
    """Return the key's grants to a role; none before the deployment, as KMS accepts none to a role that does not exist."""
    if not account.is_deployed():
        return []
    tokens = ("Marker", "NextMarker")
    grants = account.every("kms", "ListGrants", "Grants", tokens, KeyId=key, GranteePrincipal=role)
    return [grant for grant in grants if grant.get("GranteePrincipal") == role]


RESERVED: Final = 19
"""Concurrent executions that the functions of a cluster reserve."""

UNRESERVED_MIN: Final = 100
"""Unreserved concurrency that Lambda requires to remain in the account."""

STANDARD: Final = "STANDARD"
"""The only class of log groups that takes subscription filters (docs/engineering/aws-facts.md#log-group-class)."""

SUBSCRIPTIONS_MAX: Final = 2
"""The most subscription filters of a log group."""

MARKET_AGE_MAX: Final = timedelta(hours=2)
"""The maximum age of the market: prices are read every hour."""


def diagnose(account: Account, now: datetime) -> Iterator[AccountFinding]:
    """Run every check, in order."""
    for name in CHECKS:
        yield finding_of(name, account, now)


def finding_of(name: str, account: Account, now: datetime) -> AccountFinding:
    """Run one check. Its result is `unknown` if no call answers it: not permitted, no cluster, or the service fails."""
    try:
        return CHECKS[name](name, account, now)
    except NoClusterError:
        return AccountFinding(name, UNKNOWN, "there is no cluster to ask")
    except (NotAllowedError, NotAnsweredError) as error:
        return AccountFinding(name, UNKNOWN, unanswered(error))


def _cluster(name: str, account: Account, _: datetime) -> AccountFinding:
    try:
        cluster = account.described()
    except NoClusterError:
        says = f"there is no EKS cluster {account.cluster} in {account.region}"
        return AccountFinding(name, PROBLEM, says, f"aws eks list-clusters --region {account.region}")
    status = cluster.get("status", "ACTIVE")
    if status not in ("ACTIVE", "UPDATING"):
        waits = f"aws eks wait cluster-active --region {account.region} --name {account.cluster}"
        return AccountFinding(name, PROBLEM, f"the cluster is {status}", waits)
    if mapping(cluster.get("computeConfig")).get("enabled"):
        says = "EKS Auto Mode is on: it provisions nodes itself, from the same NodePools; use a cluster without it"
        return AccountFinding(name, PROBLEM, says, _without_auto_mode(account))
    mode = mapping(cluster.get("accessConfig")).get("authenticationMode", "CONFIG_MAP")
    if "API" not in mode:
        on = "--access-config authenticationMode=API_AND_CONFIG_MAP"
        mends = f"aws eks update-cluster-config --region {account.region} --name {account.cluster} {on}"
        return AccountFinding(name, PROBLEM, f"access entries are off (authentication mode {mode})", mends)
    return AccountFinding(name, OK, f"Kubernetes {cluster.get('version')}, access entries are on")


def _without_auto_mode(account: Account) -> str:
    """Return the command that turns Auto Mode off, with its three parts, as EKS demands; its nodes go."""
    parts = (
        "--compute-config enabled=false",
        """--kubernetes-network-config '{"elasticLoadBalancing":{"enabled":false}}'""",
        """--storage-config '{"blockStorage":{"enabled":false}}'""",
    )
    return f"aws eks update-cluster-config --region {account.region} --name {account.cluster} {' '.join(parts)}"


def _audit_log(name: str, account: Account, _: datetime) -> AccountFinding:
    if account.is_deployed() and not account.subscribes():
        return AccountFinding(
            name, OK, 'not used: it is deployed with auditLogGroup "", so only the schedules wake functions'
        )
    logging = sequence(mapping(account.described().get("logging")).get("clusterLogging"))
    kinds = {kind for setup in logging if setup.get("enabled") for kind in setup.get("types", ())}
    logging_on = '{"clusterLogging":[{"types":["audit"],"enabled":true}]}'
    on = f"aws eks update-cluster-config --region {account.region} --name {account.cluster} --logging '{logging_on}'"
    if "audit" not in kinds:
        return AccountFinding(name, PROBLEM, 'the audit log is off: turn it on, or deploy with -c auditLogGroup=""', on)
    group = f"/aws/eks/{account.cluster}/cluster"
    groups = mapping(account.ask("logs", "DescribeLogGroups", logGroupNamePrefix=group))
    if all(log_group["logGroupName"] != group for log_group in groups.get("logGroups", ())):
        wait = f"aws logs describe-log-groups --region {account.region} --log-group-name-prefix {group}"
        return AccountFinding(
            name, PROBLEM, f"the log group {group} is not there yet: EKS makes it with its first line", wait
        )
    kind = next(
        log_group.get("logGroupClass", STANDARD)
        for log_group in groups["logGroups"]
        if log_group["logGroupName"] == group
    )
    if kind != STANDARD:
        says = f"the log group {group} is of class {kind}, which takes no subscription: make it again as {STANDARD}"
        mends = f"aws logs delete-log-group --region {account.region} --log-group-name {group} && {on}"
        return AccountFinding(name, PROBLEM, says, mends)
    return AccountFinding(name, OK, f"EKS writes it to {group}")


def _subscription(name: str, account: Account, _: datetime) -> AccountFinding:
    group = f"/aws/eks/{account.cluster}/cluster"
    filters = mapping(account.ask("logs", "DescribeSubscriptionFilters", logGroupName=group))
    taken = [filter_["filterName"] for filter_ in filters.get("subscriptionFilters", ())]
    if len(taken) >= SUBSCRIPTIONS_MAX and not any(
        filter_.startswith(f"{account.stack}-watchauditlog") for filter_ in taken
    ):
        filter_ = f"--log-group-name {group} --filter-name '{taken[-1]}'"
        mends = f"aws logs delete-subscription-filter --region {account.region} {filter_}"
        return AccountFinding(name, PROBLEM, f"both subscriptions of {group} are taken: {', '.join(taken)}", mends)
    return AccountFinding(name, OK, f"{len(taken)} of {SUBSCRIPTIONS_MAX} are taken")


def _concurrency(name: str, account: Account, _: datetime) -> AccountFinding:
    limits = mapping(account.ask("lambda", "GetAccountSettings")).get("AccountLimit", {})
    free = int(limits.get("UnreservedConcurrentExecutions", 0))
    limit = int(limits.get("ConcurrentExecutions", free))
    wanted = UNRESERVED_MIN + (0 if account.is_deployed() else RESERVED)
    if free < wanted:
        quota = f"--region {account.region} --service-code lambda --quota-code L-B99A9384"
        desired = max(1000, limit + wanted - free)
        mends = f"aws service-quotas request-service-quota-increase {quota} --desired-value {desired}"
        return AccountFinding(name, PROBLEM, f"{free} concurrent executions are unreserved, {wanted} are needed", mends)
    return AccountFinding(name, OK, f"{free} concurrent executions are unreserved")


def _loops(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether Lambda lets the functions that wait by messages to themselves do so."""
    if not account.is_deployed():
        return AccountFinding(name, OK, "not deployed yet: the deployment allows them")
    stopped = []
    for spec in (spec for spec in FUNCTIONS if spec.may_loop):
        for function in account.functions(spec.name):
            config = mapping(account.ask("lambda", "GetFunctionRecursionConfig", FunctionName=function))
            if config.get("RecursiveLoop", "Terminate") != "Allow":
                stopped.append(function)
    if stopped:
        says = f"Lambda ends the chains of {', '.join(stopped)} after 16 messages: nodes are found minutes late"
        put = (
            f"aws lambda put-function-recursion-config --region {account.region} --recursive-loop Allow --function-name"
        )
        return AccountFinding(name, PROBLEM, says, " && ".join(f"{put} {function}" for function in stopped))
    return AccountFinding(name, OK, "functions may send messages to themselves")


def _spot_role(name: str, account: Account, _: datetime) -> AccountFinding:
    if account.ask("iam", "GetRole", RoleName="AWSServiceRoleForEC2Spot") is None:
        mends = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
        return AccountFinding(
            name, PROBLEM, "the account has no service-linked role for spot: spot launches fail", mends
        )
    return AccountFinding(name, OK, "the service-linked role is there")


def _market(name: str, account: Account, now: datetime) -> AccountFinding:
    if not account.is_deployed():
        return AccountFinding(name, OK, "not deployed yet: the deployment reads prices")
    settings = account.settings()
    bucket = settings.get("SHARED_BUCKET_NAME") or settings.get("BUCKET_NAME")
    listing = account.ask("s3", "ListObjectsV2", Bucket=bucket, Prefix="catalogue/") if bucket else None
    read = [entry["LastModified"] for entry in mapping(listing).get("Contents", ())]
    query = "Functions[?contains(FunctionName,'refreshcatalogue')].LoggingConfig.LogGroup"
    region = f"--region {account.region}"
    mends = f'aws logs tail {region} --since 1h $(aws lambda list-functions {region} --query "{query}" --output text)'
    if not read or now - max(read) > MARKET_AGE_MAX:
        says = "prices were never read" if not read else f"prices were last read at {max(read):%Y-%m-%d %H:%M} UTC"
        return AccountFinding(name, PROBLEM, f"{says}: nothing new is known of the market", mends)
    return AccountFinding(name, OK, f"prices were read at {max(read):%Y-%m-%d %H:%M} UTC")


def _scoring(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the functions announce moves by the strategy with which kube-scheduler scores nodes."""
    fit = mapping(mapping(account.described().get("kubeSchedulerConfig")).get("nodeResourcesFit"))
    strategy = str(mapping(fit.get("scoringStrategy")).get("type", LEAST_ALLOCATED))
    if not account.is_deployed():
        return AccountFinding(name, OK, f"kube-scheduler scores nodes by {strategy}")
    planned = parse_scoring(account.settings().get("SCHEDULER_CONFIG", ""))
    if planned != strategy:
        says = f"kube-scheduler scores nodes by {strategy}, and moves are announced for {planned}"
        config = f"""schedulerConfig='{{"nodeResourcesFit":{{"scoringStrategy":{{"type":"{strategy}"}}}}}}'"""
        return AccountFinding(name, PROBLEM, says, f"{network.DEPLOYS} -c {config}")
    return AccountFinding(name, OK, f"kube-scheduler scores nodes by {strategy}, as announced moves expect")


CHECKS: Final[dict[str, Callable[[str, Account, datetime], AccountFinding]]] = {
    "cluster": _cluster,
    "endpoint": network.endpoint,
    "way-out": way_out,
    "api-server": api_server,
    "definitions": definitions,
    "karpenter": karpenter,
    "cluster-roles": cluster_roles,
    "access-entries": access_entries,
    "node-roles": node_roles,
    "node-entries": network.node_entries,
    "class-roles": class_roles,
    "audit-log": _audit_log,
    "subscription": _subscription,
    "concurrency": _concurrency,
    "loops": _loops,
    "spot-role": _spot_role,
    "scoring": _scoring,
    "volume-key": volume_key,
    "stack": finished,
    "market": _market,
}
"""Name → check."""
