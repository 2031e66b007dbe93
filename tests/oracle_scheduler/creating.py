"""Asks an API server's own registry, built from Kubernetes' sources, which objects it refuses to create."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.e2e.parts import builds
from tests.e2e.parts.processes import LackingError
from tests.oracle_scheduler.asking import Json

SOURCES: Final = Path(__file__).with_name("apiserver")
VERSIONS: Final = tuple(f"1.{minor}" for minor in range(31, 38))
"""The versions that EKS runs; the program is of the last one, and emulates the gates of the others."""


def build() -> Path:
    """Return the program, built once for all checkouts of a user.

    Raises:
        LackingError: If Go or its modules are not here.
    """
    if shutil.which("go") is None:
        raise LackingError("the API server's rules were not asked: Go is not here")
    return builds.kept_program("apiserver", SOURCES)


def refusals(program: Path, objects: Iterable[Json], version: str = VERSIONS[-1]) -> list[list[str]]:
    """Return for each object what an API server of a version says against it; nothing where it creates the object."""
    emulated = ["-emulate", version] if version != VERSIONS[-1] else []
    asked = "\n".join(json.dumps(obj) for obj in objects)
    done = subprocess.run(  # noqa: S603 - our own program
        [program, *emulated], input=asked, capture_output=True, text=True, check=True
    )
    return [json.loads(line)["refused"] for line in done.stdout.splitlines()]
