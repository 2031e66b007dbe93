"""What a node of Amazon Linux 2 reads when it starts."""

from __future__ import annotations

import msgspec

from core.ami_families.al2 import AL2
from tests.unit.ami_families.nodes import CLUSTER, changed, documents


def test_an_al2_node_calls_the_bootstrap_script() -> None:
    """AL2 nodes still exist on clusters that have not moved on."""
    block = {
        "systemReserved": {"memory": "100Mi"},
        "evictionHard": {"memory.available": "7%"},
        "evictionSoft": {"nodefs.available": "9%"},
        "evictionSoftGracePeriod": {"nodefs.available": "2m"},
        "podsPerCore": 2,
    }
    text = AL2.user_data(changed(kubelet=block, raids_instance_store=True, user_data="#!/bin/sh\necho x\n"))
    own, script = (str(part.get_payload()) for part in documents(text))
    assert own.strip() == "#!/bin/sh\necho x"
    assert "/etc/eks/bootstrap.sh 'shop' --apiserver-endpoint 'https://api.example' --b64-cluster-ca 'Q0E='" in script
    assert "--use-max-pods false" in script
    assert "--local-disks raid0" in script
    expected = (
        '--node-labels="karpenter.sh/nodepool=general,team=a" '
        '--register-with-taints="gpu=yes:NoSchedule,karpenter.sh/unregistered:NoExecute" --max-pods=29 '
        '--pods-per-core=2 --system-reserved="memory=100Mi" --eviction-hard="memory.available<7%" '
        '--eviction-soft="nodefs.available<9%" --eviction-soft-grace-period="nodefs.available=2m"'
    )
    assert f"--kubelet-extra-args '{expected}'" in script


def test_an_option_that_nothing_is_known_for_is_left_out() -> None:
    """The script asks EKS for what it is not given; an empty address would be taken for one."""
    cluster = msgspec.structs.replace(CLUSTER, certificate_authority="", service_cidr="")
    script = AL2.user_data(changed(cluster=cluster))
    assert [
        option
        for option in ("--b64-cluster-ca", "--dns-cluster-ip", "--ip-family", "--local-disks")
        if option in script
    ] == []


def test_user_data_of_blanks_is_no_document() -> None:
    assert len(documents(AL2.user_data(changed(user_data=" \n")))) == 1
