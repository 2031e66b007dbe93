"""Removes the parts of installed packages that no function uses. The import closure of the result is checked afterwards."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

AWS_SERVICES: Final = (
    "arc-zonal-shift",
    "cloudwatch",
    "dynamodb",
    "ec2",
    "eks",
    "iam",
    "pricing",
    "s3",
    "scheduler",
    "service-quotas",
    "sns",
    "sqs",
    "ssm",
    "stepfunctions",
)
"""Services whose descriptions stay in botocore; those of all services take 28 MB. A test compares the list with the calls of
the functions."""

OPERATIONS: Final = {
    "cloudwatch": ("DescribeAlarms",),
    "dynamodb": (
        "BatchGetItem",
        "BatchWriteItem",
        "DeleteItem",
        "GetItem",
        "PutItem",
        "Query",
        "TransactWriteItems",
        "UpdateItem",
    ),
    "ec2": (
        "CreateFleet",
        "CreateLaunchTemplate",
        "CreateTags",
        "DeleteLaunchTemplate",
        "DescribeCapacityReservations",
        "DescribeImages",
        "DescribeInstanceStatus",
        "DescribeInstanceTypeOfferings",
        "DescribeInstanceTypes",
        "DescribeInstances",
        "DescribeLaunchTemplates",
        "DescribePlacementGroups",
        "DescribeSecurityGroups",
        "DescribeSpotPriceHistory",
        "DescribeSubnets",
        "RunInstances",
        "TerminateInstances",
    ),
    "eks": ("DescribeCluster",),
    "iam": (
        "AddRoleToInstanceProfile",
        "CreateInstanceProfile",
        "DeleteInstanceProfile",
        "GetInstanceProfile",
        "ListInstanceProfiles",
        "RemoveRoleFromInstanceProfile",
    ),
    "s3": ("GetObject", "PutObject"),
    "service-quotas": ("ListServiceQuotas",),
    "sns": ("Publish",),
    "sqs": ("SendMessage", "SendMessageBatch"),
    "ssm": ("GetParameter", "GetParameters"),
}
"""Operations that stay in a service's description: EC2's has 700, and reading it takes a tenth of a second of a cold start."""

ENDPOINTS: Final = frozenset({*AWS_SERVICES, "api.pricing", "monitoring", "servicequotas", "states", "sts"})
"""Endpoint names of the services that stay in the table of endpoints: reading all 300 takes 20 ms."""

ANYWHERE: Final = ("**/tests", "**/*.pyi", "**/*.pxd", "**/*.h", "**/*.a", "**/*.rst", "bin")
"""Tests, types and headers: needed for development, not at run time."""

UNUSED: Final = (
    "aws_lambda_powertools/event_handler",
    "backports/zstd/_cffi",  # for PyPy
    "backports/zstd/tarfile.py",
    "backports/zstd/zipfile",
    "botocore/data/*/*/examples-1.json",
    "dateutil/zoneinfo/*.tar.gz",  # calendars read tzdata
    "highspy/libhighs.so.*.*",  # the same file as libhighs.so.N, which the extension is linked against
    "numpy/_core/_*_tests.*",
    "numpy/_core/_simd.*",  # for numpy's own tests
    "numpy/_core/include",
    "numpy/_core/lib",
    "numpy/_pyinstaller",
    "numpy/linalg/lapack_lite.*",
    "numpy/conftest.py",
    "numpy/core",  # old names
    "numpy/ctypeslib",
    "numpy/f2py",
    "numpy/fft",
    "numpy/lib/recfunctions.py",
    "numpy/ma/mrecords.py",
    "numpy/ma/testutils.py",
    "numpy/matlib.py",
    "numpy/polynomial",
    "numpy/random/_examples",
    "numpy/testing",
    "pydantic/mypy.py",
    "pydantic/v1",  # the previous release
    "tzdata/zoneinfo/*.tab",  # lists of zones
    "tzdata/zoneinfo/leapseconds",
    "tzdata/zoneinfo/tzdata.zi",  # all zones again, as text
    "urllib3/contrib/emscripten",
)
"""Parts of packages that nothing imports. numpy loads some of them by name on first use, which no function does."""

KEPT_UTILITIES: Final = ("__init__.py", "jmespath_utils", "typing")
"""Entries of aws_lambda_powertools/utilities that stay."""


def prune(folder: Path) -> None:
    """Remove from installed packages what no function needs."""
    for pattern in (*ANYWHERE, *UNUSED):
        _remove(sorted(folder.glob(pattern)))
    utilities = folder / "aws_lambda_powertools" / "utilities"
    _remove(path for path in sorted(utilities.glob("*")) if path.name not in KEPT_UTILITIES)
    for about in sorted(folder.glob("*.dist-info")):
        _remove(path for path in sorted(about.glob("*")) if path.name != "METADATA")
        # Scanners read name and version from it; the project's description begins below the first empty line.
        metadata_file = about / "METADATA"
        metadata_file.write_text(
            metadata_file.read_text(encoding="utf-8").partition("\n\n")[0] + "\n", encoding="utf-8"
        )
    _prune_descriptions(folder / "botocore" / "data")


def _prune_descriptions(data: Path) -> None:
    """Keep only the newest description of each service that is called, and compress the endpoints."""
    for service in sorted(path for path in data.glob("*") if path.is_dir()):
        versions = sorted(service.glob("*"))
        _remove([service] if service.name not in AWS_SERVICES else versions[:-1])
    for name, operations in OPERATIONS.items():
        for description in sorted(data.glob(f"{name}/*/service-2.json.gz")):
            document = json.loads(gzip.decompress(description.read_bytes()))
            description.write_bytes(_packed(_with_operations(document, operations)))
    endpoints = data / "endpoints.json"
    if endpoints.exists():
        table = _with_endpoints(json.loads(endpoints.read_text(encoding="utf-8")))
        endpoints.with_name("endpoints.json.gz").write_bytes(_packed(table))
        endpoints.unlink()


def _packed(document: Mapping[str, Any]) -> bytes:
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)


def _with_endpoints(endpoints: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the table of endpoints with only the services that are called, in all partitions."""

    def kept(services: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: service for name, service in services.items() if name in ENDPOINTS}

    return {
        **endpoints,
        "partitions": [{**part, "services": kept(part["services"])} for part in endpoints["partitions"]],
    }


