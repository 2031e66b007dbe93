"""Amazon Linux 2: a shell script in a MIME archive that calls the image's own `bootstrap.sh`."""

from __future__ import annotations

from typing import Final

from core.ami_families.bootstrap import Bootstrap
from core.ami_families.family import AmiFamily
from core.ami_families.image_parameters import LATEST, NEURON, NVIDIA, STANDARD, ImageParameter
from core.ami_families.user_data.bootstrap_arguments import bootstrap_arguments
from core.ami_families.user_data.mime import SHELL, Part, for_cloud_init, is_archive, read_archive, write_archive
from core.ami_families.user_data.shell_text import bash_quoted

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
    found = []
    for suffix, name, serves in variants:
        segment = "recommended" if release == LATEST else f"{name}-{kubernetes}-{release}"
        found.append(ImageParameter(f"{root}{suffix}/{segment}/image_id", serves))
    return tuple(found)


AL2: Final = AmiFamily(
    name="AL2",
    alias="al2",
    renderer=al2_user_data,
    images=_images,
    kubernetes_until=(1, 32),
)
