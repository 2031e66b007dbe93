"""The functions' bundle: our packages and the pinned runtime dependencies for Lambda's arm64, built without Docker.

`python -m infra.packaging build/package` makes it; `bundle()` says what `app.py` should deploy. Where an interpreter of the
functions' version is at hand the bundle carries bytecode: Lambda cannot keep any, and would compile at every cold start.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "build" / "package"
SOURCES = ("core", "lambdas")
PYTHON_VERSION = "3.13"
MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
"""What wheels call Lambda's architectures."""
GLIBCS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34")
"""All of them: with fewer, pip quietly settles for old releases that have wheels."""
TASK_ROOT = "/var/task"
"""Where Lambda unpacks the bundle; tracebacks name files there."""
PROVIDED = ("boto3",)
"""Part of Lambda's own runtime."""


def build(target: Path, *, architecture: str = "arm64", python: str = PYTHON_VERSION) -> None:
    """Fill `target` with a fresh bundle.

    Args:
        target: The folder; what is there goes.
        architecture: Lambda's name of it, `arm64` or `x86_64`.
        python: The version of Python that runs it.

    Raises:
        subprocess.CalledProcessError: If a dependency has no wheel for the platform.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    install(target, requirements(), architecture=architecture, python=python)
    add_sources(target, python)


def install(target: Path, packages: list[str], *, architecture: str, python: str) -> None:
    """Put wheels of these packages, and of what they need, into `target`, with bytecode.

    Raises:
        subprocess.CalledProcessError: If one has no wheel for the platform.
    """
    subprocess.run(  # noqa: S603 - fixed arguments
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(target)]
        + [f"--platform={glibc}_{MACHINES[architecture]}" for glibc in GLIBCS]
        + ["--implementation=cp", f"--python-version={python}", "--only-binary=:all:", "--no-compile"]
        + packages,
        check=True,
    )
    _compile(target, python)


def add_sources(target: Path, python: str = PYTHON_VERSION) -> None:
    """Put our own packages beside the dependencies."""
    _copy_sources(target)
    for source in SOURCES:
        _compile(target / source, python, beneath=source)


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


def _compile(folder: Path, python: str, *, beneath: str = "") -> None:
    """Bytecode that is never checked against the sources: unpacking gives them other times."""
    interpreter = _interpreter(python)
    if interpreter is not None:
        deployed = str(PurePosixPath(TASK_ROOT) / beneath)
        command = ["-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", f"-s{folder}", f"-p{deployed}"]
        subprocess.run([interpreter, *command, str(folder)], check=True)  # noqa: S603 - fixed arguments


def _interpreter(python: str) -> str | None:
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = shutil.which(f"python{python}")
    works = found is not None and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0  # noqa: S603
    return found if works else None


if __name__ == "__main__":
    build(Path(sys.argv[1]))
