"""Defines the bundles, what each leaves out, and how large it may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lambdas.wiring import FunctionSpec

MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Bundle:
    """The deployment package of one or more functions.

    Attributes:
        without: Names of locked packages that it leaves out.
        bytes_max: Its size unpacked. A cold start fetches all of it; Lambda itself takes 250 MB.
    """

    name: str
    without: frozenset[str]
    bytes_max: int


SOLVER: Final = Bundle("solver", frozenset(), 60 * MEGABYTE)
BASE: Final = Bundle("base", frozenset({"highspy", "numpy"}), 20 * MEGABYTE)
BUNDLES: Final = (SOLVER, BASE)


def bundle_of(spec: FunctionSpec) -> Bundle:
    """The bundle that a function is deployed with."""
    return SOLVER if spec.needs_solver else BASE


@dataclass(frozen=True, slots=True)
class Platform:
    """Where a bundle runs.

    Attributes:
        architecture: Lambda's name of it, `arm64` or `x86_64`.
        python: The minor version of the interpreter.
    """

    architecture: str = "arm64"
    python: str = "3.13"


LAMBDA: Final = Platform()
