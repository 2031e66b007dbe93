"""What the API server refuses in objects that people write: tables of fields with their checks, as of Kubernetes 1.37.

Each table names the functions of Kubernetes that it follows, in `pkg/apis/*/validation/validation.go` unless a path is given.
Objects that an API server has stored are exempt: it judges them by the rules of the day on which they were written. What a
version may allow that another refuses counts as allowed, so no table refuses what some API server accepts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from core.api.objects import mapping, sequence
from core.api.status import Location, path_of
from core.errors import InvalidInputError
from core.manifests.admission import of_whole_pod
from core.manifests.pods import is_pod_level
from core.manifests.wire.pod import WirePodSpec
from core.model.values import quantity

Refusal = tuple[Location, str]
"""The path of a field, and what is wrong with it, as the end of a sentence that the field begins."""
Check = Callable[[Any, Location], Iterator[Refusal]]


class Excused(str):
    """What is wrong with a field of an object that is planned nevertheless.

    A webhook may fill in what is missing, and a plan can hold a spread twice.
    """

    __slots__ = ()


# Checks of single values. A value of another type is left to the reader of manifests, and an empty text counts as not written.


DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1


def like(pattern: str, most: int, meaning: str) -> Check:
    """Return a check that a text matches a pattern, and is short enough."""
    matches = re.compile(pattern).fullmatch

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        if isinstance(value, str) and value and (len(value) > most or not matches(value)):
            yield at, f"{value!r} is not {meaning}"

    return check


dns_label: Final = like(DNS_LABEL, 63, "a DNS label: at most 63 lower-case letters, digits and dashes")
dns_name: Final = like(rf"{DNS_LABEL}(\.{DNS_LABEL})*", 253, "a DNS name: lower-case letters, digits, dashes and dots")
_label_value: Final = like(_NAME, 63, "a label's value: at most 63 letters, digits, dashes, dots and underscores")
_env_name: Final = like(r"[ -<>-~]+", 1 << 20, "a variable's name: printable ASCII without =")
_port_name: Final = like(
    r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    15,
    "a port's name: at most 15 lower-case letters, digits and dashes",
)
_simple_name: Final = re.compile(_NAME).fullmatch
_simple_domain: Final = re.compile(rf"{DNS_LABEL}(\.{DNS_LABEL})*").fullmatch


def qualified_name(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a name with an optional domain before a slash (IsQualifiedName)."""
    if not isinstance(value, str):
        return
    domain, slash, name = value.rpartition("/")
    is_domain = not slash or (len(domain) <= 253 and _simple_domain(domain))
    if not is_domain or len(name) > 63 or not _simple_name(name):
        yield at, f"{value!r} is not a qualified name such as example.com/name"


def _text(value: Any, at: Location) -> Iterator[Refusal]:
    if isinstance(value, bool | int | float):
        yield at, f"{str(value).lower()} is not text: put it in quotes"


def one_of(*allowed: str) -> Check:
    """Return a check that a text is one of these."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        if isinstance(value, str) and value and value not in allowed:
            yield at, f"{value!r} is none of {', '.join(allowed)}"

    return check


def between(least: int, most: int = _INT32_MAX) -> Check:
    """Return a check of the bounds of a number."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        if isinstance(value, int) and not isinstance(value, bool) and not least <= value <= most:
            yield at, f"{value} is less than {least}" if value < least else f"{value} is more than {most}"

    return check


not_negative: Final = between(0)
not_negative_seconds: Final = between(0, _INT64_MAX)
"""For durations that Kubernetes keeps in 64 bits; counts have 32."""

_positive: Final = between(1)
_positive_seconds: Final = between(1, _INT64_MAX)
_port: Final = between(1, 65535)
_weight: Final = between(1, 100)


def _port_or_name(value: Any, at: Location) -> Iterator[Refusal]:
    yield from _port(value, at)
    yield from _port_name(value, at)


# Ways to check the parts of a value.


