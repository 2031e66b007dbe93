"""Measures cold starts: `python -m benchmarks.cold_start` starts each function from its bundle, in separate processes.

The bundles are built for this machine, for the Python version of Lambda; bytecode, pruning and imports are as deployed. A start
lasts until the function's controller exists: import of the handler, settings, clients. It makes no calls.
"""

from __future__ import annotations

import json
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from infra.packaging.build import build
from infra.packaging.bundles import BUNDLES, LAMBDA, Platform, bundle_of
from infra.packaging.bytecode import interpreter
from infra.packaging.dependencies import MACHINES, ROOT
from installation.wiring import FUNCTIONS, FunctionSpec

FOLDER: Final = ROOT / "build" / "cold-start"
RESULT: Final = ROOT / "build" / "cold-start.json"
RUNS: Final = 15
"""Processes for each function; the first of them reads the files into the page cache."""

GOAL_MILLISECONDS: Final = {"base": 400, "solver": 600}
"""The goal for a cold start's processor time, by bundle."""

CONTROLLERS: Final = {
    "watch_audit_log": "audit_log",
    "provision": "provisioning",
    "disrupt": "disruption",
    "execute": "execution",
    "interrupt": "interruptions",
    "reconcile": "reconciliation",
    "refresh_catalogue": "catalogue_refresh",
}
"""Function → the attribute of the application that it uses."""

ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
    "CLUSTER_NAME": "prod",
    "TABLE_NAME": "table",
    "BUCKET_NAME": "bucket",
    "WAKE_UP_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/1/wake-ups",
    "WORK_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/1/work",
    "LOOK_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/1/looks",
    "SCHEDULE_GROUP": "group",
    "SCHEDULE_ROLE_ARN": "arn:aws:iam::1:role/role",
    "KILL_SWITCH_PARAMETER": "/fleetwright/prod/mode",
    "POWERTOOLS_SERVICE_NAME": "fleetwright-prod",
}

START: Final = """
import sys, time, resource
from importlib import import_module
begun = time.process_time()
function, controller = sys.argv[1:]
import_module(f"lambdas.handlers.{function}")
imported = time.process_time()
getattr(import_module("lambdas.bootstrap").application(), controller)
done = time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print((imported - begun) * 1000, (done - imported) * 1000, peak, len(sys.modules))
"""


def main() -> int:
    """Print a line for each function and write build/cold-start.json; return 1 if one exceeds its goal."""
    here = Platform(_architecture(), LAMBDA.python)
    shutil.rmtree(FOLDER, ignore_errors=True)
    for bundle in BUNDLES:
        build(FOLDER / bundle.name, bundle, here)
    found = {spec.name: _measure(spec) for spec in FUNCTIONS}
    RESULT.write_text(json.dumps({"python": LAMBDA.python, "runs": RUNS, "functions": found}, indent=1) + "\n")
    for name, result in found.items():
        print(name, *(f"{key}={value}" for key, value in result.items()))
    return int(not all(result["cpuMilliseconds"] <= result["goalMilliseconds"] for result in found.values()))


def _measure(spec: FunctionSpec) -> Mapping[str, Any]:
    runs = [_start(spec) for _ in range(RUNS)][1:]
    imports, controllers, peaks, modules = (statistics.median(column) for column in zip(*runs, strict=True))
    return {
        "bundle": bundle_of(spec).name,
        "importMilliseconds": round(imports),
        "controllerMilliseconds": round(controllers),
        "cpuMilliseconds": round(imports + controllers),
        "goalMilliseconds": GOAL_MILLISECONDS[bundle_of(spec).name],
        "peakMegabytes": round(peaks),
        "modules": round(modules),
    }


def _start(spec: FunctionSpec) -> tuple[float, float, float, float]:
    folder = FOLDER / bundle_of(spec).name
    command = [interpreter(LAMBDA.python), "-c", START, spec.name, CONTROLLERS[spec.name]]
    answer = subprocess.run(  # noqa: S603 - our own program
        command, cwd=folder, env={**ENVIRONMENT, "PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        sys.exit(f"{spec.name} does not start:\n{answer.stderr}")
    imports, controller, peak, modules = map(float, answer.stdout.split()[:4])
    return imports, controller, peak, modules


def _architecture() -> str:
    return next(ours for ours, theirs in MACHINES.items() if theirs == platform.machine())


if __name__ == "__main__":
    sys.exit(main())
