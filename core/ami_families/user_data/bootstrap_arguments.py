"""What the bootstrap scripts of AL2 and Windows images are told: the same facts, each script in its own form."""

from __future__ import annotations

from core.ami_families.bootstrap import Bootstrap
from core.ami_families.user_data.kubelet_args import kubelet_args


def bootstrap_arguments(bootstrap: Bootstrap) -> dict[str, str]:
    """What either bootstrap script is told, by the field that it comes from.

    The cluster DNS is always among it: given endpoint and certificate, the scripts do not ask EKS, and take it for
    10.100.0.10 or 172.20.0.10 (awslabs/amazon-eks-ami, issue 636).

    Raises:
        InvalidInputError: If the address of the cluster DNS is none, or a kubelet setting has no place in an argument.
    """
    cluster = bootstrap.cluster
    return {
        "cluster.name": cluster.name,
        "cluster.endpoint": cluster.endpoint,
        "cluster.certificateAuthority": cluster.certificate_authority,
        "spec.kubelet": kubelet_args(bootstrap),
        "spec.kubelet.clusterDNS": bootstrap.dns_address() or cluster.eks_dns_ip,
    }