def all_of(*checks: Check) -> Check:
    """Return all of these checks as one."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        for part in checks:
            yield from part(value, at)

    return check


def object_with(by_name: Mapping[str, Check], *whole: Check, needs: Sequence[str] = ()) -> Check:
    """Return a check of an object: of its fields, of it as a whole, and that it has what it needs."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        if not isinstance(value, dict):
            return
        for name in needs:
            if value.get(name) in (None, "", [], {}):
                yield (*at, name), Excused("is missing")
        for name, part in by_name.items():
            if value.get(name) is not None:
                yield from part(value[name], (*at, name))
        for part in whole:
            yield from part(value, at)

    return check


_EQUAL_MAX: Final = 4096
"""How many values are remembered by `once_for_equal`; larger inputs have a few hundred kinds of pods."""


def once_for_equal(check: Check) -> Check:
    """Return the check, which looks once at equal values: files repeat one pod by the thousand."""
    answers: dict[bytes, tuple[Refusal, ...]] = {}

    def checked(value: Any, at: Location) -> Iterator[Refusal]:
        try:
            written = msgspec.json.encode(value)
        except (msgspec.MsgspecError, OverflowError, RecursionError):
            yield from check(value, at)
            return
        if written not in answers:
            if len(answers) == _EQUAL_MAX:
                answers.clear()
            answers[written] = tuple(check(value, ()))
        for location, message in answers[written]:
            yield (*at, *location), message

    return checked


def list_of(item: Check, *unique: str) -> Check:
    """Return a check of the items of a list, in which each of the fields `unique` differs."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        before: set[tuple[str, str]] = set()
        for index, part in enumerate(sequence(value)):
            yield from item(part, (*at, index))
            for name in unique:
                content = mapping(part).get(name)
                if isinstance(content, str) and content:
                    if (name, content) in before:
                        yield (*at, index, name), f"{content!r} is there already"
                    before.add((name, content))

    return check


def map_of(key: Check, content: Check) -> Check:
    """Return a check of the keys and the values of a map."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        for name, part in mapping(value).items():
            yield from key(name, (*at, name))
            if part is not None:
                yield from content(part, (*at, name))

    return check


# metadata and selectors: ValidateObjectMeta, apimachinery/pkg/apis/meta/v1/validation.


def _lower_key(value: Any, at: Location) -> Iterator[Refusal]:
    if any(qualified_name(str(value).lower(), at)):
        yield from qualified_name(value, at)


label_map: Final = map_of(qualified_name, all_of(_text, _label_value))
_annotations: Final = map_of(_lower_key, _text)


def metadata_with(name: Check) -> Check:
    """Return a check of an object's metadata, whose name passes this check."""

    def named(value: Any, at: Location) -> Iterator[Refusal]:
        if not value.get("name") and not value.get("generateName"):
            yield (*at, "name"), Excused("is missing")

    parts = {"name": name, "namespace": dns_label, "labels": label_map, "annotations": _annotations}
    return object_with(parts, named)


template_metadata: Final = object_with({"labels": label_map, "annotations": _annotations})


def _expression(operators: Mapping[str, Callable[[int], bool]], says: str) -> Check:
    """Return a check of a requirement: its operator, and how many values that takes."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        operator, count = value.get("operator"), len(sequence(value.get("values")))
        if operator not in operators:
            yield (*at, "operator"), f"{operator!r} is none of {', '.join(operators)}"
        elif not operators[operator](count):
            yield (*at, "values"), f"has {count} entries: {says}"

    return check


_SOME: Final = {"In": lambda count: count > 0, "NotIn": lambda count: count > 0}
_NONE: Final = {"Exists": lambda count: not count, "DoesNotExist": lambda count: not count}
_SINGLE: Final = {"Gt": lambda count: count == 1, "Lt": lambda count: count == 1}
_TAKES: Final = "In and NotIn take at least one value, Exists and DoesNotExist none"
_of_labels: Final = {"key": qualified_name, "values": list_of(all_of(_text, _label_value))}

label_selector: Final = object_with(
    {
        "matchLabels": label_map,
        "matchExpressions": list_of(object_with(_of_labels, _expression({**_SOME, **_NONE}, _TAKES), needs=["key"])),
    }
)


# Amounts: validateResourceRequirements, ValidateContainerResourceName; pkg/apis/core/helper/helpers.go.


_HUGE: Final = "hugepages-"
_OF_CONTAINERS: Final = ("cpu", "memory", "ephemeral-storage")


def amount_of(value: object, name: str) -> int:
    """Return an amount in the unit of its resource; 0 for what is no amount."""
    try:
        return quantity.parse(str(value), name)
    except InvalidInputError:
        return 0


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _resource_name(name: str) -> str:
    if "/" not in name:
        is_standard = name in _OF_CONTAINERS or name.startswith(_HUGE)
        return "" if is_standard else "is no resource of a container: others have a domain, as example.com/name"
    if any(qualified_name(name, ())) or (not _is_native(name) and len(name.partition("/")[0]) > 244):
        return "is not a qualified name such as example.com/name"
    return "begins with requests., which is for quotas" if name.startswith("requests.") else ""


def amounts(value: Any, at: Location) -> Iterator[Refusal]:
    """Check the names and the amounts of a list of resources."""
    for name, amount in mapping(value).items():
        if message := _resource_name(name):
            yield (*at, name), message
        elif str(amount).startswith("-") and amount_of(str(amount)[1:], name):
            yield (*at, name), f"{amount} is negative"
        elif not _is_native(name) and not _is_whole(str(amount)):
            yield (*at, name), f"{amount} is not a whole number"


def _is_whole(amount: str) -> bool:
    """Whether an amount is whole; of what is no amount, the reader of manifests speaks."""
    number = re.fullmatch(r"([0-9]*\.?[0-9]+)m?", amount)
    return number is None or (Fraction(number[1]) / (1000 if amount.endswith("m") else 1)).denominator == 1


def _requests(value: Any, at: Location) -> Iterator[Refusal]:
    """Check the requests of a container beside its limits."""
    limits, requests = mapping(value.get("limits")), mapping(value.get("requests"))
    for name, amount in requests.items():
        place, is_firm = (*at, "requests", name), not _is_native(name) or name.startswith(_HUGE)
        if amount_of(amount, name) > amount_of(limits.get(name, amount), name):
            yield place, f"{amount} is more than the limit of {limits[name]}"
        elif is_firm and name not in limits:
            yield place, Excused("needs a limit of the same amount: it cannot be overcommitted")
        elif is_firm and amount_of(amount, name) != amount_of(limits[name], name):
            yield place, f"{amount} is not the limit of {limits[name]}: it cannot be overcommitted"
    names = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in names) and not names & {"cpu", "memory"}:
        yield at, "has huge pages, which need cpu or memory beside them"


_resources: Final = object_with({"limits": amounts, "requests": amounts}, _requests)


def _of_pod(spec: Any, at: Location) -> Iterator[Refusal]:
    """Check the amounts of the pod as a whole beside those of its containers (validatePodResources)."""
    whole = mapping(spec.get("resources"))
    if not whole:
        return
    limits = mapping(whole.get("limits"))
    requests = {**limits, **mapping(whole.get("requests"))}
    for kind in ("requests", "limits"):
        for name in mapping(whole.get(kind)):
            if not is_pod_level(name):
                message = "a pod as a whole takes cpu, memory and huge pages alone; state it for a container"
                yield (*at, "resources", kind, name), message
    needed = _needed_by_containers(spec)
    for name, value in requests.items():
        place = (*at, "resources", "requests" if name in mapping(whole.get("requests")) else "limits", name)
        if amount_of(value, name) > amount_of(limits.get(name, value), name):
            yield place, f"{value} is more than the limit of {limits[name]}"
        elif is_pod_level(name) and amount_of(value, name) < needed.get(name, 0):
            containers = f"{quantity.render(needed[name], name)} that its containers request"
            yield place, f"{value} is less than the {containers}"
    for field in ("initContainers", "containers"):
        for index, container in enumerate(sequence(spec.get(field))):
            for name, value in mapping(mapping(mapping(container).get("resources")).get("limits")).items():
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


def _exclusive(names: Sequence[str], *, is_needed: bool, what: str) -> Check:
    """Return a check that an object has one of these fields, or at most one."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        present = [name for name in names if value.get(name) is not None]
        if len(present) > 1:
            yield (*at, present[1]), f"cannot stand beside {present[0]}: {what} has one of them"
        elif is_needed and not present:
            yield at, f"has none of {', '.join(names)}"

    return check