def _with_operations(description: Mapping[str, Any], operations: Collection[str]) -> Mapping[str, Any]:
    """Return a description with only these operations and the shapes that they reach."""
    kept = {
        name: _undocumented(operation) for name, operation in description["operations"].items() if name in operations
    }
    shapes: dict[str, Any] = {}
    waiting = sorted(_shapes_in(kept))
    while waiting:
        name = waiting.pop()
        if name not in shapes:
            shapes[name] = _undocumented(description["shapes"][name])
            waiting += sorted(_shapes_in(shapes[name]))
    return {**description, "operations": kept, "shapes": shapes}


def _undocumented(described: Any) -> Any:
    """Return a part of a description without its documentation texts; a member named `documentation` is a shape, and stays."""
    if isinstance(described, list):
        return [_undocumented(part) for part in described]
    if not isinstance(described, dict):
        return described
    return {
        key: _undocumented(part)
        for key, part in described.items()
        if not (key == "documentation" and isinstance(part, str))
    }


def _shapes_in(described: object) -> set[str]:
    """Return the names of the shapes that a part of a description refers to."""
    if isinstance(described, list):
        return set().union(*map(_shapes_in, described))
    if not isinstance(described, dict):
        return set()
    shapes = {described["shape"]} if isinstance(described.get("shape"), str) else set()
    return shapes.union(*map(_shapes_in, described.values()))


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
