"""What the API server refuses in Pods that people write: tables of fields with their checks, as of Kubernetes 1.37.

Each table names the functions of Kubernetes that it follows, in `pkg/apis/*/validation/validation.go` unless a path is given.
Objects that an API server has stored are exempt: it judges them by the rules of the day on which they were written. The tables
hold for API servers of Kubernetes 1.31 to 1.37, each with the feature gates that it has by default: what one of these accepts
counts as allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from cli.manifests.checks import (
    HUGE,
    INT64_MAX,
    VALUES_TAKEN,
    WITH_ONE_VALUE,
    WITH_VALUES,
    WITHOUT_VALUES,
    Check,
    Excused,
    Missing,
    Refusal,
    all_of,
    amount_of,
    amounts,
    between,
    containers_of,
    dns_label,
    dns_name,
    entries,
    exclusive,
    goes_with_host,
    is_firm,
    label_map,
    label_selector,
    label_value,
    like,
    list_of,
    metadata_with,
    not_negative,
    object_with,
    once_for_equal,
    one_of,
    plain_text,
    positive,
    positive_seconds,
    proc_mounts,
    qualified_name,
    requirement,
    windows_options,
)
from core.api.objects import mapping, sequence
from core.api.status import Location
from core.errors import InvalidInputError
from core.manifests.admission import of_whole_pod
from core.manifests.pods import is_pod_level
from core.manifests.wire.pod import WirePodSpec
from core.model.values import quantity

# Amounts of containers and of pods: validateContainerResourceRequirements, validatePodResources.


def _requests(value: Any, at: Location) -> Iterator[Refusal]:
    """Check the requests of a container beside its limits."""
    limits, requests = entries(value.get("limits")), entries(value.get("requests"))
    for name, amount in requests.items():
        place = (*at, "requests", name)
        if amount_of(amount, name) > amount_of(limits.get(name, amount), name):
            yield place, f"{amount} is more than the limit of {limits[name]}"
        elif is_firm(name) and name not in limits:
            yield place, Excused("needs a limit of the same amount: it cannot be overcommitted")
        elif is_firm(name) and amount_of(amount, name) != amount_of(limits[name], name):
            yield place, f"{amount} is not the limit of {limits[name]}: it cannot be overcommitted"
    names = {*limits, *requests}
    if any(name.startswith(HUGE) for name in names) and not names & {"cpu", "memory"}:
        yield at, "has huge pages, which need cpu or memory beside them"


_resources: Final = object_with({"limits": amounts, "requests": amounts}, _requests)


def _of_pod(spec: Any, at: Location) -> Iterator[Refusal]:
    """Check the amounts of the pod as a whole beside those of its containers (validatePodResources)."""
    pod_resources = mapping(spec.get("resources"))
    if not pod_resources:
        return
    limits, written = entries(pod_resources.get("limits")), entries(pod_resources.get("requests"))
    requests = {**limits, **written}
    for kind, names in (("requests", written), ("limits", limits)):
        for name in names:
            if not is_pod_level(name):
                message = "a pod as a whole takes cpu, memory and huge pages alone; state it for a container"
                yield (*at, "resources", kind, name), message
    needed = _needed_by_containers(spec)
    for name, value in requests.items():
        place = (*at, "resources", "requests" if name in written else "limits", name)
        if amount_of(value, name) > amount_of(limits.get(name, value), name):
            yield place, f"{value} is more than the limit of {limits[name]}"
        elif is_pod_level(name) and amount_of(value, name) < needed.get(name, 0):
            containers = f"{quantity.render(needed[name], name)} that its containers request"
            yield place, f"{value} is less than the {containers}"
    for field in ("initContainers", "containers"):
        for index, container in enumerate(sequence(spec.get(field))):
            for name, value in entries(mapping(mapping(container).get("resources")).get("limits")).items():
                if amount_of(value, name) > amount_of(limits.get(name, value), name):
                    yield (
                        (*at, field, index, "resources", "limits", name),
                        (f"{value} is more than the pod's limit of {limits[name]}"),
                    )


def _needed_by_containers(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return what the containers of a pod request together; nothing if they cannot be read: another finding says so."""
    containers = {key: spec[key] for key in ("containers", "initContainers") if key in spec}
    try:
        return of_whole_pod(msgspec.convert(containers, WirePodSpec))
    except (msgspec.ValidationError, InvalidInputError):
        return {}


