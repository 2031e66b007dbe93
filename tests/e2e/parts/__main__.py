"""`python -m tests.e2e.parts`: build what is missing, start every part once, stop it, and say how long each step took."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.e2e.functions.package import package
from tests.e2e.parts import builds
from tests.e2e.parts.control_plane import ControlPlane
from tests.e2e.parts.dynamodb_local import DynamoDBLocal
from tests.e2e.parts.processes import LackingError, PartError, Processes

LACKING: Final = 2


def main() -> int:
    """Exit code 2: the parts cannot be had here (standard error says why, its last line in short); 1: anything else is wrong.

    Only a missing tool and a registry that nobody reaches are no fault of the sources. A module that does not compile, a
    dependency without a wheel or a build that takes too long is one.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.parts", description=__doc__)
    parser.add_argument("--build-only", action="store_true", help="start nothing")
    parser.add_argument(
        "--built", action="store_true", help="build and start nothing: say whether all programs are built"
    )
    arguments = parser.parse_args()
    if arguments.built and (unbuilt := builds.unbuilt()):
        return _cannot(f"make e2e builds {', '.join(unbuilt)}.")
    if lacking := builds.missing(to_build=bool(builds.unbuilt())):
        return _cannot(" ".join(lacking))
    try:
        with _timed("built"):
            builds.binaries()
            package()
    except LackingError as error:
        print(error, file=sys.stderr)
        return _cannot(str(error).partition("\n")[0])
    except PartError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.build_only or arguments.built:
        return 0
    try:
        _start_and_stop()
    except PartError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _cannot(why: str) -> int:
    print(f"The real parts cannot be had here: {why}", file=sys.stderr)
    return LACKING


def _start_and_stop() -> None:
    folder = Path(tempfile.mkdtemp(prefix="fleetwright-e2e-"))
    with Processes(folder / "logs") as processes:
        with _timed("DynamoDB Local ready"):
            DynamoDBLocal(processes).start()
        plane = ControlPlane(processes, folder / "control-plane")
        with _timed("control plane ready"):
            plane.start()
        print(f"server {plane.admin.version()}, logs in {processes.logs}")
        with _timed("API server stopped and started again"):
            plane.stop_api_server()
            plane.start_api_server()
        with _timed("control plane stopped"):
            plane.stop()


@contextmanager
def _timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{time.monotonic() - began:6.1f} s  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
