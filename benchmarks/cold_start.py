"""Measures cold starts: `python -m benchmarks.cold_start` starts each function from its bundle, in separate processes.

The bundles are built for this machine, for the Python version of Lambda; bytecode, pruning and imports are as deployed. A start
lasts until the function's controller exists: import of the handler, settings, clients. It makes no calls.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from infra.packaging.build import build
from infra.packaging.bundles import BUNDLES, LAMBDA, bundle_of
from infra.packaging.bytecode import interpreter
from infra.packaging.dependencies import ROOT
from infra.packaging.start import CONTROLLERS, ENVIRONMENT, host
from installation.wiring import FUNCTIONS, FunctionSpec

FOLDER: Final = ROOT / "build" / "cold-start"
RESULT: Final = ROOT / "build" / "cold-start.json"
RUNS: Final = 15
"""Processes for each function; the first of them reads the files into the page cache."""

GOAL_MILLISECONDS: Final = {"base": 400, "solver": 600}
"""The goal for a cold start's processor time, by bundle."""

START: Final = """
import sys, time
from importlib import import_module
begun = time.process_time()
function, controller = sys.argv[1:]
import_module(f"lambdas.handlers.{function}")
imported = time.process_time()
getattr(import_module("lambdas.bootstrap").application(), controller)
done = time.process_time()
status = open("/proc/self/status").read()  # ru_maxrss would be that of the process that started this one
peak = int(status.partition("VmHWM:")[2].split()[0]) // 1024
print((imported - begun) * 1000, (done - imported) * 1000, peak, len(sys.modules))
"""


def main() -> int:
    """Print a line for each function and write build/cold-start.json; return 1 if one exceeds its goal."""
    here = host(LAMBDA.python)
    shutil.rmtree(FOLDER, ignore_errors=True)
    for bundle in BUNDLES:
        build(FOLDER / bundle.name, bundle, here)
    measured = {spec.name: _measure(spec) for spec in FUNCTIONS}
    RESULT.write_text(json.dumps({"python": LAMBDA.python, "runs": RUNS, "functions": measured}, indent=1) + "\n")
    for name, result in measured.items():
        print(name, *(f"{key}={value}" for key, value in result.items()))
    return int(not all(result["cpuMilliseconds"] <= result["goalMilliseconds"] for result in measured.values()))


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


if __name__ == "__main__":
    sys.exit(main())
