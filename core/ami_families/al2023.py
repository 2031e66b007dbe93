"""User data of Amazon Linux 2023: MIME archives, and the NodeConfig for nodeadm.

Amazon Linux 2023: a MIME archive whose last document is a NodeConfig for nodeadm.

nodeadm merges all NodeConfigs in order, so what we generate comes last and wins (Karpenter's order).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from core.ami_families.family import LATEST, NEURON, NVIDIA, STANDARD, AmiFamily, Bootstrap, ImageParameter
from core.errors import InvalidInputError
from core.model.values.requirements import shown

# MIME multipart user data: how cloud-init and nodeadm take several documents at once.


SHELL: Final = 'text/x-shellscript; charset="us-ascii"'
CLOUD_CONFIG: Final = 'text/cloud-config; charset="us-ascii"'
NODE_CONFIG: Final = "application/node.eks.aws"
_BOUNDARY: Final = re.compile(r"boundary=(?:\"([^\"]+)\"|([^\s;]+))", re.IGNORECASE)
_OUR_BOUNDARY: Final = "//"


class Part(msgspec.Struct, frozen=True):
    """One document: its headers as one block of lines, and its text."""

    headers: str
    body: str

    @classmethod
    def of(cls, content_type: str, body: str) -> Part:
        """A document of this type."""
        return cls(f"Content-Type: {content_type}", body)


def for_cloud_init(text: str) -> Part:
    """Return a user's document for cloud-init: as its configuration if the first line says so, else as a script."""
    first_line = text.lstrip().partition("\n")[0].rstrip()
    return Part.of(CLOUD_CONFIG if first_line == "#cloud-config" else SHELL, text)


def is_archive(text: str) -> bool:
    """Whether the text is a MIME archive itself: whether it begins with one of MIME's headers."""
    return text.lstrip().lower().startswith(("mime-version:", "content-type:"))


def read_archive(text: str) -> tuple[Part, ...]:
    """The documents of an archive, headers kept as written. A missing end marker is forgiven.

    Raises:
        InvalidInputError: If its header names no boundary, or there is nothing between the boundaries.
    """
    lines = text.strip().replace("\r\n", "\n").split("\n")
    blank = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    boundary = _BOUNDARY.search(" ".join(lines[:blank]))
    if boundary is None:
        raise InvalidInputError("the MIME archive's header names no boundary", field="spec.userData")
    marker = "--" + (boundary.group(1) or boundary.group(2))
    parts: list[list[str]] = []
    for line in lines[blank:]:
        if line.rstrip() == marker + "--":
            break
        if line.rstrip() == marker:
            parts.append([])
        elif parts:
            parts[-1].append(line)
    if not parts:
        raise InvalidInputError(f"nothing in the MIME archive follows {marker}", field="spec.userData")
    return tuple(_part(lines) for lines in parts)


