from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.stub import Stubber

from adapters.aws.ec2.status_checks import InstanceStatuses
from adapters.aws.service import AwsService
from adapters.ports import Impairment

SINCE = datetime(2026, 11, 20, 8, tzinfo=UTC)


def a_status(instance_id: str, field: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"InstanceId": instance_id, field: {"Status": "impaired", "Details": list(details)}}


def test_both_checks_are_read_in_pages_and_only_failed_details_with_a_time_count() -> None:
    """Otherwise, a machine with a broken host is not replaced, or one that is still starting is."""
    client = boto3.client("ec2", region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
    failed = {"Name": "reachability", "Status": "failed", "ImpairedSince": SINCE}
    instance = {"Filters": [{"Name": "instance-status.status", "Values": ["impaired"]}], "MaxResults": 1000}
    system = {"Filters": [{"Name": "system-status.status", "Values": ["impaired"]}], "MaxResults": 1000}
    undated = {"Name": "reachability", "Status": "failed"}
    passed = {"Name": "reachability", "Status": "passed", "ImpairedSince": SINCE}
    pages = [
        (instance, {"InstanceStatuses": [a_status("i-2", "InstanceStatus", failed)], "NextToken": "more"}),
        (instance | {"NextToken": "more"}, {"InstanceStatuses": [a_status("i-3", "InstanceStatus", undated, passed)]}),
        (system, {"InstanceStatuses": [a_status("i-1", "SystemStatus", passed, failed)]}),
    ]
    with Stubber(client) as stub:
        for expected, answer in pages:
            stub.add_response("describe_instance_status", answer, expected)
        found = InstanceStatuses(AwsService(client)).impaired()
        stub.assert_no_pending_responses()
    assert found == (Impairment("i-1", "system", SINCE), Impairment("i-2", "instance", SINCE))
