"""What Karpenter's provider for AWS makes of every instance type and EC2NodeClass of `configurations`; recorded.

`python -m tests.oracle --provider ORACLE` asks it: a program of a few lines around the provider's own functions, which answers
`types` and `userdata` for manifests in a file. EC2's descriptions are those that moto ships, of which our built-in types are.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.oracle.request_cases import classes

RECORDING: Final = Path(__file__).with_name("resolved.json.gz")
SECONDS_MAX: Final = 300
LABELS: Final = {"karpenter.sh/nodepool": "default", "team": "a"}
TAINT: Final = "dedicated=a:NoSchedule"

_REGISTERED: Final = {**LABELS, "karpenter.sh/do-not-sync-taints": "true"}
_TAINTS: Final = (
    {"key": "dedicated", "value": "a", "effect": "NoSchedule"},
    {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
)
"""What Karpenter's launches add besides."""


class Size(msgspec.Struct, frozen=True):
    """A type under one class: quantities of capacity and of what is allocatable, without those that are zero."""

    capacity: dict[str, str]
    allocatable: dict[str, str]


class Resolved(msgspec.Struct, frozen=True):
    """The answers.

    Attributes:
        labels: Instance type → family → label → values, of labels that a node has.
        sizes: Instance type → class → size.
        user_data: Class → user data.
    """

    labels: dict[str, dict[str, dict[str, list[str]]]]
    sizes: dict[str, dict[str, Size]]
    user_data: dict[str, str]


@cache
def resolved() -> Resolved:
    """Return the recorded answers."""
    return msgspec.json.decode(gzip.decompress(RECORDING.read_bytes()), type=Resolved)


def record(provider: Path, descriptions: Path) -> Resolved:
    """Ask the provider, and replace the recording.

    Raises:
        RuntimeError: If it cannot answer for a type, or prints an error.
    """
    labels: dict[str, dict[str, dict[str, list[str]]]] = {}
    sizes: dict[str, dict[str, Size]] = {}
    types = _asked(provider, "types", classes(), "-types", str(descriptions))
    for class_name, rows in sorted(types.items()):
        family = class_name.partition(".")[0]
        for row in rows:
            if "error" in row:
                raise RuntimeError(f"{class_name}: {row['name']}: {row['error']}")
            kept = {key: values for key, values in row["labels"].items() if isinstance(values, list)}
            labels.setdefault(row["name"], {})[family] = kept
            sizes.setdefault(row["name"], {})[class_name] = Size(_held(row["capacity"]), _held(row["allocatable"]))
    texts = _asked(
        provider,
        "userdata",
        classes(with_max_pods=True),
        "-labels",
        ",".join(f"{key}={value}" for key, value in _REGISTERED.items()),
        "-taints",
        json.dumps(_TAINTS),
    )
    answers = Resolved(labels, sizes, {row["name"]: row.get("userData", "") for row in texts})
    RECORDING.write_bytes(gzip.compress(msgspec.json.encode(answers, order="sorted"), mtime=0))
    return answers


def _asked(provider: Path, verb: str, manifests: Iterable[Any], *options: str) -> Any:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write("\n".join(map(json.dumps, manifests)))
        file.flush()
        command = [str(provider), verb, "-f", file.name, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)  # noqa: S603 - the program that the caller names
    if done.returncode:
        raise RuntimeError(f"{provider.name} {verb}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def _held(quantities: dict[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in quantities.items() if amount != "0"}
