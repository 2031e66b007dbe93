"""Pods of a public trace: Alibaba's GPU cluster "openb", published with "Beware of Fragmentation" (USENIX ATC 2023)."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmarks.workloads.ec2 import LABEL, ec2_cluster, gpu_types, plain_types
from benchmarks.workloads.manifests import PodShape, Workload, numbered, requirement
from core.api.objects import JsonObject

_CPU_FILE: Final = "openb-pods-cpu250.csv.gz"
_GPU_FILE: Final = "openb-pods-gpuspec33.csv.gz"
_EC2_MODELS: Final = {
    "T4": ("t4",),
    "P100": ("t4",),
    "A10": ("a10g",),
    "V100M16": ("v100",),
    "V100M32": ("v100",),
    "G2": ("a10g", "l4"),
    "G3": ("a100",),
}
"""GPU model of the trace → the models of EC2 that replace it."""


def openb_cpu(data: Path, catalogue: JsonObject) -> Workload:
    """Return its pods without GPUs."""
    shapes = (_shape(row) for row in _rows(data / _CPU_FILE) if row["num_gpu"] == "0")
    return Workload(numbered(shapes), ec2_cluster(), plain_types(catalogue))


def openb_gpu(data: Path, catalogue: JsonObject) -> Workload:
    """Return its pods with GPUs that some type holds; a third of them name models. A share of a GPU counts as one."""
    kept = gpu_types(catalogue)
    shapes = (_shape(row) for row in _rows(data / _GPU_FILE) if row["num_gpu"] != "0")
    return Workload(numbered(shape for shape in shapes if _is_sold(shape, kept)), ec2_cluster(), kept)


def files_missing(data: Path) -> list[str]:
    """Which of the trace's files are not in the data folder."""
    return [name for name in (_CPU_FILE, _GPU_FILE) if not (data / name).is_file()]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        yield from csv.DictReader(file)


def _shape(row: Mapping[str, str]) -> PodShape:
    models = sorted({ours for theirs in row["gpu_spec"].split("|") for ours in _EC2_MODELS.get(theirs, ())})
    spec: JsonObject = {}
    if models:
        term = {"matchExpressions": [requirement(f"{LABEL}gpu-name", "In", *models)]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec = {"affinity": {"nodeAffinity": required}}
    return PodShape(
        cpu=int(row["cpu_milli"]),
        memory=int(row["memory_mib"]),
        gpus=int(row["num_gpu"]),
        labels={"app": "openb"},
        spec=spec,
    )


def _is_sold(shape: PodShape, catalogue: JsonObject) -> bool:
    """Whether some type is large enough and of the right model, with a generous allowance for DaemonSets."""
    for kind in catalogue["instanceTypes"]:
        if _models(shape) and kind["requirements"][f"{LABEL}gpu-name"][0] not in _models(shape):
            continue
        holds_cpu = int(kind["capacity"]["cpu"]) * 1000 >= shape.cpu + 2000
        holds_memory = int(kind["capacity"]["memory"].removesuffix("Mi")) >= shape.memory * 1.1 + 2048
        if holds_cpu and holds_memory and int(kind["capacity"]["nvidia.com/gpu"]) >= shape.gpus:
            return True
    return False


def _models(shape: PodShape) -> list[str]:
    affinity = shape.spec.get("affinity")
    if not affinity:
        return []
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    models: list[str] = required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
    return models
