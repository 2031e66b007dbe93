"""What Karpenter's provider for AWS would ask EC2 for, for each case of `request_cases`; recorded.

`python -m tests.oracle --requests FOLDER` builds its program from the folder (Go), asks it, and replaces the recording. The
program drives the provider's own launch and its own validation against the provider's own fake of EC2.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.oracle.request_cases import (
    ADDRESSES,
    AUTHORITY,
    CLUSTER,
    ENDPOINT,
    TYPES,
    ZONES,
    cases,
    node_claim,
    node_pool,
)

RECORDING: Final = Path(__file__).with_name("requests.json.gz")
ACCOUNT: Final = Path(__file__).with_name("account.go")
SECONDS_MAX: Final = 900

_CALLED_AFTER: Final = "\treservations := capacityreservation.NewProvider("
"""The line of its program after which it learns of reservations."""


class Call(msgspec.Struct, frozen=True):
    """A call to EC2 with its members, without those that are empty."""

    call: str
    request: dict[str, Any]


class Asked(msgspec.Struct, frozen=True):
    """What a case asks for.

    Attributes:
        launch: The calls of the launch.
        validation: The calls that validate the class.
        refusal: Why nothing was launched, or why the class is not ready; empty if neither.
    """

    launch: tuple[Call, ...] = ()
    validation: tuple[Call, ...] = ()
    refusal: str = ""


@cache
def recorded() -> dict[str, Asked]:
    """Case → what the provider asks for."""
    return msgspec.json.decode(gzip.decompress(RECORDING.read_bytes()), type=dict[str, Asked])


def build(folder: Path, at: Path) -> Path:
    """Build the provider's program with our account beside it, and return its path.

    Raises:
        RuntimeError: If its source has changed so that our part has no place in it.
    """
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir(parents=True)
    for path in sorted(folder.iterdir()):
        if path.is_file():
            (at / path.name).write_bytes(path.read_bytes())
    shutil.copy(ACCOUNT, at / ACCOUNT.name)
    source = at / "requests.go"
    lines = source.read_text().splitlines()
    places = [index for index, line in enumerate(lines) if line.startswith(_CALLED_AFTER)]
    if len(places) != 1:
        raise RuntimeError(f"{folder.name}/requests.go: there is no line {_CALLED_AFTER.strip()!r}")
    lines.insert(places[0] + 1, "\tknowReservations(ctx, reservations, classes)")
    source.write_text("\n".join(lines) + "\n")
    command = ["go", "build", "-mod=mod", "-o", "ORACLE", "."]
    subprocess.run(command, cwd=at, timeout=SECONDS_MAX, check=True)  # noqa: S603 - Go builds the given source
    return at / "ORACLE"


def record(provider: Path, descriptions: Path) -> dict[str, Asked]:
    """Ask the provider, and replace the recording."""
    answers: dict[str, Asked] = {}
    for addresses, (services, dns) in ADDRESSES.items():
        asked = {name: pair for name, pair in cases().items() if pair[0].addresses == addresses}
        claims = [node_claim(name, case) for name, (case, _) in asked.items()]
        objects = [*map(node_pool, asked), *(written for _, written in asked.values()), *claims]
        options = ["-types", str(descriptions), "-only", ",".join(TYPES), "-zones", ",".join(ZONES)]
        options += ["-cluster", CLUSTER, "-endpoint", ENDPOINT, "-ca", AUTHORITY, "-cidr", services, "-dns", dns]
        for row in _answers(provider, objects, options):
            answers[row["class"]] = _asked(row)
    RECORDING.write_bytes(gzip.compress(msgspec.json.encode(answers, order="sorted"), mtime=0))
    return answers


def _answers(provider: Path, objects: Iterable[Any], options: list[str]) -> Any:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write("\n".join(map(json.dumps, objects)))
        file.flush()
        command = [str(provider), "requests", "-f", file.name, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)  # noqa: S603 - the program that the caller names
    if done.returncode:
        raise RuntimeError(f"{provider.name} requests: {done.stderr.strip()}")
    return json.loads(done.stdout)


def _asked(row: dict[str, Any]) -> Asked:
    (launch,) = row["launches"]
    validation = row["validation"]
    condition = validation.get("condition", {})
    refusal = condition.get("reason", "") if condition.get("status") == "False" else ""
    return Asked(
        launch=_calls(launch.get("calls")),
        validation=_calls(validation.get("calls")),
        refusal=refusal or launch.get("error", "") or validation.get("error", ""),
    )


def _calls(found: Any) -> tuple[Call, ...]:
    return tuple(Call(call["call"], call["request"]) for call in found or ())