def write_archive(parts: Sequence[Part]) -> str:
    """One archive of all documents, in order."""
    boundary = _boundary(parts)
    chunks = [f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{boundary}"\n']
    chunks += [f"--{boundary}\n{part.headers}\n\n{part.body.rstrip()}\n" for part in parts]
    return "\n".join([*chunks, f"--{boundary}--\n"])


def _boundary(parts: Sequence[Part]) -> str:
    """Return Karpenter's boundary, or the first longer one that no line of any document starts with."""
    lines = [line for part in parts for line in (*part.headers.splitlines(), *part.body.splitlines())]
    boundary = _OUR_BOUNDARY
    while any(line.startswith(f"--{boundary}") for line in lines):
        boundary += "/"
    return boundary


def _part(lines: list[str]) -> Part:
    blank = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    return Part("\n".join(lines[:blank]), "\n".join(lines[blank + 1 :]))


# Writes plain data as YAML: mappings and lists in block form, strings quoted as in JSON, which YAML includes.


_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON leaves unescaped in a string and YAML does not accept."""

_KEY_MAX: Final = 128
"""Far below YAML's 1,024, quotes and escapes included."""

_AMBIGUOUS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def write_yaml(value: object) -> str:
    """The text of a document, ending in a newline. Keys keep their order.

    Raises:
        InvalidInputError: If a key is longer than YAML lets one be.
    """
    return "\n".join(_lines(value)) + "\n"


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _entry(f"{_key(str(key))}:", inner)
    elif isinstance(value, list | tuple) and value:
        for inner in value:
            first, *rest = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _entry(key: str, value: object) -> Iterator[str]:
    if isinstance(value, dict | list | tuple) and value:
        yield key
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{key} {next(_lines(value))}"


def _key(text: str) -> str:
    if len(text) > _KEY_MAX:
        raise InvalidInputError(f"{shown(text)} is longer than a key may be in YAML")
    return text if _PLAIN_KEY.match(text) and text.lower() not in _AMBIGUOUS else _scalar(text)


def _scalar(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


_DOCUMENT: Final = re.compile(
    r"(?:[ \r\n]|\ufeff|#[^!\n][^\n]*\n|#\n)*(?:---|\{|[\"']?(?:apiVersion|kind|metadata|spec)[\"']?\s*:)"
)
"""The start of a Kubernetes object in YAML or JSON, after comments. A script that contains an object starts differently."""

_NODE_CONFIG: Final = re.compile(r"(?:^|[{,])\s*[\"']?apiVersion[\"']?\s*:\s*[\"']?node\.eks\.aws/", re.MULTILINE)


def al2023_user_data(bootstrap: Bootstrap) -> str:
    """The archive: the user's documents, then ours.

    Raises:
        InvalidInputError: If the cluster's Service addresses are unknown, or the user's archive is broken.
    """
    if not bootstrap.cluster.service_cidr:
        raise InvalidInputError(
            "AL2023 needs the addresses of the cluster's Services, which are not known", field="spec.amiFamily"
        )
    ours = Part.of(NODE_CONFIG, "# Generated by fleetwright\n" + write_yaml(node_config(bootstrap)))
    return write_archive((*_users_parts(bootstrap.user_data), ours))


def node_config(bootstrap: Bootstrap) -> dict[str, Any]:
    """The NodeConfig (`node.eks.aws/v1alpha1`)."""
    cluster = bootstrap.cluster
    spec: dict[str, Any] = {
        "cluster": {
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.certificate_authority,
            "cidr": cluster.service_cidr,
        }
    }
    if bootstrap.raids_instance_store:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    spec["kubelet"] = {"config": _kubelet_config(bootstrap)}
    if bootstrap.labels:
        pairs = ",".join(f"{key}={value}" for key, value in sorted(bootstrap.labels.items()))
        spec["kubelet"]["flags"] = [f'--node-labels="{pairs}"']
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def _kubelet_config(bootstrap: Bootstrap) -> dict[str, Any]:
    config: dict[str, Any] = {key: bootstrap.kubelet[key] for key in sorted(bootstrap.kubelet)}
    config["maxPods"] = bootstrap.max_pods
    if bootstrap.cluster_dns:
        config["clusterDNS"] = list(bootstrap.cluster_dns)
    config["registerWithTaints"] = [
        {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
        for taint in bootstrap.taints
    ]
    return config


def _users_parts(text: str) -> tuple[Part, ...]:
    if not text.strip():
        return ()
    if is_archive(text):
        return read_archive(text)
    is_config = _DOCUMENT.match(text) is not None and _NODE_CONFIG.search(text) is not None
    return (Part.of(NODE_CONFIG, text) if is_config else for_cloud_init(text),)


def _images(kubernetes: str, release: str) -> tuple[ImageParameter, ...]:
    variants = (
        ("x86_64", "standard", STANDARD),
        ("arm64", "standard", STANDARD),
        ("x86_64", "nvidia", NVIDIA),
        ("arm64", "nvidia", NVIDIA),
        ("x86_64", "neuron", NEURON),
    )
    root = f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023"
    parameters = []
    for architecture, variant, serves in variants:
        pinned = f"amazon-eks-node-al2023-{architecture}-{variant}-{kubernetes}-{release}"
        segment = "recommended" if release == LATEST else pinned
        parameters.append(ImageParameter(f"{root}/{architecture}/{variant}/{segment}/image_id", (serves,)))
    return tuple(parameters)


AL2023: Final = AmiFamily(
    name="AL2023",
    alias="al2023",
    renderer=al2023_user_data,
    images=_images,
    excluded_type_families=("a1",),
    needs_service_cidr=True,
    takes_any_kubelet_field=True,
)
