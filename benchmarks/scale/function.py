"""Runs one function once beside the served cluster, in this process, and prints its figures as one JSON object."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

import boto3
import urllib3

from adapters.composition.functions import Adapters
from adapters.ports import JsonObject
from adapters.runtime import SystemClock
from benchmarks.scale.names import NOW, claim_name, instance_id
from benchmarks.scale.records import COMMAND
from benchmarks.scale.server import CLUSTER
from core.catalogue.build import CatalogueBuilder, MarketFacts
from core.model.catalogue import Catalogue
from installation.settings import Settings
from installation.wiring import BY_NAME
from lambdas import bootstrap
from lambdas.application.controllers import Application
from simulator.market.embedded import builtin_market, builtin_shapes

REGION: Final = "us-east-1"


PREPARED_SECONDS: Final = 120
"""How long the server may take to add pods."""

PATIENCE: Final = 5
"""Timeouts last this many times as long: the served cluster shares the processors, and work that is put off is not measured.
What the function takes of its own timeout is judged by its processor seconds."""


class Context:
    """Lambda's context of the invocation."""

    memory_limit_in_mb = 0
    invoked_function_arn = function_version = log_stream_name = log_group_name = "measured"

    def __init__(self, function: str) -> None:
        self.function_name = function
        self.aws_request_id = "00000000-0000-4000-8000-000000000000"
        self._until = time.monotonic() + PATIENCE * BY_NAME[function].timeout.total_seconds()

    def get_remaining_time_in_millis(self) -> int:
        """How long the invocation may still run."""
        return max(0, round(1000 * (self._until - time.monotonic())))


SKIPPING: Final = ("disrupt", "reconcile")
"""The functions that skip observations after a run that found nothing to do."""

BETWEEN: Final = timedelta(hours=1)
"""Time between measured invocations of these functions; no resync period is longer."""


class Clock(SystemClock):
    """The cluster's clock, which advances with the machine's."""

    later: ClassVar = timedelta(0)
    """Advance the clock between invocations: otherwise, functions would skip all but the first."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def now(self) -> Any:
        """The present moment."""
        return NOW + timedelta(seconds=time.monotonic() - self._began) + Clock.later


class Market:
    """The built-in market, as a sandbox caches it after the first reading."""

    def __init__(self) -> None:
        self._builder = CatalogueBuilder(builtin_shapes(), builtin_market(REGION))

    def facts(self) -> MarketFacts | None:
        """Return no facts: the measured runs never call it."""
        return None

    def save(self, facts: MarketFacts) -> None:
        """Store nothing."""

    def catalogue(self, node_classes: Sequence[JsonObject]) -> Catalogue:
        """The catalogue for these classes."""
        return self._builder.catalogue(node_classes)


def main() -> None:
    """Measure the function that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("function")
    parser.add_argument("--url", required=True)
    parser.add_argument("--new", type=int, nargs="*", default=[0])
    arguments = parser.parse_args()
    _environment(arguments.url)
    bootstrap.use(lambda: _application(arguments.url))
    handler = getattr(import_module(f"lambdas.handlers.{arguments.function}"), "handler")  # noqa: B009 - not typed
    handler_calls = _events(arguments.function, 1 + len(arguments.new))
    before = _peak()
    result = {"baseMegabytes": before, **_measured(handler, arguments, handler_calls)}
    sys.stdout.write("\n" + json.dumps(result) + "\n")


def _measured(handler: Callable[..., Any], arguments: argparse.Namespace, events: Sequence[JsonObject]) -> JsonObject:
    seconds, processor, peaks, requests, answer = [], [], [], [], {}
    function = arguments.function
    for event, new in zip(events, (0, *arguments.new), strict=False):
        urllib3.request("GET", f"{arguments.url}/new/{new}", retries=False, timeout=PREPARED_SECONDS)
        urllib3.request("GET", f"{arguments.url}/counts")
        began, worked = time.perf_counter(), time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            answer = handler(event, Context(function))
        seconds.append(round(time.perf_counter() - began, 2))
        processor.append(round(time.process_time() - worked, 2))
        peaks.append(_peak())
        requests.append(urllib3.request("GET", f"{arguments.url}/counts").json())
        if function in SKIPPING:
            Clock.later += BETWEEN
    counts = {name: value for name, value in answer.items() if isinstance(value, int)}
    return {
        "peakMegabytes": _peak(),
        "peakMegabytesByRun": peaks,
        "seconds": seconds,
        "processorSeconds": processor,
        "requests": requests,
        "counts": counts,
    }


def _peak() -> int:
    """The peak resident memory, megabytes; `getrusage` would include the starting process before the fork."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    kilobytes = next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]
    return int(kilobytes) // 1024


def _events(function: str, runs: int) -> list[JsonObject]:
    """Return the events for the invocations of one sandbox. Most functions get two: the second finds what the first kept."""
    if function == "execute":
        bodies = [json.dumps({"claim": claim_name(index)}) for index in range(10)]
        execution = [json.dumps({"command": COMMAND})]
        return [{"Records": [{"messageId": body, "body": body} for body in batch]} for batch in (bodies, execution)]
    if function == "interrupt":
        detail = {"instance-id": instance_id(17)}
        kind = "EC2 Spot Instance Interruption Warning"
        return [{"source": "aws.ec2", "detail-type": kind, "detail": detail}] * 2
    return [{}] * runs


def _application(url: str) -> Application:
    settings = Settings(
        cluster_name=CLUSTER,
        table_name="table",
        bucket_name="bucket",
        wake_up_queue_url=f"{url}/wake-ups",
        work_queue_url=f"{url}/work",
        look_queue_url=f"{url}/looks",
        schedule_group="windows",
        schedule_role_arn="arn:aws:iam::123456789012:role/windows",
    )
    session = boto3.Session(aws_access_key_id="k", aws_secret_access_key="s", region_name=REGION)  # noqa: S106 - no secret
    return Application(Adapters(settings, session, Clock(), catalogues=Market()))


def _environment(url: str) -> None:
    os.environ |= {
        "AWS_ENDPOINT_URL": url,
        "AWS_SQS_MD5_VALIDATION": "false",
        "POWERTOOLS_SERVICE_NAME": "measured",
        "POWERTOOLS_METRICS_NAMESPACE": "Fleetwright",
    }


if __name__ == "__main__":
    main()