_PROTOCOL: Final = one_of("TCP", "UDP", "SCTP")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_SCHEME: Final = one_of("HTTP", "HTTPS")


def _probe(**more: Check) -> Check:
    handlers = {
        "exec": object_with({}, needs=["command"]),
        "httpGet": object_with({"port": _port_or_name, "scheme": _SCHEME}, needs=["port"]),
        "tcpSocket": object_with({"port": _port_or_name}, needs=["port"]),
        "grpc": object_with({"port": _port}, needs=["port"]),
    }
    names = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
    counts = dict.fromkeys(names, not_negative)
    single = _exclusive(_HANDLERS, is_needed=True, what="a probe")
    return object_with({**handlers, **counts, "terminationGracePeriodSeconds": _positive_seconds, **more}, single)


_PROBES: Final = {
    "livenessProbe": _probe(successThreshold=between(0, 1)),
    "startupProbe": _probe(successThreshold=between(0, 1)),
    "readinessProbe": _probe(terminationGracePeriodSeconds=lambda _, at: iter([(at, "is not for a readiness probe")])),
}
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _valued(value: Any, at: Location) -> Iterator[Refusal]:
    if value.get("value") and value.get("valueFrom"):
        yield (*at, "valueFrom"), "cannot stand beside value"


_env: Final = object_with(
    {
        "name": _env_name,
        "value": _text,
        "valueFrom": object_with(
            {"configMapKeyRef": object_with({}, needs=["key"]), "secretKeyRef": object_with({}, needs=["key"])},
            _exclusive(_SOURCES, is_needed=True, what="a variable"),
        ),
    },
    _valued,
    needs=["name"],
)
_CONTAINER_FIELDS: Final[Mapping[str, Check]] = {
    "name": dns_label,
    "command": list_of(_text),
    "args": list_of(_text),
    "env": list_of(_env),
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
    "restartPolicy": one_of("Always", "OnFailure", "Never"),
    "volumeMounts": list_of(object_with({}, needs=["name", "mountPath"]), "mountPath"),
    "volumeDevices": list_of(object_with({}, needs=["name", "devicePath"]), "name", "devicePath"),
}
_container: Final = object_with({**_CONTAINER_FIELDS, **_PROBES}, needs=["name", "image"])


def _sidecar(value: Any, at: Location) -> Iterator[Refusal]:
    if value.get("restartPolicy") != "Always":
        for name in ("lifecycle", *_PROBES):
            if value.get(name) is not None:
                yield (*at, name), "is not for an init container without restartPolicy: Always"


_init_container: Final = object_with(_CONTAINER_FIELDS, _sidecar, needs=["name", "image"])


def _names(spec: Any, at: Location) -> Iterator[Refusal]:
    """Check that containers differ in name, and that they mount volumes that the pod has."""
    before: set[str] = set()
    volumes = {mapping(volume).get("name") for volume in sequence(spec.get("volumes"))}
    for field in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec.get(field))):
            name = mapping(container).get("name")
            if name and name in before:
                yield (*at, field, index, "name"), f"{name!r} is there already"
            before.add(name or "")
            for kind in ("volumeMounts", "volumeDevices"):
                for position, mount in enumerate(sequence(mapping(container).get(kind))):
                    volume = mapping(mount).get("name")
                    if volume and volume not in volumes:
                        yield (*at, field, index, kind, position, "name"), f"the pod has no volume {volume!r}"


