"""The arguments of the bootstrap scripts of AL2 and Windows images: the same values, each script in its own form."""

from __future__ import annotations

from core.ami_families.bootstrap import Bootstrap
from core.ami_families.user_data.kubelet_args import kubelet_args


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
