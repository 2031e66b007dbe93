"""Parts of the tables of what the API server refuses: checks of values, objects, lists, maps, metadata and amounts.

Each check of a kind names the functions of Kubernetes that it follows, in `apimachinery/pkg` here.
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
from core.model.values import quantity

Refusal = tuple[Location, str]
"""The path of a field, and what is wrong with it, as the end of a sentence that the field begins."""
Check = Callable[[Any, Location], Iterator[Refusal]]


class Excused(str):
    """What is wrong with a field of an object that is planned nevertheless.

    A webhook may fill in what is missing, and a plan can hold a spread twice.
    """

    __slots__ = ()


class Missing(Excused):
    """That a field is missing: whoever applies the object may still add it."""

    __slots__ = ()


# Checks of single values. A value of another type is left to the reader of manifests, and an empty text counts as not written.


DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1


def like(pattern: str, most: int, meaning: str) -> Check:
    """Return a check that a text matches a pattern, and is short enough."""
    matches = re.compile(pattern).fullmatch

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        if isinstance(value, str) and value and (len(value) > most or not matches(value)):
            yield at, f"{value!r} is not {meaning}"

    return check


dns_label: Final = like(DNS_LABEL, 63, "a DNS label: at most 63 lower-case letters, digits and dashes")
dns_name: Final = like(rf"{DNS_LABEL}(\.{DNS_LABEL})*", 253, "a DNS name: lower-case letters, digits, dashes and dots")
label_value: Final = like(_NAME, 63, "a label's value: at most 63 letters, digits, dashes, dots and underscores")
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


def plain_text(value: Any, at: Location) -> Iterator[Refusal]:
    """Check that a value is text: YAML makes numbers and truths of words without quotes."""
    if isinstance(value, bool | int | float):
        yield at, f"must be text, not {str(value).lower()}: put it in quotes"


def one_of(*allowed: str) -> Check:
    """Return a check that a text is one of these."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        if isinstance(value, str) and value and value not in allowed:
            yield at, f"{value!r} is none of {', '.join(allowed)}"

    return check


def between(least: int, most: int = INT32_MAX) -> Check:
    """Return a check of the bounds of a number."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        if isinstance(value, int) and not isinstance(value, bool) and not least <= value <= most:
            yield at, f"{value} is less than {least}" if value < least else f"{value} is more than {most}"

    return check


not_negative: Final = between(0)
not_negative_seconds: Final = between(0, INT64_MAX)
"""For durations that Kubernetes keeps in 64 bits; counts have 32."""

positive: Final = between(1)
positive_seconds: Final = between(1, INT64_MAX)


def percentage(value: object) -> int | None:
    """Return the number of a percentage; None for what is none."""
    return quantity.whole_number(value[:-1]) if isinstance(value, str) and value.endswith("%") else None


# Ways to check the parts of a value.


def entries(value: object) -> dict[str, Any]:
    """Return a map with its keys as text: objects that no reader of files made may have others."""
    return {str(key): part for key, part in mapping(value).items()}


def all_of(*checks: Check) -> Check:
    """Return all of these checks as one."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        for part in checks:
            yield from part(value, at)

    return check


def object_with(by_name: Mapping[str, Check], *object_checks: Check, needs: Sequence[str] = ()) -> Check:
    """Return a check of an object: of its fields, of it as a whole, and that it has what it needs."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        if not isinstance(value, dict):
            return
        for name in needs:
            if value.get(name) in (None, "", [], {}):
                yield (*at, name), Missing("is missing")
        for name, part in by_name.items():
            if value.get(name) is not None:
                yield from part(value[name], (*at, name))
        for part in object_checks:
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
        except (msgspec.MsgspecError, OverflowError, RecursionError, TypeError):
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
            yield from item({} if part is None else part, (*at, index))  # null becomes an empty object
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
        for name, part in entries(value).items():
            yield from key(name, (*at, name))
            if part is not None:
                yield from content(part, (*at, name))

    return check


def exclusive(names: Sequence[str], *, is_needed: bool, what: str) -> Check:
    """Return a check that an object has one of these fields, or at most one."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        present = [name for name in names if value.get(name) is not None]
        if len(present) > 1:
            yield (*at, present[1]), f"cannot stand beside {present[0]}: {what} has one of them"
        elif is_needed and not present:
            yield at, f"has none of {', '.join(names)}"

    return check