# Containers: validateContainerCommon, validateContainerPorts, ValidateEnv, ValidateVolumeMounts, validateProbe.


_env_name: Final = like(r"[ -<>-~]+", 1 << 20, "a variable's name: printable ASCII without =")
_port_name: Final = like(
    r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    15,
    "a port's name: at most 15 lower-case letters, digits and dashes",
)
_port: Final = between(1, 65535)
_weight: Final = between(1, 100)


def _port_or_name(value: Any, at: Location) -> Iterator[Refusal]:
    yield from _port(value, at)
    if isinstance(value, str) and value.isdecimal():
        yield at, f"{value!r} is text, and a port's name needs a letter: for the number, take the quotes away"
    else:
        yield from _port_name(value, at)


_PROTOCOL: Final = one_of("TCP", "UDP", "SCTP")
_HTTP: Final = object_with(
    {
        "port": _port_or_name,
        "scheme": one_of("HTTP", "HTTPS"),
        "httpHeaders": list_of(
            object_with({"name": like("[-A-Za-z0-9]+", 1 << 20, "a header's name")}, needs=["name"])
        ),
    },
    needs=["port"],
)
_HANDLERS: Final[Mapping[str, Check]] = {
    "exec": object_with({}, needs=["command"]),
    "httpGet": _HTTP,
    "tcpSocket": object_with({"port": _port_or_name}, needs=["port"]),
}


def _probe(**more: Check) -> Check:
    handlers = {**_HANDLERS, "grpc": object_with({"port": _port}, needs=["port"])}
    names = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
    counts = dict.fromkeys(names, not_negative)
    single = exclusive([*handlers], is_needed=True, what="a probe")
    return object_with({**handlers, **counts, "terminationGracePeriodSeconds": positive_seconds, **more}, single)


_hook: Final = object_with(
    {**_HANDLERS, "sleep": object_with({"seconds": between(0, INT64_MAX)})},
    exclusive([*_HANDLERS, "sleep"], is_needed=True, what="a hook"),
)
_PROBES: Final = {
    "livenessProbe": _probe(successThreshold=between(0, 1)),
    "startupProbe": _probe(successThreshold=between(0, 1)),
    "readinessProbe": _probe(terminationGracePeriodSeconds=lambda _, at: iter([(at, "is not for a readiness probe")])),
}
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _valued(value: Any, at: Location) -> Iterator[Refusal]:
    if value.get("value") and value.get("valueFrom"):
        yield (*at, "valueFrom"), "cannot stand beside value"


_OF_METADATA: Final = r"metadata\.(labels|annotations)\['[^']+'\]"
_env_field: Final = like(
    r"metadata\.(name|namespace|uid)|spec\.(nodeName|serviceAccountName|host)|status\.(hostIPs?|podIPs?)|"
    + _OF_METADATA,
    1 << 20,
    "a field for variables, as metadata.name, metadata.labels['key'], spec.nodeName or status.podIP",
)
_amount_field: Final = like(
    r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.*)",
    1 << 20,
    "an amount, as limits.cpu or requests.memory",
)
_map_key: Final = like(r"(?!\.\.?$)(?!\.\.)[-._a-zA-Z0-9]+", 253, "a key of a ConfigMap or a Secret")
_of_map: Final = object_with({"name": dns_name, "key": _map_key}, needs=["name", "key"])
_env: Final = object_with(
    {
        "name": _env_name,
        "value": plain_text,
        "valueFrom": object_with(
            {
                "configMapKeyRef": _of_map,
                "secretKeyRef": _of_map,
                "fieldRef": object_with({"fieldPath": _env_field}, needs=["fieldPath"]),
                "resourceFieldRef": object_with({"resource": _amount_field}, needs=["resource"]),
            },
            exclusive(_SOURCES, is_needed=True, what="a variable"),
        ),
    },
    _valued,
    needs=["name"],
)
_named: Final = object_with({}, needs=["name"])
_whole_map: Final = object_with(
    {"name": lambda name, at: dns_name(name.removesuffix("-") if isinstance(name, str) else name, at)}, needs=["name"]
)
_env_from: Final = object_with(
    {"prefix": _env_name, "configMapRef": _whole_map, "secretRef": _whole_map},
    exclusive(["configMapRef", "secretRef"], is_needed=True, what="an entry"),
)

