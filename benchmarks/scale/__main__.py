"""Measures the functions beside a large cluster: `python -m benchmarks.scale --nodes 5000 --pods 100000`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from core.api.objects import JsonObject
from installation.wiring import BY_NAME

MEASURED: Final = ("provision", "disrupt", "execute", "reconcile", "interrupt")
SHARE_MAX: Final = 0.75
"""The share of its memory and time that a function may use, since larger clusters exist than the measured one."""

WHOLE_PROCESSOR_MB: Final = 1769
"""Memory with which Lambda assigns a whole processor; less memory gives a proportional share."""

LIMIT_SECONDS: Final = 900


def main() -> int:
    """Print a line for each function and write the JSON; returns 1 if one exceeds its share of memory or its time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--pending", type=int, default=0, help="pods that wait for a node, out of all")
    parser.add_argument("--new", type=int, nargs="*", default=[0], help="pods that are new in each run after the first")
    parser.add_argument(
        "--no-watch", action="store_true", help="the API server permits no watch: all is listed each time"
    )
    parser.add_argument("--page-seconds", type=float, default=0.0, help="how long the API server takes for a page")
    parser.add_argument("--only", default=",".join(MEASURED))
    parser.add_argument("--json", type=Path, default=Path("build/scale.json"))
    arguments = parser.parse_args()
    size = [f"--{name}={getattr(arguments, name)}" for name in ("nodes", "pods", "pending")]
    size += [f"--page-seconds={arguments.page_seconds}", *(["--no-watch"] if arguments.no_watch else [])]
    with _served(size) as url:
        measured = {function: _measure(function, url, arguments.new) for function in arguments.only.split(",")}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps({"command": [*sys.argv[1:]], "functions": measured}, indent=1) + "\n")
    return int(not all(result["fits"] for result in measured.values()))


def _measure(function: str, url: str, new: list[int]) -> JsonObject:
    """Measure one function in its own process."""
    command = [sys.executable, "-m", "benchmarks.scale.function", function, "--url", url]
    command += ["--new", *map(str, new)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)  # noqa: S603 - our own module
    if answer.returncode:
        raise SystemExit(f"{function} failed:\n{answer.stderr[-4000:]}")
    figures: JsonObject = json.loads(answer.stdout.splitlines()[-1])  # earlier lines are logs
    spec = BY_NAME[function]
    figures["requestsOfAllRuns"] = dict(sum(map(Counter, figures["requests"]), Counter()))
    figures["memoryMegabytes"] = spec.memory_mb
    figures["lambdaSeconds"] = round(
        max(figures["processorSeconds"]) / min(1.0, spec.memory_mb / WHOLE_PROCESSOR_MB), 1
    )
    figures["share"] = round(figures["peakMegabytes"] / spec.memory_mb, 2)
    figures["fits"] = max(figures["share"], figures["lambdaSeconds"] / spec.timeout.total_seconds()) <= SHARE_MAX
    print(
        f"{function:10} {figures['peakMegabytes']:5} of {spec.memory_mb:5} MB ({figures['share']:.0%}) "
        f"processor {figures['processorSeconds']} s, by the clock {figures['seconds']} s, "
        f"{figures['lambdaSeconds']} s on its share of a Lambda processor; "
        f"{figures['requestsOfAllRuns']}"
    )
    return figures


@contextmanager
def _served(size: list[str]) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.scale.server", *size]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own module
        try:
            port = server.stdout.readline().strip() if server.stdout else ""
            if not port:
                raise SystemExit("the server did not start; its error stands above")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


if __name__ == "__main__":
    sys.exit(main())
