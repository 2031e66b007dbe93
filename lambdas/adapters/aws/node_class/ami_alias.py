"""Which public SSM parameters an AMI alias stands for (AWS' documented paths), and which instance types each image is for."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from core import labels

_GPU: Final = f"{labels.AWS_GROUP}/instance-gpu-count"
_NEURON: Final = f"{labels.AWS_GROUP}/instance-accelerator-count"

STANDARD: Final = ({"key": _NEURON, "operator": "DoesNotExist"}, {"key": _GPU, "operator": "DoesNotExist"})
NVIDIA: Final = ({"key": _GPU, "operator": "Exists"},)
NEURON: Final = ({"key": _NEURON, "operator": "Exists"},)

_WINDOWS_BUILDS: Final = {"2019": "10.0.17763", "2022": "10.0.20348", "2025": "10.0.26100"}
_AL2_UNTIL: Final = (1, 32)
_WINDOWS_2025_FROM: Final = (1, 35)


class Parameter(msgspec.Struct, frozen=True):
    """One parameter and the sets of requirements that its image serves."""

    path: str
    serves: tuple[tuple[dict[str, Any], ...], ...]


def parameters_of(alias: str, kubernetes_version: str) -> tuple[Parameter, ...]:
    """The parameters of an alias such as `al2023@latest`, empty for a family that there is none of."""
    family, _, version = alias.partition("@")
    family = family.lower()
    if family == "al2023":
        return _al2023(kubernetes_version, version)
    if family == "bottlerocket":
        return _bottlerocket(kubernetes_version, version)
    if family == "al2":
        return _al2(kubernetes_version, version)
    if family.startswith("windows") and family[7:] in _WINDOWS_BUILDS:
        return _windows(kubernetes_version, family[7:])
    return ()


def unsupported(alias: str, kubernetes_version: str) -> str:
    """Why AWS publishes no such image for this Kubernetes; empty where it does."""
    family, running = alias.partition("@")[0].lower(), _number(kubernetes_version)
    if family == "al2" and running > _AL2_UNTIL:
        return f"AL2 images end with Kubernetes 1.32, the cluster runs {kubernetes_version}: use al2023"
    if family == "windows2025" and running < _WINDOWS_2025_FROM:
        return f"Windows 2025 images begin with Kubernetes 1.35, the cluster runs {kubernetes_version}"
    return ""


def _al2023(kubernetes: str, version: str) -> tuple[Parameter, ...]:
    variants = (
        ("x86_64", "standard", STANDARD),
        ("arm64", "standard", STANDARD),
        ("x86_64", "nvidia", NVIDIA),
        ("arm64", "nvidia", NVIDIA),
        ("x86_64", "neuron", NEURON),
    )
    root = f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023"
    return tuple(
        Parameter(
            f"{root}/{arch}/{variant}/"
            f"{_segment(version, f'amazon-eks-node-al2023-{arch}-{variant}-{kubernetes}-{version}')}/image_id",
            (serves,),
        )
        for arch, variant, serves in variants
    )


def _bottlerocket(kubernetes: str, version: str) -> tuple[Parameter, ...]:
    segment = "latest" if version == "latest" else version.removeprefix("v")
    variants = (
        ("", "x86_64", (STANDARD, NEURON)),
        ("", "arm64", (STANDARD,)),
        ("-nvidia", "x86_64", (NVIDIA,)),
        ("-nvidia", "arm64", (NVIDIA,)),
    )
    return tuple(
        Parameter(f"/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{arch}/{segment}/image_id", serves)
        for suffix, arch, serves in variants
    )


def _al2(kubernetes: str, version: str) -> tuple[Parameter, ...]:
    variants = (
        ("", "amazon-eks-node", (STANDARD,)),
        ("-arm64", "amazon-eks-arm64-node", (STANDARD,)),
        ("-gpu", "amazon-eks-gpu-node", (NEURON, NVIDIA)),
    )
    root = f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2"
    return tuple(
        Parameter(f"{root}{suffix}/{_segment(version, f'{name}-{kubernetes}-{version}')}/image_id", serves)
        for suffix, name, serves in variants
    )


def _windows(kubernetes: str, year: str) -> tuple[Parameter, ...]:
    path = f"/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}/image_id"
    serves = (
        {"key": labels.OS, "operator": "In", "values": ["windows"]},
        {"key": labels.WINDOWS_BUILD, "operator": "In", "values": [_WINDOWS_BUILDS[year]]},
    )
    return (Parameter(path, (serves,)),)


def _segment(version: str, pinned: str) -> str:
    return "recommended" if version == "latest" else pinned


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