# What a container may do: ValidateSecurityContext, validateSeccompProfileField, ValidateAppArmorProfileField.


_user: Final = between(0)


def _profile(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a profile of seccomp or of AppArmor: its type, and whether it names a file of the node."""
    kind, is_named = value.get("type"), value.get("localhostProfile") is not None
    if kind == "Localhost" and not is_named:
        yield (*at, "localhostProfile"), Missing("is missing, which type Localhost needs")
    elif kind != "Localhost" and is_named:
        yield (*at, "localhostProfile"), "is for type Localhost alone"


_a_profile: Final = object_with({"type": one_of("Localhost", "RuntimeDefault", "Unconfined")}, _profile, needs=["type"])
_USERS: Final = {"runAsUser": _user, "runAsGroup": _user, "seccompProfile": _a_profile, "appArmorProfile": _a_profile}


def _escalation(value: Any, at: Location) -> Iterator[Refusal]:
    if value.get("allowPrivilegeEscalation") is False and value.get("privileged") is True:
        yield (*at, "allowPrivilegeEscalation"), "cannot be false while privileged is true"
    added = sequence(mapping(value.get("capabilities")).get("add"))
    if value.get("allowPrivilegeEscalation") is False and "CAP_SYS_ADMIN" in added:
        yield (*at, "allowPrivilegeEscalation"), "cannot be false while capabilities.add has CAP_SYS_ADMIN"


def _mounted(value: Any, at: Location) -> Iterator[Refusal]:
    """Check how a container mounts its volumes (ValidateVolumeMounts)."""
    is_privileged = mapping(value.get("securityContext")).get("privileged") is True
    for index, mount in enumerate(map(mapping, sequence(value.get("volumeMounts")))):
        place = (*at, "volumeMounts", index)
        if mount.get("mountPropagation") == "Bidirectional" and not is_privileged:
            yield (*place, "mountPropagation"), "Bidirectional is for privileged containers alone"
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield (*place, "subPathExpr"), "cannot stand beside subPath"


def _inside(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a path within a volume (validateLocalDescendingPath)."""
    if isinstance(value, str) and (value.startswith("/") or ".." in value.split("/")):
        yield at, f"{value!r} is not a path within the volume"


_CONTAINER_FIELDS: Final[Mapping[str, Check]] = {
    "name": dns_label,
    "command": list_of(plain_text),
    "args": list_of(plain_text),
    "env": list_of(_env),
    "envFrom": list_of(_env_from),
    "imagePullPolicy": one_of("Always", "IfNotPresent", "Never"),
    "terminationMessagePolicy": one_of("File", "FallbackToLogsOnError"),
    "ports": list_of(
        object_with(
            {"name": _port_name, "containerPort": _port, "hostPort": between(0, 65535), "protocol": _PROTOCOL},
            needs=["containerPort"],
        ),
        "name",
    ),
    "resources": _resources,
    "lifecycle": object_with({"postStart": _hook, "preStop": _hook}),
    "restartPolicy": one_of("Always", "OnFailure", "Never"),
    "securityContext": object_with({**_USERS, "windowsOptions": windows_options}, _escalation),
    "volumeMounts": list_of(
        object_with(
            {
                "mountPropagation": one_of("None", "HostToContainer", "Bidirectional"),
                "subPath": _inside,
                "subPathExpr": _inside,
            },
            needs=["name", "mountPath"],
        ),
        "mountPath",
    ),
    "volumeDevices": list_of(object_with({}, needs=["name", "devicePath"]), "name", "devicePath"),
}
_container: Final = object_with({**_CONTAINER_FIELDS, **_PROBES}, _mounted, needs=["name", "image"])


def _sidecar(value: Any, at: Location) -> Iterator[Refusal]:
    if value.get("restartPolicy") != "Always":
        for name in ("lifecycle", *_PROBES):
            if value.get(name) is not None:
                yield (*at, name), "is not for an init container without restartPolicy: Always"


_init_container: Final = object_with({**_CONTAINER_FIELDS, **_PROBES}, _sidecar, _mounted, needs=["name", "image"])


def _names(spec: Any, at: Location) -> Iterator[Refusal]:
    """Check that containers differ in name, and that they mount volumes that the pod has."""
    before: set[str] = set()
    volumes = {str(mapping(volume).get("name")) for volume in sequence(spec.get("volumes"))}
    for field in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec.get(field))):
            name = str(mapping(container).get("name") or "")
            if name and name in before:
                yield (*at, field, index, "name"), f"{name!r} is there already"
            before.add(name)
            for kind in ("volumeMounts", "volumeDevices"):
                for position, mount in enumerate(sequence(mapping(container).get(kind))):
                    volume = mapping(mount).get("name")
                    if volume and str(volume) not in volumes:
                        yield (*at, field, index, kind, position, "name"), Excused(f"the pod has no volume {volume!r}")


