"""Pods of the openb trace (Alibaba GPU cluster, 2023): they appear at their creation time and vanish at their deletion."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from core.errors import InvalidInputError
from simulator.scenario.form import Trace

FORMAT: Final = "openb"
_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time")


class TracedPod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod; times count from the trace's `from`, which is the scenario's start."""

    manifest: dict[str, Any]
    appears: timedelta
    vanishes: timedelta


def read_trace(path: Path, trace: Trace) -> list[TracedPod]:
    """The pods that were created between `from` and `to`, in the order of the file.

    Raises:
        InvalidInputError: If the file cannot be read or is none of this format.
    """
    if trace.format != FORMAT:
        raise InvalidInputError(f"{trace.format!r} is not {FORMAT}", field="spec.trace.format")
    found = []
    for number, row in enumerate(_rows(path), start=2):
        try:
            created, deleted = int(row["creation_time"]), int(row["deletion_time"])
            if created >= trace.since and (trace.until is None or created <= trace.until):
                found.append(_pod(row, created - trace.since, deleted - trace.since, trace.namespace))
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"line {number}: {error}", subject=str(path)) from error
    return found


def _rows(path: Path) -> Iterator[Mapping[str, str]]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot be read: {error}", subject=str(path)) from error
    reader = csv.DictReader(io.StringIO(text))
    missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise InvalidInputError(f"has no column {', '.join(missing)}", subject=str(path))
    yield from reader


def _pod(row: Mapping[str, str], appears: int, vanishes: int, namespace: str) -> TracedPod:
    requests = {"cpu": f"{int(row['cpu_milli'])}m", "memory": f"{int(row['memory_mib'])}Mi"}
    # A share of a GPU is given as one GPU and thousandths of it; a node's device plugin hands out whole ones.
    gpus = max(int(row["num_gpu"]), 1 if int(row["gpu_milli"]) > 0 else 0)
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return TracedPod(
        manifest={
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": row["name"], "namespace": namespace, "labels": {"app": "openb"}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "main",
                        "image": "openb",
                        "resources": {"requests": {**requests, **limits}, **({"limits": limits} if limits else {})},
                    }
                ],
            },
        },
        appears=timedelta(seconds=appears),
        vanishes=timedelta(seconds=max(vanishes, appears)),
    )
