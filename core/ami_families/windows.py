"""Windows: a PowerShell block that calls the image's own bootstrap script. One family a release of Windows Server."""

from __future__ import annotations

from typing import Final

from core import labels
from core.ami_families.bootstrap import Bootstrap
from core.ami_families.family import AmiFamily, KubernetesVersion
from core.ami_families.image_parameters import ImageParameter
from core.ami_families.user_data.bootstrap_arguments import bootstrap_arguments
from core.ami_families.user_data.shell_text import powershell_quoted

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
    own = [bootstrap.user_data.rstrip()] if bootstrap.user_data.strip() else []
    script = [
        f'[string]$EKSBootstrapScriptFile = "{_WINDOWS_BOOTSTRAP}"',
        f"& $EKSBootstrapScriptFile {' '.join(call)}",
    ]
    return "\n".join(["<powershell>", *own, *script, "</powershell>"])


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