def _host_ports(spec: Any, at: Location, *, is_template: bool = True) -> Iterator[Refusal]:
    """Check that no host port is asked for twice (checkHostPortConflicts, validatePodHostNetworkDeps).

    Pods with hostNetwork have their containers' ports on the host; templates keep what is written.
    """
    of_all: set[tuple[str, str, int]] = set()
    has_network = spec.get("hostNetwork") is True
    for field, index, container in containers_of(spec):
        before = of_all if field == "containers" else set()  # init containers run one after the other
        for position, port in enumerate(map(mapping, sequence(container.get("ports")))):
            inside = port.get("containerPort")
            number = port.get("hostPort") or (inside if has_network and not is_template else None)
            if not isinstance(number, int) or not number:
                continue
            place = (*at, field, index, "ports", position, "hostPort")
            if (key := (str(port.get("protocol") or "TCP"), str(port.get("hostIP") or ""), number)) in before:
                yield place, f"{number} is there already"
            before.add(key)
            if has_network and field == "containers" and number != inside:
                yield place, f"{number} is not the container's port, although the pod has hostNetwork"


# Volumes and claims: validateVolumeSource, ValidatePersistentVolumeClaimSpec.


def storage_amount(amount: Any, at: Location) -> Iterator[Refusal]:
    """Check the size of a volume."""
    if amount is None:
        yield at, Missing("is missing")
    elif str(amount).startswith("-") or (re.fullmatch(r"0+\w*", str(amount)) and not amount_of(amount, "storage")):
        yield at, f"{amount} is not more than zero"


def _claimed(value: Any, at: Location) -> Iterator[Refusal]:
    amount = mapping(mapping(value.get("resources")).get("requests")).get("storage")
    yield from storage_amount(amount, (*at, "resources", "requests", "storage"))


def _alone(value: Any, at: Location) -> Iterator[Refusal]:
    modes = sequence(value)
    alone = next((mode for mode in modes if str(mode).endswith("OncePod")), None)
    if alone is not None and len(set(map(str, modes))) > 1:
        yield at, f"{alone} cannot stand beside others"


