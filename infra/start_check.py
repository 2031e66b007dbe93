"""A hook of CodeDeploy: checks before a new version gets traffic that it can start and read its cluster.

The stack deploys this file inline, with the SDK of Lambda's runtime. It is in no bundle, since it checks the bundles.
"""

import json
import os
import time
from typing import Any

import boto3
from botocore.config import Config

EVENT = {"source": "fleetwright.start-check"}
"""The event with `adapters.messages.START_CHECK` as its source."""

CHECK_SECONDS = 310
"""The longest wait for an answer: longer than any function's time-out. The SDK would ask again after a minute."""

TRIES, PAUSE_SECONDS = 40, 5.0
"""A function with a concurrency of one refuses the check while it runs: `reconcile` for at most two minutes."""


def handler(event: dict[str, Any], _context: object) -> None:
    """Invoke the version that this deployment brings, and tell CodeDeploy the result."""
    deploy = boto3.client("codedeploy")
    deployment = deploy.get_deployment(deploymentId=event["DeploymentId"])["deploymentInfo"]
    version = json.loads(os.environ["VERSIONS"])[deployment["deploymentGroupName"]]
    config = Config(read_timeout=CHECK_SECONDS, retries={"total_max_attempts": 1})
    problem = problem_of(boto3.client("lambda", config=config), version)
    print(json.dumps({"version": version, "problem": problem}))  # noqa: T201 - the log is where people look
    deploy.put_lifecycle_event_hook_execution_status(
        deploymentId=event["DeploymentId"],
        lifecycleEventHookExecutionId=event["LifecycleEventHookExecutionId"],
        status="Failed" if problem else "Succeeded",
    )


def problem_of(functions: Any, version: str) -> str:
    """Return why the version cannot start; empty if it can."""
    later = (functions.exceptions.TooManyRequestsException, functions.exceptions.SnapStartNotReadyException)
    for _ in range(TRIES):
        try:
            answer = functions.invoke(FunctionName=version, Payload=json.dumps(EVENT))
        except later:
            time.sleep(PAUSE_SECONDS)
            continue
        except Exception as error:  # noqa: BLE001 - whatever it is, the version must not get traffic
            return str(error)
        return answer["Payload"].read().decode()[:1000] if answer.get("FunctionError") else ""
    return f"busy for {TRIES * PAUSE_SECONDS:.0f} seconds: its concurrency is taken, or its snapshot not ready"
