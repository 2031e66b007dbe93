"""Defines the bundles: which packages each leaves out, and its size limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from installation.wiring import FunctionSpec

MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Bundle:
    """The deployment package of one or more functions.

    Attributes:
        without: Names of locked packages that it leaves out.
        bytes_max: The limit on its unpacked size. A cold start fetches the whole bundle; Lambda's own limit is 250 MB.
    """

    name: str
    without: frozenset[str]
    bytes_max: int


CLIENTS: Final = frozenset({"boto3", "s3transfer"})
"""Packages that no function imports: functions create their clients with botocore (`adapters.aws.session`)."""

SOLVER: Final = Bundle("solver", CLIENTS, 64 * MEGABYTE)
BASE: Final = Bundle("base", CLIENTS | {"highspy", "numpy"}, 20 * MEGABYTE)
BUNDLES: Final = (SOLVER, BASE)


def bundle_of(spec: FunctionSpec) -> Bundle:
    """Return the bundle that a function is deployed with."""
    return SOLVER if spec.needs_solver else BASE


@dataclass(frozen=True, slots=True)
class Platform:
    """Where a bundle runs.

    Attributes:
        architecture: Lambda's name of the architecture, `arm64` or `x86_64`.
        python: The minor version of the interpreter.
    """

    architecture: str = "arm64"
    python: str = "3.13"


LAMBDA: Final = Platform()