access_modes: Final = all_of(list_of(like("ReadOnlyMany|ReadWrite(Many|Once(Pod)?)", 20, "an access mode")), _alone)
claim_spec: Final = object_with(
    {
        "accessModes": access_modes,
        "selector": label_selector,
        "storageClassName": dns_name,
        "volumeMode": one_of("Block", "Filesystem"),
    },
    _claimed,
    needs=["accessModes"],
)


def _size(value: Any, at: Location) -> Iterator[Refusal]:
    if str(value).startswith("-") and amount_of(str(value)[1:], "memory"):
        yield at, f"{value} is negative"


def _mode(value: Any, at: Location) -> Iterator[Refusal]:
    """Check the permissions of files: people forget the 0 before an octal number."""
    if isinstance(value, int) and not 0 <= value <= 0o777:
        yield at, f"{value} is not from 0 to 511, which is 0777 in octal: is a 0 in front missing?"


def _file_path(value: Any, at: Location) -> Iterator[Refusal]:
    yield from _inside(value, at)
    if isinstance(value, str) and value.startswith("..") and ".." not in value.split("/"):
        yield at, f"{value!r} begins with two dots"


def driver_name(value: Any, at: Location) -> Iterator[Refusal]:
    """Check the name of a CSI driver (ValidateCSIDriverName)."""
    if isinstance(value, str) and (len(value) > 63 or any(dns_name(value.lower(), ()))):
        yield at, f"{value!r} is not a driver's name: at most 63 letters, digits, dashes and dots"


def _without_backsteps(value: Any, at: Location) -> Iterator[Refusal]:
    if isinstance(value, str) and ".." in value.split("/"):
        yield at, f"{value!r} must not contain .."


def _absolute(value: Any, at: Location) -> Iterator[Refusal]:
    if isinstance(value, str) and value and not value.startswith("/"):
        yield at, f"{value!r} does not begin with /"


_items: Final = list_of(object_with({"path": _file_path, "mode": _mode}, needs=["key", "path"]))
_file_field: Final = like(
    r"metadata\.(name|namespace|uid|labels|annotations)|" + _OF_METADATA,
    1 << 20,
    "a field for files, as metadata.labels",
)
_downward: Final = list_of(
    object_with(
        {
            "path": _file_path,
            "mode": _mode,
            "fieldRef": object_with({"fieldPath": _file_field}, needs=["fieldPath"]),
            "resourceFieldRef": object_with({"resource": _amount_field}, needs=["containerName", "resource"]),
        },
        exclusive(["fieldRef", "resourceFieldRef"], is_needed=True, what="a file"),
        needs=["path"],
    )
)
_token: Final = object_with({"expirationSeconds": between(600, 1 << 32)}, needs=["path"])
_PROJECTED: Final[Mapping[str, Check]] = {
    "secret": object_with({"items": _items}, needs=["name"]),
    "configMap": object_with({"items": _items}, needs=["name"]),
    "downwardAPI": object_with({"items": _downward}),
    "serviceAccountToken": _token,
}
_VOLUMES: Final[Mapping[str, Check]] = {
    "awsElasticBlockStore": object_with({}, needs=["volumeID"]),
    "configMap": object_with({"defaultMode": _mode, "items": _items}, needs=["name"]),
    "csi": object_with({"driver": driver_name}, needs=["driver"]),
    "downwardAPI": object_with({"defaultMode": _mode, "items": _downward}),
    "emptyDir": object_with({"sizeLimit": _size}),
    "ephemeral": object_with({"volumeClaimTemplate": object_with({"spec": claim_spec})}, needs=["volumeClaimTemplate"]),
    "hostPath": object_with(
        {
            "path": _without_backsteps,
            "type": one_of(
                "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"
            ),
        },
        needs=["path"],
    ),
    "nfs": object_with({"path": _absolute}, needs=["server", "path"]),
    "persistentVolumeClaim": object_with({}, needs=["claimName"]),
    "projected": object_with({"defaultMode": _mode, "sources": list_of(object_with(_PROJECTED))}),
    "secret": object_with({"defaultMode": _mode, "items": _items}, needs=["secretName"]),
}
_volume: Final = object_with(
    {"name": dns_label, **_VOLUMES}, exclusive([*_VOLUMES], is_needed=False, what="a volume"), needs=["name"]
)

