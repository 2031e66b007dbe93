"""The functions' bundle: our packages and the pinned runtime dependencies for Lambda's arm64, built without Docker.

`python -m infra.packaging build/package` makes it; `bundle()` says what `app.py` should deploy.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "build" / "package"
SOURCES = ("core", "lambdas")
PYTHON_VERSION = "3.13"
PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_28_aarch64", "manylinux_2_34_aarch64")
"""All of them: with fewer, pip quietly settles for old releases that have wheels."""
PROVIDED = ("boto3",)
"""Part of Lambda's own runtime."""


def build(target: Path) -> None:
    """Fill `target` with a fresh bundle.

    Raises:
        subprocess.CalledProcessError: If a dependency has no wheel for the platform.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    subprocess.run(  # noqa: S603 - fixed arguments
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(target)]
        + [f"--platform={platform}" for platform in PLATFORMS]
        + ["--implementation=cp", f"--python-version={PYTHON_VERSION}", "--only-binary=:all:", "--no-compile"]
        + requirements(),
        check=True,
    )
    _copy_sources(target)


def requirements() -> list[str]:
    """The pinned runtime dependencies, less what Lambda provides."""
    lines = (line.partition("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines())
    return [line for line in lines if line and line.partition("==")[0] not in PROVIDED]


def bundle() -> tuple[Path, bool]:
    """The folder to deploy, and whether it is complete: without `make package` it is a copy of the sources, for synth alone."""
    if PACKAGE.is_dir():
        return PACKAGE, True
    bare = Path(tempfile.mkdtemp(prefix="fleetwright-"))  # its own for each process: two may synthesize at once
    atexit.register(shutil.rmtree, bare, ignore_errors=True)
    _copy_sources(bare)
    return bare, False


def _copy_sources(target: Path) -> None:
    for source in SOURCES:
        shutil.copytree(ROOT / source, target / source, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))


if __name__ == "__main__":
    build(Path(sys.argv[1]))