# metadata and selectors: ValidateObjectMeta, apimachinery/pkg/apis/meta/v1/validation.


def caseless_name(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a qualified name that may have capital letters in its domain."""
    if any(qualified_name(str(value).lower(), at)):
        yield from qualified_name(value, at)


_PREFIX_MAX: Final = 58


def generated_name(prefix: str, number: int) -> str:
    """Return a name as the API server makes one of `generateName`, five characters longer (SimpleNameGenerator)."""
    return f"{prefix[:_PREFIX_MAX]}{number:05}"


label_map: Final = map_of(qualified_name, all_of(plain_text, label_value))
_annotations: Final = map_of(caseless_name, plain_text)


def metadata_with(name: Check, *, is_needed: bool = True) -> Check:
    """Return a check of an object's metadata, whose name passes this check."""

    def named(value: Any, at: Location) -> Iterator[Refusal]:
        prefix = value.get("generateName")
        if isinstance(prefix, str) and prefix:
            made_up = () if value.get("name") else name(generated_name(prefix, 0), at)
            # Kubernetes checks a prefix with its last dash masked; only whole names may not be one or two dots.
            masked = f"{prefix}a" if prefix in (".", "..") else re.sub("(?<=.)-$", "a", prefix)
            for _, message in (*name(masked, at), *made_up):
                yield (*at, "generateName"), message
        elif is_needed and not value.get("name"):
            yield (*at, "name"), Missing("is missing")

    parts = {"name": name, "namespace": dns_label, "labels": label_map, "annotations": _annotations}
    return object_with(parts, named)


template_metadata: Final = object_with({"labels": label_map, "annotations": _annotations})


def requirement(operators: Mapping[str, Callable[[int], bool]], says: str) -> Check:
    """Return a check of a requirement: its operator, and how many values that takes."""

    def check(value: Any, at: Location) -> Iterator[Refusal]:
        operator, count = str(value.get("operator")), len(sequence(value.get("values")))
        if operator not in operators:
            yield (*at, "operator"), f"{operator!r} is none of {', '.join(operators)}"
        elif not operators[operator](count):
            yield (*at, "values"), f"has {count} entries: {says}"

    return check


WITH_VALUES: Final = {"In": lambda count: count > 0, "NotIn": lambda count: count > 0}
WITHOUT_VALUES: Final = {"Exists": lambda count: not count, "DoesNotExist": lambda count: not count}
WITH_ONE_VALUE: Final = {"Gt": lambda count: count == 1, "Lt": lambda count: count == 1}
VALUES_TAKEN: Final = "In and NotIn take at least one value, Exists and DoesNotExist none"
_of_labels: Final = {"key": qualified_name, "values": list_of(all_of(plain_text, label_value))}

_on_label: Final = requirement({**WITH_VALUES, **WITHOUT_VALUES}, VALUES_TAKEN)
label_selector: Final = object_with(
    {
        "matchLabels": label_map,
        "matchExpressions": list_of(object_with(_of_labels, _on_label, needs=["key"])),
    }
)


# Amounts: validateResourceRequirements, ValidateContainerResourceName; pkg/apis/core/helper/helpers.go.


HUGE: Final = "hugepages-"
_OF_CONTAINERS: Final = ("cpu", "memory", "ephemeral-storage")


def amount_of(value: object, name: str) -> int:
    """Return an amount in the unit of its resource; 0 for what is no amount."""
    try:
        return quantity.parse(str(value), name)
    except InvalidInputError:
        return 0


def is_native(name: str) -> bool:
    """Whether a resource is of Kubernetes, which may be overcommitted."""
    return "/" not in name or "kubernetes.io/" in name


def is_firm(name: str) -> bool:
    """Whether the request for a resource must be its limit (IsOvercommitAllowed)."""
    return not is_native(name) or name.startswith(HUGE)


def _resource_name(name: str) -> str:
    if "/" not in name:
        is_standard = name in _OF_CONTAINERS or name.startswith(HUGE)
        return "" if is_standard else "is no resource of a container: others have a domain, as example.com/name"
    if any(qualified_name(name, ())) or (not is_native(name) and len(name.partition("/")[0]) > 244):
        return "is not a qualified name such as example.com/name"
    return "begins with requests., which is for quotas" if name.startswith("requests.") else ""


def amounts(value: Any, at: Location) -> Iterator[Refusal]:
    """Check the names and the amounts of a list of resources."""
    for name, amount in entries(value).items():
        if message := _resource_name(name):
            yield (*at, name), message
        elif str(amount).startswith("-") and amount_of(str(amount)[1:], name):
            yield (*at, name), f"{amount} is negative"
        elif not is_native(name) and not is_whole(str(amount)):
            yield (*at, name), f"{amount} is not a whole number"


def readable(value: Any, at: Location) -> Iterator[Refusal]:
    """Check that amounts are amounts, where nothing else reads them before they are needed."""
    for name, amount in entries(value).items():
        try:
            quantity.parse("0" if amount is None else str(amount))
        except InvalidInputError as error:
            yield (*at, name), error.problem


def is_whole(amount: str) -> bool:
    """Whether an amount is whole; of what is no amount, the reader of manifests speaks."""
    number = re.fullmatch(r"([0-9]*\.?[0-9]+)m?", amount) if len(amount) <= quantity.LENGTH_MAX else None
    return number is None or (Fraction(number[1]) / (1000 if amount.endswith("m") else 1)).denominator == 1


# What goes with the node: validateOS, validateWindows, validateLinux, validateWindowsSecurityContextOptions,
# validateWindowsHostProcessPod, ValidateProcMountType, ValidateHostSysctl, validateShareProcessNamespace.


def containers_of(spec: Any) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the containers of a pod, each with its field and its index."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec.get(field))):
            yield field, index, mapping(container)


_WINDOWS_USER: Final = re.compile(r"""(?:(?P<domain>[^\\]*)\\)?(?P<user>[^"/\\:;|=,+*?<>@\[\]]{1,104})""").fullmatch
_WINDOWS_DOMAIN: Final = re.compile(
    r"""[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}|(?=.{1,255}\Z)[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"""
    r"(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*"
).fullmatch
_NO_WINDOWS_USER: Final = "no user of Windows, such as ContainerUser or DOMAIN\\user"
_CREDENTIAL_BYTES_MAX: Final = 64 << 10


def _windows_user(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a user of Windows, with an optional domain before a backslash."""
    if not isinstance(value, str):
        return
    parts = _WINDOWS_USER(value)
    if parts is None:
        yield at, f"{value!r} is {_NO_WINDOWS_USER}"
        return
    is_user = parts["user"].strip(". ") and not re.search(r"[\x00-\x1f\x7f]", value)
    if not is_user or (parts["domain"] is not None and not _WINDOWS_DOMAIN(parts["domain"])):
        yield at, f"{value!r} is {_NO_WINDOWS_USER}"


def _credential(value: Any, at: Location) -> Iterator[Refusal]:
    if isinstance(value, str) and not 0 < len(value.encode()) <= _CREDENTIAL_BYTES_MAX:
        yield at, "is empty or larger than 64 KiB"


def _credential_name(value: Any, at: Location) -> Iterator[Refusal]:
    yield from dns_name(value or "_", at)


windows_options: Final = object_with(
    {"gmsaCredentialSpecName": _credential_name, "gmsaCredentialSpec": _credential, "runAsUserName": _windows_user}
)

_NOT_ON_WINDOWS: Final = ("appArmorProfile", "seLinuxOptions", "seccompProfile", "runAsUser", "runAsGroup")
_OF_LINUX_PODS: Final = ("fsGroup", "fsGroupChangePolicy", "supplementalGroups", "supplementalGroupsPolicy")
_OF_LINUX_CONTAINERS: Final = (
    *("capabilities", "readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount"),
)
_HOST_SYSCTLS: Final = (
    ("hostNetwork", ("net.",)),
    ("hostIPC", ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")),
)


def goes_with_host(spec: Any, at: Location) -> Iterator[Refusal]:
    """Check what does not go with the node's operating system, or with its own namespaces."""
    if spec.get("hostPID") is True and spec.get("shareProcessNamespace") is True:
        yield (*at, "shareProcessNamespace"), "cannot be true while hostPID is true"
    of_pod = mapping(spec.get("securityContext"))
    for index, sysctl in enumerate(map(mapping, sequence(of_pod.get("sysctls")))):
        name = str(sysctl.get("name")).replace("/", ".")
        for field, prefixes in _HOST_SYSCTLS:
            if spec.get(field) is True and name.startswith(prefixes):
                yield (
                    (*at, "securityContext", "sysctls", index, "name"),
                    f"{name} is the node's own while {field} is true",
                )
    contexts = [
        ((*at, field, index, "securityContext"), mapping(container.get("securityContext")))
        for field, index, container in containers_of(spec)
    ]
    yield from _on_system(spec, at, contexts)
    yield from _host_processes(spec, at, contexts)


def proc_mounts(spec: Any, at: Location) -> Iterator[Refusal]:
    """Check how containers of a Pod see /proc. Kubernetes 1.31 drops the field from templates."""
    for field, index, container in containers_of(spec):
        place = (*at, field, index, "securityContext", "procMount")
        mount = mapping(container.get("securityContext")).get("procMount")
        if isinstance(mount, str) and mount not in ("Default", "Unmasked"):
            yield place, f"{mount!r} is none of Default, Unmasked"
        elif mount == "Unmasked" and spec.get("hostUsers") is not False:
            yield place, "Unmasked needs hostUsers: false beside the containers"


_Contexts = Sequence[tuple[Location, Mapping[str, Any]]]


def _on_system(spec: Any, at: Location, contexts: _Contexts) -> Iterator[Refusal]:
    """Check what is for another operating system than the one that the pod names."""
    if not isinstance(spec.get("os"), dict):
        return
    system, of_pod = spec["os"].get("name"), mapping(spec.get("securityContext"))
    every = (((*at, "securityContext"), of_pod), *contexts)
    if system in (None, ""):
        yield (*at, "os", "name"), "is missing"
    elif isinstance(system, str) and system not in ("linux", "windows"):
        yield (*at, "os", "name"), f"{system!r} is none of linux, windows"
    elif system == "linux":
        for place, context in every:
            if context.get("windowsOptions") is not None:
                yield (*place, "windowsOptions"), "is not for Linux, which os names"
    elif system == "windows":
        fields = [(at, name, spec) for name in ("hostUsers", "shareProcessNamespace")]
        fields += [(at, name, spec) for name in ("hostPID", "hostIPC") if spec.get(name) is not False]
        fields += [((*at, "securityContext"), name, of_pod) for name in (*_NOT_ON_WINDOWS, *_OF_LINUX_PODS)]
        fields += [((*at, "securityContext"), "sysctls", of_pod)] if of_pod.get("sysctls") else []
        for place, context in contexts:
            fields += [(place, name, context) for name in (*_NOT_ON_WINDOWS, *_OF_LINUX_CONTAINERS)]
        for place, name, holder in fields:
            if holder.get(name) is not None:
                yield (*place, name), "is not for Windows, which os names"


def _host_processes(spec: Any, at: Location, contexts: _Contexts) -> Iterator[Refusal]:
    """Check that all containers run as processes of the node, or none does."""
    of_pod = mapping(mapping(spec.get("securityContext")).get("windowsOptions")).get("hostProcess")
    count = 0
    for place, context in contexts:
        of_container = mapping(context.get("windowsOptions")).get("hostProcess")
        if None not in (of_container, of_pod) and of_container is not of_pod:
            yield (*place, "windowsOptions", "hostProcess"), "differs from the pod's"
        count += of_container is True or (of_container is None and of_pod is True)
    if count and spec.get("hostNetwork") is not True:
        yield (*at, "hostNetwork"), "must be true beside hostProcess: true"
    if 0 < count < len(contexts):
        yield (*at, "containers"), "must all have hostProcess: true, or none"


# What is asked of a table.


def refusals(obj: Mapping[str, Any], check: Check) -> Iterator[tuple[str, str]]:
    """Yield the path of each field for which an API server would refuse an object, and why; the first of each field."""
    before: set[str] = set()
    for location, message in check(obj, ()) if not _is_stored(obj) else ():
        field = path_of(part if type(part) is int else str(part) for part in location)
        if field not in before:
            before.add(field)
            yield field, message


def _is_stored(obj: Mapping[str, Any]) -> bool:
    """Whether an API server has stored the object: it alone writes these fields. A pod with a node was stored before."""
    metadata, spec = mapping(obj.get("metadata")), mapping(obj.get("spec"))
    return any(metadata.get(name) for name in ("uid", "resourceVersion")) or bool(
        spec.get("nodeName") or obj.get("status")
    )
