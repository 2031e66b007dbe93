"""Bottlerocket: TOML settings, the user's own with ours laid over `settings.kubernetes`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from core.ami_families.bootstrap import Bootstrap
from core.ami_families.family import AmiFamily
from core.ami_families.image_parameters import LATEST, NEURON, NVIDIA, STANDARD, ImageParameter
from core.ami_families.user_data.toml_text import write_toml
from core.errors import InvalidInputError
from core.model.values.taints import Taint

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
    kubernetes = _table(document, "settings", "kubernetes")
    kubernetes["node-labels"] = {**_table(document, "settings", "kubernetes", "node-labels"), **bootstrap.labels}
    kubernetes["node-taints"] = _taints(bootstrap.taints)
    kubernetes.update(_cluster(bootstrap))
    kubernetes.update(_kubelet(bootstrap.kubelet))
    kubernetes["max-pods"] = bootstrap.max_pods
    if bootstrap.raids_instance_store:
        commands = _table(document, "settings", "bootstrap-commands")
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


def _table(document: dict[str, Any], *path: str) -> dict[str, Any]:
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
    default_volumes=(("/dev/xvda", 4), ("/dev/xvdb", 20)),
    ephemeral_device="/dev/xvdb",
)
