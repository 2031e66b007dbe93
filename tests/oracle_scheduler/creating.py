"""Asks an API server's own registry, built from Kubernetes' sources, which objects it refuses to create."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, Final

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
    lines = "\n".join(json.dumps(obj) for obj in objects)
    done = subprocess.run(  # noqa: S603 - our own program
        [program, *emulated], input=lines, capture_output=True, text=True, check=True
    )
    return [json.loads(line)["refused"] for line in done.stdout.splitlines()]


_VALUES: Final = (
    *(
        None,
        "",
        "a b",
        "UPPER",
        "a.b",
        "a_b",
        "a/b/c",
        "..",
        "/a",
        "x" * 300,
        "true",
        "5",
        "50%",
        "150%",
        "10Gb",
        "-1Gi",
    ),
    *("500m", -1, 0, 1.5, 1 << 40, True, [], {}, [1]),
)
"""What people write by mistake in one field or another."""


def changed_at_random(objects: Sequence[Json], count: int, seed: int) -> Iterator[Json]:
    """Yield objects with one part taken away, repeated, or replaced by an odd value."""
    dice = Random(seed)  # noqa: S311 - a test's dice
    for _ in range(count):
        changed = deepcopy(dice.choice(objects))
        *above, last = dice.choice(
            [path for path in _paths(changed) if path[:1] not in ((), ("apiVersion",), ("kind",))]
        )
        holder: Any = changed
        for step in above:
            holder = holder[step]
        kind = dice.randrange(8)
        if kind == 0:
            del holder[last]
        elif kind == 1 and isinstance(holder, list):
            holder.append(deepcopy(holder[last]))
        else:
            holder[last] = deepcopy(dice.choice(_VALUES))
        yield changed


def _paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield at
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(part, (*at, key))
