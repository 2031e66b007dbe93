"""User data of Amazon Linux 2 and of Windows: a script that calls the image's own bootstrap."""

from __future__ import annotations

from typing import Final

from core.launch.bootstrap import Bootstrap
from core.launch.kubelet_args import kubelet_args
from core.launch.mime import SHELL, Part, is_archive, read_archive, write_archive

_LOG_EVERYTHING: Final = "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1"
_WINDOWS_BOOTSTRAP: Final = r"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"


def al2_user_data(bootstrap: Bootstrap) -> str:
    """A MIME archive: the user's documents, then the call of `bootstrap.sh`.

    Raises:
        InvalidInputError: If the user's archive is broken.
    """
    return write_archive((*_users_parts(bootstrap.user_data), Part.of(SHELL, _bootstrap_script(bootstrap))))


def windows_user_data(bootstrap: Bootstrap) -> str:
    """A PowerShell block: the user's commands, then the call of the bootstrap script."""
    cluster = bootstrap.cluster
    call = [f"-EKSClusterName '{cluster.name}'", f"-APIServerEndpoint '{cluster.endpoint}'"]
    if cluster.certificate_authority:
        call.append(f"-Base64ClusterCA '{cluster.certificate_authority}'")
    call.append(f"-KubeletExtraArgs '{kubelet_args(bootstrap)}'")
    call += [f"-DNSClusterIP '{ip}'" for ip in bootstrap.cluster_dns[:1]]
    own = [bootstrap.user_data.rstrip()] if bootstrap.user_data.strip() else []
    script = [
        f'[string]$EKSBootstrapScriptFile = "{_WINDOWS_BOOTSTRAP}"',
        f"& $EKSBootstrapScriptFile {' '.join(call)}",
    ]
    return "\n".join(["<powershell>", *own, *script, "</powershell>"])


def _bootstrap_script(bootstrap: Bootstrap) -> str:
    cluster, dns = bootstrap.cluster, bootstrap.cluster_dns
    call = f"/etc/eks/bootstrap.sh '{cluster.name}' --apiserver-endpoint '{cluster.endpoint}'"
    if cluster.certificate_authority:
        call += f" --b64-cluster-ca '{cluster.certificate_authority}'"
    options = ["--ip-family ipv6"] if dns and ":" in dns[0] else []
    options += [f"--dns-cluster-ip '{ip}'" for ip in dns[:1]]
    options += ["--use-max-pods false", f"--kubelet-extra-args '{kubelet_args(bootstrap)}'"]
    if bootstrap.raids_instance_store:
        options.append("--local-disks raid0")
    return "\n".join(["#!/bin/bash -xe", _LOG_EVERYTHING, " \\\n".join([call, *options])])


def _users_parts(text: str) -> tuple[Part, ...]:
    if not text.strip():
        return ()
    return read_archive(text) if is_archive(text) else (Part.of(SHELL, text),)