# Scheduling: ValidateNodeSelectorTerm, validatePodAffinityTerm, validateTopologySpreadConstraints, ValidateTolerations.


def _on_field(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a requirement of matchFields, which knows the node's name alone."""
    if value.get("key") != "metadata.name":
        yield (*at, "key"), f"{value.get('key')!r} is not metadata.name"
    yield from requirement({name: lambda count: count == 1 for name in WITH_VALUES}, "they take one value")(value, at)


node_term: Final = object_with(
    {
        "matchExpressions": list_of(
            object_with(
                {"key": qualified_name, "values": list_of(plain_text)},
                requirement({**WITH_VALUES, **WITHOUT_VALUES, **WITH_ONE_VALUE}, f"{VALUES_TAKEN}, Gt and Lt one"),
                needs=["key"],
            )
        ),
        "matchFields": list_of(object_with({"values": list_of(dns_name)}, _on_field)),
    }
)
_required_node_term: Final = object_with(
    {"matchExpressions": list_of(object_with({"values": list_of(label_value)}))}, node_term
)


def _label_keys(value: Any, at: Location) -> Iterator[Refusal]:
    """Check keys that are added to a selector (ValidateMatchLabelKeysAndMismatchLabelKeys)."""
    fields = ("matchLabelKeys", "mismatchLabelKeys")
    for field in fields:
        if value.get(field) and value.get("labelSelector") is None:
            yield (*at, field), "needs a labelSelector"
    others = set(map(str, sequence(value.get("mismatchLabelKeys"))))
    for index, key in enumerate(sequence(value.get("matchLabelKeys"))):
        if str(key) in others:
            yield (*at, "matchLabelKeys", index), f"{key!r} is in mismatchLabelKeys, too"


_pod_term: Final = object_with(
    {
        "labelSelector": label_selector,
        "namespaceSelector": label_selector,
        "namespaces": list_of(dns_label),
        "topologyKey": qualified_name,
        "matchLabelKeys": list_of(qualified_name),
        "mismatchLabelKeys": list_of(qualified_name),
    },
    _label_keys,
    needs=["topologyKey"],
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_between_pods: Final = object_with(
    {
        _REQUIRED: list_of(_pod_term),
        _PREFERRED: list_of(object_with({"weight": _weight, "podAffinityTerm": _pod_term}, needs=["weight"])),
    }
)
_affinity: Final = object_with(
    {
        "nodeAffinity": object_with(
            {
                _REQUIRED: object_with(
                    {"nodeSelectorTerms": list_of(_required_node_term)}, needs=["nodeSelectorTerms"]
                ),
                _PREFERRED: list_of(object_with({"weight": _weight, "preference": node_term}, needs=["weight"])),
            }
        ),
        "podAffinity": _between_pods,
        "podAntiAffinity": _between_pods,
    }
)


def _skew(value: Any, at: Location) -> Iterator[Refusal]:
    if value.get("maxSkew") == 0:
        yield (*at, "maxSkew"), "0 is less than 1"
    if value.get("minDomains") is not None and value.get("whenUnsatisfiable") == "ScheduleAnyway":
        yield (*at, "minDomains"), "is for whenUnsatisfiable: DoNotSchedule alone"


def _repeated_spreads(value: Any, at: Location) -> Iterator[Refusal]:
    before: set[tuple[str, str]] = set()
    for index, spread in enumerate(map(mapping, sequence(value))):
        pair = str(spread.get("topologyKey")), str(spread.get("whenUnsatisfiable"))
        if pair in before:
            yield (*at, index, "topologyKey"), Excused(f"{pair[0]} with {pair[1]} is there already")
        before.add(pair)


_HONOURS: Final = one_of("Honor", "Ignore")
_spreads: Final = all_of(
    list_of(
        object_with(
            {
                "maxSkew": positive,
                "minDomains": positive,
                "whenUnsatisfiable": one_of("DoNotSchedule", "ScheduleAnyway"),
                "labelSelector": label_selector,
                "nodeAffinityPolicy": _HONOURS,
                "nodeTaintsPolicy": _HONOURS,
                "matchLabelKeys": list_of(qualified_name),
            },
            _skew,
            _label_keys,
            needs=["maxSkew", "topologyKey", "whenUnsatisfiable"],
        )
    ),
    _repeated_spreads,
)


def _tolerates(value: Any, at: Location) -> Iterator[Refusal]:
    operator, content = value.get("operator") or "Equal", value.get("value")
    if operator == "Exists" and content:
        yield (*at, "value"), "operator Exists takes no value"
    if not value.get("key") and operator != "Exists":
        yield (*at, "operator"), "must be Exists where there is no key"
    if value.get("tolerationSeconds") is not None and value.get("effect") != "NoExecute":
        yield (*at, "tolerationSeconds"), "is for effect NoExecute alone"
    if operator in ("Gt", "Lt") and not re.fullmatch(r"0|-?[1-9][0-9]*", str(content)):
        yield (*at, "value"), f"{content!r} is not a whole number"
    if operator == "Equal":
        yield from label_value(content, (*at, "value"))


toleration_list: Final = list_of(
    object_with(
        {
            "key": lambda key, at: qualified_name(key, at) if key else iter(()),
            "operator": one_of("Equal", "Exists", "Gt", "Lt"),
            "effect": one_of("NoSchedule", "PreferNoSchedule", "NoExecute"),
            "value": plain_text,
        },
        _tolerates,
    )
)

# Pods and their templates: ValidatePodSpec, ValidatePodTemplateSpec, ValidatePodCreate.


def _has_containers(spec: Any, at: Location) -> Iterator[Refusal]:
    if not spec.get("containers"):
        yield (*at, "containers"), Missing("is missing: a pod needs a container")
    if spec.get("ephemeralContainers"):
        yield (*at, "ephemeralContainers"), "can be added to a pod that runs alone"


def _address(value: Any, at: Location) -> Iterator[Refusal]:
    """Check an IP address; zeros in front of its numbers are read as a decimal number's."""
    if isinstance(value, str):
        try:
            ip_address(re.sub(r"(?<![0-9a-fA-F:])0+(?=[0-9])", "", value))
        except ValueError:
            yield at, f"{value!r} is not an IP address"


_DNS_SEARCH: Final = r"\.|([a-z0-9_]([-a-z0-9_]*[a-z0-9_])?)(\.[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?)*\.?"
_NAMESERVERS_MAX: Final = 3
_SEARCHES_MAX: Final = 32


def _few(most: int) -> Check:
    """Return a check that a list has this many entries at most."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        if len(sequence(value)) > most:
            yield at, f"has {len(value)} entries; {most} are allowed"

    return check


_dns_config: Final = object_with(
    {
        "nameservers": all_of(list_of(_address), _few(_NAMESERVERS_MAX)),
        "searches": all_of(list_of(like(_DNS_SEARCH, 254, "a domain to search")), _few(_SEARCHES_MAX)),
        "options": list_of(_named),
    }
)


def _resolves(spec: Any, at: Location) -> Iterator[Refusal]:
    if spec.get("dnsPolicy") == "None" and not mapping(spec.get("dnsConfig")).get("nameservers"):
        yield (*at, "dnsConfig", "nameservers"), Missing("is missing, which dnsPolicy: None needs")


_GRACE_SECONDS: Final = 30


def _sleeps(spec: Any, at: Location) -> Iterator[Refusal]:
    """Check that a hook does not sleep longer than the pod may take to end (validateSleepAction)."""
    written = spec.get("terminationGracePeriodSeconds")
    grace = _GRACE_SECONDS if written is None else written
    for field, index, container in containers_of(spec):
        for hook in ("postStart", "preStop"):
            seconds = mapping(mapping(mapping(container.get("lifecycle")).get(hook)).get("sleep")).get("seconds")
            if isinstance(seconds, int) and isinstance(grace, int) and seconds > grace:
                place = (*at, field, index, "lifecycle", hook, "sleep", "seconds")
                yield place, f"{seconds} is more than terminationGracePeriodSeconds, {grace}"


_sysctl_name: Final = like(
    r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?", 253, "a sysctl's name"
)
_pod_security: Final = object_with(
    {
        **_USERS,
        "windowsOptions": windows_options,
        "fsGroup": _user,
        "supplementalGroups": list_of(_user),
        "fsGroupChangePolicy": one_of("OnRootMismatch", "Always"),
        "sysctls": list_of(object_with({"name": _sysctl_name}, needs=["name"]), "name"),
    }
)
_SPEC_FIELDS: Final[Mapping[str, Check]] = {
    "activeDeadlineSeconds": positive,
    "affinity": _affinity,
    "containers": list_of(_container),
    "dnsConfig": _dns_config,
    "dnsPolicy": one_of("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "hostAliases": list_of(object_with({"ip": _address, "hostnames": list_of(dns_name)}, needs=["ip"])),
    "hostname": dns_label,
    "initContainers": list_of(_init_container),
    "nodeSelector": label_map,
    "overhead": amounts,
    "preemptionPolicy": one_of("Never", "PreemptLowerPriority"),
    "priorityClassName": dns_name,
    "readinessGates": list_of(object_with({"conditionType": qualified_name}, needs=["conditionType"])),
    "resources": object_with({"limits": amounts, "requests": amounts}),
    "restartPolicy": one_of("Always", "OnFailure", "Never"),
    "runtimeClassName": dns_name,
    "schedulingGates": list_of(object_with({"name": qualified_name}, needs=["name"]), "name"),
    "securityContext": _pod_security,
    "serviceAccountName": dns_name,
    "subdomain": dns_label,
    "tolerations": toleration_list,
    "topologySpreadConstraints": _spreads,
    "volumes": list_of(_volume, "name"),
}
_OF_WHOLE_SPECS: Final = (_has_containers, _of_pod, _names, _host_ports, _resolves, goes_with_host, _sleeps)
pod_spec: Final = once_for_equal(object_with(_SPEC_FIELDS, *_OF_WHOLE_SPECS))


def _spec_of(check: Check) -> Check:
    """Return a check of what an object has as its spec, which may be missing."""
    return lambda obj, at: check(mapping(obj.get("spec")), (*at, "spec"))


_of_pods: Final = all_of(pod_spec, proc_mounts, lambda spec, at: _host_ports(spec, at, is_template=False))
POD: Final = object_with({"metadata": metadata_with(dns_name)}, _spec_of(_of_pods))


def _of_made_pods(obj: Any, at: Location) -> Iterator[Refusal]:
    """Check what only the pods of a workload are refused for: the API server takes the template, and no pod comes of it."""
    job = ("jobTemplate", "spec") if obj.get("kind") == "CronJob" else ()
    place = (*at, "spec", *job, "template", "spec")
    spec = obj
    for part in place:
        spec = mapping(spec.get(part))
    before = {location for location, _ in _host_ports(spec, place)}
    for location, message in (*_host_ports(spec, place, is_template=False), *proc_mounts(spec, place)):
        if location not in before:
            yield location, f"{message}: the API server takes the {obj.get('kind')}, and refuses its pods"


MADE_PODS: Final = once_for_equal(_of_made_pods)
