"""User data of Amazon Linux 2 and of Windows: a script that calls the image's own bootstrap."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from core.ami_families.bootstrap import Bootstrap
from core.ami_families.user_data.kubelet_args import kubelet_args
from core.ami_families.user_data.mime import SHELL, Part, is_archive, read_archive, write_archive
from core.ami_families.user_data.shell_text import bash_quoted, powershell_quoted
from core.errors import InvalidInputError
from core.model.values.label_syntax import shown

_LOG_EVERYTHING: Final = "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1"
_WINDOWS_BOOTSTRAP: Final = r"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
_POWERSHELL: Final = (
    ("cluster.name", "-EKSClusterName"),
    ("cluster.endpoint", "-APIServerEndpoint"),
    ("cluster.certificateAuthority", "-Base64ClusterCA"),
    ("spec.kubelet", "-KubeletExtraArgs"),
    ("spec.kubelet.clusterDNS", "-DNSClusterIP"),
)
"""Where an argument comes from, and its name; in the order of the call."""


def al2_user_data(bootstrap: Bootstrap) -> str:
    """A MIME archive: the user's documents, then the call of `bootstrap.sh`.

    Raises:
        InvalidInputError: If the user's archive is broken, or a setting has no place in a script.
    """
    return write_archive((*_users_parts(bootstrap.user_data), Part.of(SHELL, _bootstrap_script(bootstrap))))


def windows_user_data(bootstrap: Bootstrap) -> str:
    """A PowerShell block: the user's commands, then the call of the bootstrap script.

    Raises:
        InvalidInputError: If a setting has no place in a script.
    """
    arguments = _arguments(bootstrap)
    call = [
        f"{name} {powershell_quoted(arguments[field], field=field)}" for field, name in _POWERSHELL if arguments[field]
    ]
    own = [bootstrap.user_data.rstrip()] if bootstrap.user_data.strip() else []
    script = [
        f'[string]$EKSBootstrapScriptFile = "{_WINDOWS_BOOTSTRAP}"',
        f"& $EKSBootstrapScriptFile {' '.join(call)}",
    ]
    return "\n".join(["<powershell>", *own, *script, "</powershell>"])


def _arguments(bootstrap: Bootstrap) -> dict[str, str]:
    """What either bootstrap script is told, by the field that it comes from."""
    cluster = bootstrap.cluster
    return {
        "cluster.name": cluster.name,
        "cluster.endpoint": cluster.endpoint,
        "cluster.certificateAuthority": cluster.certificate_authority,
        "spec.kubelet": kubelet_args(bootstrap),
        "spec.kubelet.clusterDNS": _address(bootstrap.cluster_dns[0]) if bootstrap.cluster_dns else "",
    }


def _address(text: str) -> str:
    try:
        ip_address(text.replace("%", " "))  # a zone after a percent sign may be any text
    except ValueError as error:
        raise InvalidInputError(f"{shown(text)} is no address", field="spec.kubelet.clusterDNS") from error
    return text


def _bootstrap_script(bootstrap: Bootstrap) -> str:
    quoted = {field: bash_quoted(text, field=field) for field, text in _arguments(bootstrap).items()}
    dns = bootstrap.cluster_dns
    call = f"/etc/eks/bootstrap.sh {quoted['cluster.name']} --apiserver-endpoint {quoted['cluster.endpoint']}"
    if bootstrap.cluster.certificate_authority:
        call += f" --b64-cluster-ca {quoted['cluster.certificateAuthority']}"
    options = ["--ip-family ipv6"] if dns and ":" in dns[0] else []
    options += [f"--dns-cluster-ip {quoted['spec.kubelet.clusterDNS']}"] if dns else []
    options += ["--use-max-pods false", f"--kubelet-extra-args {quoted['spec.kubelet']}"]
    if bootstrap.raids_instance_store:
        options.append("--local-disks raid0")
    return "\n".join(["#!/bin/bash -xe", _LOG_EVERYTHING, " \\\n".join([call, *options])])


def _users_parts(text: str) -> tuple[Part, ...]:
    if not text.strip():
        return ()
    return read_archive(text) if is_archive(text) else (Part.of(SHELL, text),)
