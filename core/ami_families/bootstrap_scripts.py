"""The kubelet's command line, for families whose bootstrap takes one (AL2, Windows). Same settings, same text.

The line is parsed several times: by a shell, by systemd, which splits it at blanks and quotes, and by the kubelet, which splits
values at commas. Nothing in it may therefore contain any of these; the content of labels and taints is checked before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from core import labels
from core.ami_families.al2023 import SHELL, Part, for_cloud_init, is_archive, read_archive, write_archive
from core.ami_families.family import (
    LATEST,
    NEURON,
    NVIDIA,
    STANDARD,
    AmiFamily,
    Bootstrap,
    ImageParameter,
    KubernetesVersion,
)
from core.errors import InvalidInputError
from core.model.values.requirements import shown

_MAPPINGS: Final = (
    ("systemReserved", "system-reserved", "="),
    ("kubeReserved", "kube-reserved", "="),
    ("evictionHard", "eviction-hard", "<"),
    ("evictionSoft", "eviction-soft", "<"),
    ("evictionSoftGracePeriod", "eviction-soft-grace-period", "="),
)
_SCALARS: Final = (
    ("evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"),
    ("imageGCHighThresholdPercent", "image-gc-high-threshold"),
    ("imageGCLowThresholdPercent", "image-gc-low-threshold"),
    ("cpuCFSQuota", "cpu-cfs-quota"),
)
_PIECE: Final = re.compile(r"[A-Za-z0-9.%+µμ-]*")
"""Allows signals, resources, quantities, percentages and durations; no more."""


def kubelet_args(bootstrap: Bootstrap) -> str:
    """All arguments, separated by spaces.

    Raises:
        InvalidInputError: If a setting would not stay within its argument; the error names the setting.
    """
    return " ".join(_args(bootstrap))


def _args(bootstrap: Bootstrap) -> Iterator[str]:
    if bootstrap.labels:
        yield _flag("node-labels", ",".join(f"{k}={v}" for k, v in sorted(bootstrap.labels.items())))
    yield _flag("register-with-taints", ",".join(str(taint) for taint in bootstrap.taints))
    yield f"--max-pods={bootstrap.max_pods}"
    block: Mapping[str, Any] = bootstrap.kubelet
    if block.get("podsPerCore"):
        yield f"--pods-per-core={_number(block, 'podsPerCore')}"
    for setting, flag, sign in _MAPPINGS:
        entries = block.get(setting)
        if entries:
            pieces = {key: _piece(str(entries[key]), f"spec.kubelet.{setting}") for key in sorted(entries)}
            names = {key: _piece(key, f"spec.kubelet.{setting}") for key in pieces}
            yield _flag(flag, ",".join(f"{names[key]}{sign}{pieces[key]}" for key in pieces))
    for setting, flag in _SCALARS:
        if block.get(setting) is not None:
            yield f"--{flag}={_number(block, setting)}"


def _number(block: Mapping[str, Any], setting: str) -> str:
    """A whole number, or true or false."""
    if not isinstance(block[setting], int):
        raise InvalidInputError(f"{shown(str(block[setting]))} is not a number", field=f"spec.kubelet.{setting}")
    return json.dumps(block[setting])


def _piece(text: str, field: str) -> str:
    if _PIECE.fullmatch(text) is None:
        raise InvalidInputError(f"{shown(text)} cannot be part of an argument of the kubelet", field=field)
    return text


def _flag(name: str, value: str) -> str:
    return f"--{name}={json.dumps(value)}"


# The arguments of the bootstrap scripts of AL2 and Windows images: the same values, each script in its own form.


def bootstrap_arguments(bootstrap: Bootstrap) -> dict[str, str]:
    """The values that either bootstrap script gets, by the field that they come from.

    The address of the cluster DNS is always among them: a script that gets endpoint and certificate does not ask EKS,
    and assumes 10.100.0.10 or 172.20.0.10 (awslabs/amazon-eks-ami, issue 636).

    Raises:
        InvalidInputError: If the cluster DNS address is invalid, or a kubelet setting cannot be passed as an argument.
    """
    cluster = bootstrap.cluster
    return {
        "cluster.name": cluster.name,
        "cluster.endpoint": cluster.endpoint,
        "cluster.certificateAuthority": cluster.certificate_authority,
        "spec.kubelet": kubelet_args(bootstrap),
        "spec.kubelet.clusterDNS": bootstrap.dns_address() or cluster.eks_dns_ip,
    }


# Quotes text that a script passes on as one argument, for the shell that reads the script.
#
# The programs behind the shell parse some arguments again (systemd splits the kubelet's), so quoting alone is not enough:
# `core.ami_families.bootstrap_scripts` also restricts the characters in such an argument.


_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_POWERSHELL_QUOTES: Final = re.compile("['\u2018\u2019\u201a\u201b]")
"""PowerShell ends a text at any of these, and reads two of them as one."""

_BLOCK_END: Final = re.compile(r"</\s*(?:powershell|script|persist)", re.IGNORECASE)
"""EC2Launch splits Windows user data at its tags before any shell sees it; they cannot be quoted."""


def bash_quoted(text: str, *, field: str) -> str:
    """One word of a bash script.

    Raises:
        InvalidInputError: If the text has control characters; `field` says where it comes from.
    """
    _refuse(_CONTROL, text, field)
    return "'" + text.replace("'", "'\\''") + "'"


def powershell_quoted(text: str, *, field: str) -> str:
    """Return one argument of a PowerShell command in Windows user data.

    Raises:
        InvalidInputError: If the text has control characters, or would end the block that the script is in.
    """
    _refuse(_CONTROL, text, field)
    _refuse(_BLOCK_END, text, field)
    return "'" + _POWERSHELL_QUOTES.sub(lambda match: match[0] * 2, text) + "'"


def _refuse(pattern: re.Pattern[str], text: str, field: str) -> None:
    if pattern.search(text):
        raise InvalidInputError(f"{shown(text)} cannot be part of a script", field=field)


# Amazon Linux 2: a shell script in a MIME archive that calls the image's own `bootstrap.sh`.


_LOG_EVERYTHING: Final = "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1"


def al2_user_data(bootstrap: Bootstrap) -> str:
    """A MIME archive: the user's documents, then the call of `bootstrap.sh`.

    Raises:
        InvalidInputError: If the user's archive is broken, or a setting has no place in a script.
    """
    return write_archive((*_users_parts(bootstrap.user_data), Part.of(SHELL, _bootstrap_script(bootstrap))))


def _bootstrap_script(bootstrap: Bootstrap) -> str:
    arguments = bootstrap_arguments(bootstrap)
    quoted = {field: bash_quoted(text, field=field) for field, text in arguments.items()}
    dns = arguments["spec.kubelet.clusterDNS"]
    call = f"/etc/eks/bootstrap.sh {quoted['cluster.name']} --apiserver-endpoint {quoted['cluster.endpoint']}"
    if bootstrap.cluster.certificate_authority:
        call += f" --b64-cluster-ca {quoted['cluster.certificateAuthority']}"
    options = ["--ip-family ipv6"] if ":" in dns else []
    options += [f"--dns-cluster-ip {quoted['spec.kubelet.clusterDNS']}"] if dns else []
    options += ["--use-max-pods false", f"--kubelet-extra-args {quoted['spec.kubelet']}"]
    if bootstrap.raids_instance_store:
        options.append("--local-disks raid0")
    return "\n".join(["#!/bin/bash -xe", _LOG_EVERYTHING, " \\\n".join([call, *options])])


def _users_parts(text: str) -> tuple[Part, ...]:
    if not text.strip():
        return ()
    return read_archive(text) if is_archive(text) else (for_cloud_init(text),)


def _images(kubernetes: str, release: str) -> tuple[ImageParameter, ...]:
    variants = (
        ("", "amazon-eks-node", (STANDARD,)),
        ("-arm64", "amazon-eks-arm64-node", (STANDARD,)),
        ("-gpu", "amazon-eks-gpu-node", (NEURON, NVIDIA)),
    )
    root = f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2"
    parameters = []
    for suffix, name, serves in variants:
        segment = "recommended" if release == LATEST else f"{name}-{kubernetes}-{release}"
        parameters.append(ImageParameter(f"{root}{suffix}/{segment}/image_id", serves))
    return tuple(parameters)


AL2: Final = AmiFamily(
    name="AL2",
    alias="al2",
    renderer=al2_user_data,
    images=_images,
    kubernetes_until=(1, 32),
)


# Windows: a PowerShell block that calls the image's own bootstrap script. One family a release of Windows Server.


_WINDOWS_BOOTSTRAP: Final = r"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
_POWERSHELL: Final = (
    ("cluster.name", "-EKSClusterName"),
    ("cluster.endpoint", "-APIServerEndpoint"),
    ("cluster.certificateAuthority", "-Base64ClusterCA"),
    ("spec.kubelet", "-KubeletExtraArgs"),
    ("spec.kubelet.clusterDNS", "-DNSClusterIP"),
)
"""The source of each argument and its PowerShell name, in the order of the call."""


def windows_user_data(bootstrap: Bootstrap) -> str:
    """A PowerShell block: the user's commands, then the call of the bootstrap script.

    Raises:
        InvalidInputError: If a setting has no place in a script.
    """
    arguments = bootstrap_arguments(bootstrap)
    call = [
        f"{name} {powershell_quoted(arguments[field], field=field)}" for field, name in _POWERSHELL if arguments[field]
    ]
    head = [bootstrap.user_data.rstrip()] if bootstrap.user_data.strip() else []
    script = [
        f'[string]$EKSBootstrapScriptFile = "{_WINDOWS_BOOTSTRAP}"',
        f"& $EKSBootstrapScriptFile {' '.join(call)}",
    ]
    return "\n".join(["<powershell>", *head, *script, "</powershell>"])


def _windows(year: int, build: str, kubernetes_from: KubernetesVersion | None = None) -> AmiFamily:
    serves = (
        {"key": labels.OS, "operator": "In", "values": ["windows"]},
        {"key": labels.WINDOWS_BUILD, "operator": "In", "values": [build]},
    )

    def images(kubernetes: str, _release: str) -> tuple[ImageParameter, ...]:
        published = f"Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}"
        return (ImageParameter(f"/aws/service/ami-windows-latest/{published}/image_id", (serves,)),)

    return AmiFamily(
        name=f"Windows{year}",
        alias=f"windows{year}",
        renderer=windows_user_data,
        images=images,
        has_releases=False,
        kubernetes_from=kubernetes_from,
        operating_system="windows",
        windows_build=build,
        architectures=("amd64",),
        eni_limited_pods=False,
        eni_limited_memory_overhead=False,
        offers_private_addresses=True,
        default_volumes=(("/dev/sda1", 50),),
        ephemeral_device="/dev/sda1",
    )


WINDOWS2019: Final = _windows(2019, "10.0.17763")
WINDOWS2022: Final = _windows(2022, "10.0.20348")
WINDOWS2025: Final = _windows(2025, "10.0.26100", kubernetes_from=(1, 35))