def _host_ports(spec: Any, at: Location) -> Iterator[Refusal]:
    """Check that no host port is asked for twice (checkHostPortConflicts, validatePodHostNetworkDeps)."""
    before: set[tuple[str, str, int]] = set()
    for index, container in enumerate(sequence(spec.get("containers"))):
        for position, port in enumerate(map(mapping, sequence(mapping(container).get("ports")))):
            number = port.get("hostPort")
            if not isinstance(number, int) or not number:
                continue
            place = (*at, "containers", index, "ports", position, "hostPort")
            if (key := (str(port.get("protocol") or "TCP"), str(port.get("hostIP") or ""), number)) in before:
                yield place, f"{number} is there already"
            before.add(key)
            if spec.get("hostNetwork") is True and number != port.get("containerPort"):
                yield place, f"{number} is not the container's port, although the pod has hostNetwork"


# Volumes and claims: validateVolumeSource, ValidatePersistentVolumeClaimSpec.


def _storage(value: Any, at: Location) -> Iterator[Refusal]:
    amount = mapping(mapping(value.get("resources")).get("requests")).get("storage")
    place = (*at, "resources", "requests", "storage")
    if amount is None:
        yield place, Excused("is missing")
    elif str(amount).startswith("-") or (re.fullmatch(r"0+\w*", str(amount)) and not amount_of(amount, "storage")):
        yield place, f"{amount} is not more than zero"
    modes = sequence(value.get("accessModes"))
    alone = next((mode for mode in modes if str(mode).endswith("OncePod")), None)
    if alone is not None and len(set(map(str, modes))) > 1:
        yield (*at, "accessModes"), f"{alone} cannot stand beside others"


_access_mode: Final = like("ReadOnlyMany|ReadWrite(Many|Once(Pod)?)", 20, "an access mode")
claim_spec: Final = object_with(
    {
        "accessModes": list_of(_access_mode),
        "selector": label_selector,
        "storageClassName": dns_name,
        "volumeMode": one_of("Block", "Filesystem"),
    },
    _storage,
    needs=["accessModes"],
)


def _size(value: Any, at: Location) -> Iterator[Refusal]:
    if str(value).startswith("-") and amount_of(str(value)[1:], "memory"):
        yield at, f"{value} is negative"


_VOLUMES: Final[Mapping[str, Check]] = {
    "awsElasticBlockStore": object_with({}, needs=["volumeID"]),
    "configMap": object_with({}, needs=["name"]),
    "csi": object_with({}, needs=["driver"]),
    "downwardAPI": object_with({}),
    "emptyDir": object_with({"sizeLimit": _size}),
    "ephemeral": object_with({"volumeClaimTemplate": object_with({"spec": claim_spec})}, needs=["volumeClaimTemplate"]),
    "hostPath": object_with(
        {
            "type": one_of(
                "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"
            )
        },
        needs=["path"],
    ),
    "nfs": object_with({}, needs=["server", "path"]),
    "persistentVolumeClaim": object_with({}, needs=["claimName"]),
    "projected": object_with({}),
    "secret": object_with({}, needs=["secretName"]),
}
_volume: Final = object_with(
    {"name": dns_label, **_VOLUMES}, _exclusive([*_VOLUMES], is_needed=False, what="a volume"), needs=["name"]
)

# Scheduling: ValidateNodeSelectorTerm, validatePodAffinityTerm, validateTopologySpreadConstraints, ValidateTolerations.


