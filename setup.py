"""The part of the build that pyproject.toml cannot express: the folders go under one package, with few dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
SHIPPED = ("core", "installation", "adapters", "lambdas", "simulator", "cli")
FUNCTIONS_ONLY = ("aws-lambda-powertools", "boto3", "urllib3")
"""Dependencies of the functions that the CLI does not need to read manifests."""

CDK = ("aws-cdk-lib", "constructs")


def pins(*files: str) -> dict[str, str]:
    """Return name → requirement of these files, with the exact version."""
    lines = [line.partition("#")[0].strip() for file in files for line in (ROOT / file).read_text().splitlines()]
    found = [line for line in lines if line and not line.startswith("-")]
    return {line.partition("==")[0].partition("[")[0]: line for line in found}


def taken(found: dict[str, str], names: Sequence[str]) -> list[str]:
    """Return the requirements of these names."""
    return [found[name] for name in names]


needed = pins("requirements.txt", "requirements-cli.txt")
development = pins("requirements-dev.txt")
packages = find_packages(include=[pattern for name in SHIPPED for pattern in (name, f"{name}.*")])

setup(
    packages=["fleetwright_eks", *(f"fleetwright_eks.app.{name}" for name in packages)],
    package_dir={f"fleetwright_eks.app.{name}": name for name in SHIPPED},
    package_data={
        "fleetwright_eks.app.core": ["py.typed"],
        "fleetwright_eks.app.adapters": ["*.tsv"],
        "fleetwright_eks.app.simulator": ["data/*"],
        "fleetwright_eks.app.cli": ["assets/*", "assets/vendor/*"],
    },
    install_requires=[line for name, line in needed.items() if name not in FUNCTIONS_ONLY],
    extras_require={
        "simulate": [*taken(needed, FUNCTIONS_ONLY), *taken(development, ["moto"])],
        "deploy": taken(development, CDK),
    },
    scripts=["scripts/kubectl-fleetwright"],
)
