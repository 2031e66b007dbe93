"""What node sizing and booting depend on in an AMI family (Karpenter's AWS provider, feature flags of `amifamily`)."""

from __future__ import annotations

from typing import Final

import msgspec

_GIB: Final = 2**30


class AmiFamily(msgspec.Struct, frozen=True, kw_only=True):
    """One AMI family.

    Attributes:
        alias: Its name in an alias such as `al2023@latest`; empty for Custom, which has none.
        eni_limited_memory_overhead: kubeReserved memory follows the interface limit instead of the resolved pod count.
        pods_per_core: The kubelet setting `podsPerCore` is honoured.
        eni_limited_pods: Pods are limited by interface addresses; otherwise to 110.
        ephemeral_device: Device that holds pods' ephemeral storage.
        default_volumes: Device → GiB of the volumes that a node has when the class names none.
    """

    name: str
    alias: str = ""
    eni_limited_memory_overhead: bool = True
    pods_per_core: bool = True
    eni_limited_pods: bool = True
    ephemeral_device: str = "/dev/xvda"
    default_volumes: tuple[tuple[str, int], ...] = (("/dev/xvda", 20),)
    windows_build: str = ""

    @property
    def is_windows(self) -> bool:
        """Whether its nodes run Windows."""
        return bool(self.windows_build)

    @property
    def default_ephemeral_bytes(self) -> int:
        """Size of the ephemeral device when the class says nothing; Custom counts as 20 GiB."""
        return dict(self.default_volumes).get(self.ephemeral_device, 20) * _GIB


def _windows(year: int, build: str) -> AmiFamily:
    return AmiFamily(
        name=f"Windows{year}",
        alias=f"windows{year}",
        eni_limited_memory_overhead=False,
        eni_limited_pods=False,
        ephemeral_device="/dev/sda1",
        default_volumes=(("/dev/sda1", 50),),
        windows_build=build,
    )


AL2: Final = AmiFamily(name="AL2", alias="al2")
AL2023: Final = AmiFamily(name="AL2023", alias="al2023")
BOTTLEROCKET: Final = AmiFamily(
    name="Bottlerocket",
    alias="bottlerocket",
    eni_limited_memory_overhead=False,
    pods_per_core=False,
    ephemeral_device="/dev/xvdb",
    default_volumes=(("/dev/xvda", 4), ("/dev/xvdb", 20)),
)
CUSTOM: Final = AmiFamily(name="Custom", default_volumes=())
WINDOWS: Final = (
    _windows(2019, "10.0.17763"),
    _windows(2022, "10.0.20348"),
    _windows(2025, "10.0.26100"),
)

FAMILIES: Final = {family.name: family for family in (AL2, AL2023, BOTTLEROCKET, CUSTOM, *WINDOWS)}
BY_ALIAS: Final = {family.alias: family for family in FAMILIES.values() if family.alias}