def _on_field(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a requirement of matchFields, which knows the node's name alone."""
    if value.get("key") != "metadata.name":
        yield (*at, "key"), f"{value.get('key')!r} is not metadata.name"
    yield from _expression({name: lambda count: count == 1 for name in _SOME}, "they take one value")(value, at)


_node_term: Final = object_with(
    {
        "matchExpressions": list_of(
            object_with(
                {"key": qualified_name, "values": list_of(_text)},
                _expression({**_SOME, **_NONE, **_SINGLE}, f"{_TAKES}, Gt and Lt one"),
                needs=["key"],
            )
        ),
        "matchFields": list_of(object_with({"values": list_of(dns_name)}, _on_field)),
    }
)
_required_node_term: Final = object_with(
    {"matchExpressions": list_of(object_with({"values": list_of(_label_value)}))}, _node_term
)


def _label_keys(value: Any, at: Location) -> Iterator[Refusal]:
    """Check keys that are added to a selector (ValidateMatchLabelKeysAndMismatchLabelKeys)."""
    fields = ("matchLabelKeys", "mismatchLabelKeys")
    for field in fields:
        if value.get(field) and value.get("labelSelector") is None:
            yield (*at, field), "needs a labelSelector"
    for index, key in enumerate(sequence(value.get("matchLabelKeys"))):
        if key in sequence(value.get("mismatchLabelKeys")):
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
                _PREFERRED: list_of(object_with({"weight": _weight, "preference": _node_term}, needs=["weight"])),
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
                "maxSkew": _positive,
                "minDomains": _positive,
                "topologyKey": qualified_name,
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
        yield from _label_value(content, (*at, "value"))


toleration_list: Final = list_of(
    object_with(
        {
            "key": lambda key, at: qualified_name(key, at) if key else iter(()),
            "operator": one_of("Equal", "Exists", "Gt", "Lt"),
            "effect": one_of("NoSchedule", "PreferNoSchedule", "NoExecute"),
            "value": _text,
        },
        _tolerates,
    )
)

# Pods and their templates: ValidatePodSpec, ValidatePodTemplateSpec, ValidatePodCreate.


def _has_containers(spec: Any, at: Location) -> Iterator[Refusal]:
    if not spec.get("containers"):
        yield (*at, "containers"), Excused("is missing: a pod needs a container")
    if spec.get("ephemeralContainers"):
        yield (*at, "ephemeralContainers"), "can be added to a pod that runs alone"


_SPEC_FIELDS: Final[Mapping[str, Check]] = {
    "activeDeadlineSeconds": _positive,
    "affinity": _affinity,
    "containers": list_of(_container),
    "dnsPolicy": one_of("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "hostname": dns_label,
    "initContainers": list_of(_init_container),
    "nodeSelector": label_map,
    "overhead": amounts,
    "preemptionPolicy": one_of("Never", "PreemptLowerPriority"),
    "priorityClassName": dns_name,
    "readinessGates": list_of(object_with({"conditionType": qualified_name})),
    "resources": object_with({"limits": amounts, "requests": amounts}),
    "restartPolicy": one_of("Always", "OnFailure", "Never"),
    "runtimeClassName": dns_name,
    "schedulingGates": list_of(object_with({"name": qualified_name}, needs=["name"]), "name"),
    "serviceAccountName": dns_name,
    "subdomain": dns_label,
    "tolerations": toleration_list,
    "topologySpreadConstraints": _spreads,
    "volumes": list_of(_volume, "name"),
}
pod_spec: Final = once_for_equal(object_with(_SPEC_FIELDS, _has_containers, _of_pod, _names, _host_ports))


def _spec_of(check: Check) -> Check:
    """Return a check of what an object has as its spec, which may be missing."""
    return lambda obj, at: check(mapping(obj.get("spec")), (*at, "spec"))


POD: Final = object_with({"metadata": metadata_with(dns_name)}, _spec_of(pod_spec))


def refusals(obj: Mapping[str, Any], check: Check = POD) -> Iterator[tuple[str, str]]:
    """Yield the path of each field for which an API server would refuse an object, and why; the first of each field."""
    before: set[str] = set()
    for location, message in check(obj, ()) if not _is_stored(obj) else ():
        field = path_of(location)
        if field not in before:
            before.add(field)
            yield field, message


def _is_stored(obj: Mapping[str, Any]) -> bool:
    """Whether an API server has stored the object: it alone writes these fields. A pod with a node was stored before."""
    metadata, spec = mapping(obj.get("metadata")), mapping(obj.get("spec"))
    return any(metadata.get(name) for name in ("uid", "resourceVersion")) or bool(
        spec.get("nodeName") or obj.get("status")
    )
