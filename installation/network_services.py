"""The services of AWS that functions in a VPC call: infra makes endpoints for them, and the command line looks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GATEWAYS: Final = ("dynamodb", "s3")
"""Services with a gateway endpoint, which is free and needs entries in route tables."""

INTERFACES: Final = ("arc-zonal-shift", "ec2", "eks", "monitoring", "scheduler", "sqs", "ssm")
"""Services with an interface endpoint, which costs by hour and zone. IAM is missing: it has one in a single region only."""

ANNOUNCING: Final = "sns"
"""Service of the topics on which `disrupt` announces commands; no function calls it otherwise."""

DISTRIBUTING: Final = "states"
"""Service of the state machine that has functions decide about the parts of a large cluster."""

SERVICES: Final = tuple(sorted((*GATEWAYS, *INTERFACES)))
OPTIONAL: Final = (ANNOUNCING, DISTRIBUTING)
"""Services that only some installations call."""

BY_SETTING: Final[Mapping[str, tuple[str, ...]]] = {
    "arc-zonal-shift": ("ZONAL_SHIFT_CLUSTER_ARN",),
    "monitoring": ("PAUSING_ALARMS",),
    ANNOUNCING: ("APPROVAL_TOPIC_ARN", "COMMAND_TOPIC_ARN"),
    DISTRIBUTING: ("PARTS_MACHINE_ARN",),
}
"""Service → environment variables. Functions call the service only if one of them is set."""


def called(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the services that functions with these environment variables call."""
    names = (*SERVICES, *OPTIONAL)
    return tuple(name for name in names if name not in BY_SETTING or any(map(environment.get, BY_SETTING[name])))
