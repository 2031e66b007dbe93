"""The installation in the simulated account: its names, its settings, and EKS's description of its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from installation import wiring
from installation.settings import Settings
from simulator.aws.brakes import KILL_SWITCH, PAUSING_ALARM
from simulator.aws.errors import AwsError
from simulator.aws.region import Region

ACCOUNT_ID: Final = "123456789012"
CLUSTER: Final = "fleetwright"
NODE_ROLE: Final = "FleetwrightNodeRole"
KUBERNETES_VERSION: Final = "1.32"

TABLE: Final = "fleetwright"
BUCKET: Final = "fleetwright"
GROUP: Final = "fleetwright"
TOPIC: Final = "fleetwright"


def describe_cluster(request: dict[str, Any]) -> dict[str, Any]:
    """Answer `eks:DescribeCluster`."""
    if request["name"] != CLUSTER:
        raise AwsError("ResourceNotFoundException", f"No cluster found for name: {request['name']}.", 404)
    return {
        "cluster": {
            "name": CLUSTER,
            "arn": f"arn:aws:eks:us-east-1:{ACCOUNT_ID}:cluster/{CLUSTER}",
            "version": KUBERNETES_VERSION,
            "endpoint": "https://cluster.simulated.invalid",
            "certificateAuthority": {"data": "c2ltdWxhdGVk"},
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"},
            "status": "ACTIVE",
        }
    }


def settings_in(region: Region, urls: Mapping[str, str], topic_arn: str) -> Settings:
    """Return the functions' settings for an account of this region. `urls`: the queues', by name."""
    return Settings(
        bind_pods=True,
        cluster_name=CLUSTER,
        table_name=TABLE,
        bucket_name=BUCKET,
        wake_up_queue_url=urls[wiring.WAKE_UPS.name],
        work_queue_url=urls[wiring.WORK.name],
        look_queue_url=urls[wiring.RUN_REQUESTS.name],
        schedule_group=GROUP,
        schedule_role_arn=f"arn:aws:iam::{ACCOUNT_ID}:role/fleetwright-schedules",
        kill_switch_parameter=KILL_SWITCH,
        pausing_alarms=PAUSING_ALARM,
        zonal_shift_cluster_arn=f"arn:aws:eks:{region.name}:{ACCOUNT_ID}:cluster/{CLUSTER}",
        surge_restarts=True,
        keep_ledger=False,
        approval_topic_arn=topic_arn,
        disrupt_function_arn=f"arn:aws:lambda:{region.name}:{ACCOUNT_ID}:function:disrupt",
    )
