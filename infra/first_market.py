"""A custom resource of CloudFormation: has the market read while the stack is deployed, and fails if it cannot be read.

The stack deploys this file inline, with the SDK of Lambda's runtime. It is in no bundle.
"""

import json
import time
import urllib.request
from typing import Any

import boto3
from botocore.config import Config

READING_SECONDS = 310
"""The longest wait for an answer: longer than the time-out of the function that reads the market."""

TRIES, PAUSE_SECONDS = 36, 15.0
"""A scheduled run takes the function's only execution for at most five minutes; all tries together take nine."""

FAILURES_MAX = 4
"""IAM needs some seconds until a role that was just created permits what its policy says."""

REASON_MAX = 1000
"""CloudFormation accepts an answer of 4096 bytes."""


def handler(event: dict[str, Any], context: Any) -> None:
    """Invoke the version that the request names, and tell CloudFormation the result; a deletion needs nothing."""
    problem = ""
    if event["RequestType"] != "Delete":
        try:
            config = Config(read_timeout=READING_SECONDS, retries={"total_max_attempts": 1})
            problem = problem_of(boto3.client("lambda", config=config), event["ResourceProperties"]["Version"], context)
        except Exception as error:  # noqa: BLE001 - without an answer CloudFormation would wait for its time-out
            problem = repr(error)
    print(json.dumps({"request": event["RequestType"], "problem": problem}))  # noqa: T201 - the log is where people look
    _answer(event, problem)


def problem_of(functions: Any, version: str, context: Any) -> str:
    """Return why the version did not read the market; empty if it did."""
    problem, failures = "", 0
    later = (functions.exceptions.TooManyRequestsException, functions.exceptions.SnapStartNotReadyException)
    for _ in range(TRIES):
        try:
            answer = functions.invoke(FunctionName=version, Payload=b"{}")
        except later:
            problem = "the function that reads the market is busy: its concurrency is taken, or its snapshot not ready"
        except Exception as error:  # noqa: BLE001 - whatever it is, CloudFormation shows it
            problem, failures = str(error), failures + 1
        else:
            if not answer.get("FunctionError"):
                return ""
            problem, failures = answer["Payload"].read().decode(), failures + 1
        is_late = context.get_remaining_time_in_millis() < (READING_SECONDS + 2 * PAUSE_SECONDS) * 1000
        if failures == FAILURES_MAX or is_late:
            break
        time.sleep(PAUSE_SECONDS)
    return problem


def _answer(event: dict[str, Any], problem: str) -> None:
    body = {
        "Status": "FAILED" if problem else "SUCCESS",
        "Reason": f"the market was not read: {problem[:REASON_MAX]}" if problem else "the market was read",
        "PhysicalResourceId": event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    # The signature of the URL covers an empty content type.
    request = urllib.request.Request(  # noqa: S310 - CloudFormation's URL of its own bucket
        event["ResponseURL"], data=json.dumps(body).encode(), method="PUT", headers={"Content-Type": ""}
    )
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass
