"""Bottlerocket: TOML settings, the user's own with ours laid over `settings.kubernetes`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any, Final

from core.ami_families.family import LATEST, NEURON, NVIDIA, STANDARD, AmiFamily, Bootstrap, ImageParameter
from core.errors import InvalidInputError
from core.model.values.taints import Taint

# Writes plain data as TOML, which the standard library only reads.


_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+\Z")


def write_toml(document: Mapping[str, object]) -> str:
    """The text of a document, keys and tables in order, values before tables as TOML demands."""
    return "\n".join(_table(document, ())).strip("\n") + "\n"


def _table(table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping) and not _is_array_of_tables(v)}
    if path and (plain or not table):
        yield f"\n[{'.'.join(map(_key, path))}]"
    for key in sorted(plain):
        yield f"{_key(key)} = {_value(plain[key])}"
    for key in sorted(table.keys() - plain.keys()):
        value = table[key]
        if isinstance(value, Mapping):
            yield from _table(value, (*path, key))
        elif isinstance(value, list):
            for row in value:
                yield f"\n[[{'.'.join(map(_key, (*path, key)))}]]"
                yield from (f"{_key(inner)} = {_value(row[inner])}" for inner in sorted(row))


def _is_array_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _key(text: str) -> str:
    return text if _BARE_KEY.match(text) else _string(text)


def _string(text: str) -> str:
    """As in JSON, except that TOML requires the delete character escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(inner) for inner in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(k)} = {_value(value[k])}' for k in sorted(value))}}}"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return repr(value)


_PLAIN_SETTINGS: Final = {
    "systemReserved": "system-reserved",
    "kubeReserved": "kube-reserved",
    "evictionHard": "eviction-hard",
    "evictionSoft": "eviction-soft",
    "evictionSoftGracePeriod": "eviction-soft-grace-period",
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "cpuCFSQuota": "cpu-cfs-quota-enforced",
}
_PERCENT_SETTINGS: Final = {
    "imageGCHighThresholdPercent": "image-gc-high-threshold-percent",
    "imageGCLowThresholdPercent": "image-gc-low-threshold-percent",
}
"""Bottlerocket wants these two as strings."""

_BINDS_BY_ITSELF_SINCE: Final = (1, 46, 0)
_POD_DIRECTORIES: Final = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


def bottlerocket_user_data(bootstrap: Bootstrap) -> str:
    """The settings.

    Raises:
        InvalidInputError: If the user's text is not TOML or lacks a required table, or if `clusterDNS` is not an address.
    """
    document = _read(bootstrap.user_data)
    kubernetes = _table_at(document, "settings", "kubernetes")
    kubernetes["node-labels"] = {**_table_at(document, "settings", "kubernetes", "node-labels"), **bootstrap.labels}
    kubernetes["node-taints"] = _taints(bootstrap.taints)
    kubernetes.update(_cluster(bootstrap))
    kubernetes.update(_kubelet(bootstrap.kubelet))
    kubernetes["max-pods"] = bootstrap.max_pods
    if bootstrap.raids_instance_store:
        commands = _table_at(document, "settings", "bootstrap-commands")
        commands["000-mount-instance-storage"] = _mount_commands(release_of(bootstrap))
    return write_toml(document)


def release_of(bootstrap: Bootstrap) -> str:
    """The release that the node runs, such as `1.46.0` or `latest`: from the alias, else from the image's name, else empty."""
    if bootstrap.alias_release:
        return bootstrap.alias_release.removeprefix("v")
    for token in bootstrap.image_name.split("-"):
        if token.startswith("v") and token[1:2].isdigit():
            return token[1:]
    return ""


def _read(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"not valid TOML: {error}", field="spec.userData") from error


def _table_at(document: dict[str, Any], *path: str) -> dict[str, Any]:
    """Return the table at `path`; create it if it is missing."""
    table = document
    for depth, key in enumerate(path):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            where = ".".join(path[: depth + 1])
            raise InvalidInputError(f"{where} must be a table", field="spec.userData")
    return table


def _cluster(bootstrap: Bootstrap) -> dict[str, Any]:
    cluster = bootstrap.cluster
    settings = {
        "cluster-name": cluster.name,
        "api-server": cluster.endpoint,
        "cluster-certificate": cluster.certificate_authority,
        "cluster-dns-ip": bootstrap.dns_address(),
    }
    return {key: value for key, value in settings.items() if value}


def _kubelet(block: Mapping[str, Any]) -> dict[str, Any]:
    plain = {ours: block[theirs] for theirs, ours in _PLAIN_SETTINGS.items() if block.get(theirs) is not None}
    percent = {ours: str(block[theirs]) for theirs, ours in _PERCENT_SETTINGS.items() if block.get(theirs) is not None}
    return plain | percent


def _taints(taints: tuple[Taint, ...]) -> dict[str, list[str]]:
    by_key: dict[str, list[str]] = {}
    for taint in taints:
        by_key.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    return by_key


def _mount_commands(version: str) -> dict[str, Any]:
    """The commands that mount local disks. Releases before 1.46.0 and unknown ones need the directories to bind."""
    bind = ["apiclient", "ephemeral-storage", "bind"]
    if not _binds_by_itself(version):
        bind += ["--dirs", *_POD_DIRECTORIES]
    return {"commands": [["apiclient", "ephemeral-storage", "init"], bind], "mode": "always", "essential": True}


def _binds_by_itself(version: str) -> bool:
    if version == LATEST:
        return True
    match = _VERSION.match(version)
    return match is not None and tuple(int(group) for group in match.groups()) >= _BINDS_BY_ITSELF_SINCE


def _images(kubernetes: str, release: str) -> tuple[ImageParameter, ...]:
    variants = (
        ("", "x86_64", (STANDARD, NEURON)),
        ("", "arm64", (STANDARD,)),
        ("-nvidia", "x86_64", (NVIDIA,)),
        ("-nvidia", "arm64", (NVIDIA,)),
    )
    segment = release.removeprefix("v")
    root = f"/aws/service/bottlerocket/aws-k8s-{kubernetes}"
    return tuple(
        ImageParameter(f"{root}{suffix}/{architecture}/{segment}/image_id", serves)
        for suffix, architecture, serves in variants
    )


BOTTLEROCKET: Final = AmiFamily(
    name="Bottlerocket",
    alias="bottlerocket",
    renderer=bottlerocket_user_data,
    images=_images,
    unsupported_kubelet_fields=("podsPerCore",),
    eni_limited_memory_overhead=False,
    default_volumes=(("/dev/xvda", 6), ("/dev/xvdb", 20)),
    ephemeral_device="/dev/xvdb",
)
