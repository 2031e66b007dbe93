"""The functions' bundle as it is deployed, but for this machine; and beside it what Lambda itself brings."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra import packaging
from tests.e2e.parts.builds import cache_folder, lock
from tests.e2e.parts.processes import PartError

ARCHITECTURE: Final = "x86_64"
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
RUNTIME: Final = ("awslambdaric", "boto3")
"""What Lambda's runtime brings; requirements-dev.txt and requirements.txt pin them."""

KEPT: Final = 3
"""Bundles of former sources that stay in the cache."""


@dataclass(frozen=True)
class Package:
    """Where the functions' code is: `task` is what is deployed, `runtime` what Lambda has already."""

    task: Path
    runtime: Path


def package() -> Package:
    """The package, built where it is not in the cache yet. Raises PartError if pip cannot have what it takes."""
    needed, runtime = packaging.requirements(), _runtime_requirements()
    dependencies = _cached("dependencies", needed, lambda folder: _install(folder, needed))

    def assemble(folder: Path) -> None:
        shutil.copytree(dependencies, folder, copy_function=os.link, dirs_exist_ok=True)
        packaging.add_sources(folder, PYTHON)

    return Package(
        task=_cached("task", [dependencies.name, _sources()], assemble),
        runtime=_cached("runtime", runtime, lambda folder: _install(folder, runtime)),
    )


def _install(folder: Path, requirements: list[str]) -> None:
    packaging.install(folder, requirements, architecture=ARCHITECTURE, python=PYTHON)


def _runtime_requirements() -> list[str]:
    lines = [
        line.strip()
        for name in ("requirements.txt", "requirements-dev.txt")
        for line in (packaging.ROOT / name).read_text().splitlines()
    ]
    return [line for line in lines if line.partition("==")[0] in RUNTIME]


def _sources() -> str:
    text = hashlib.sha256(Path(packaging.__file__).read_bytes())
    for source in packaging.SOURCES:
        for path in sorted((packaging.ROOT / source).rglob("*.py")):
            text.update(str(path.relative_to(packaging.ROOT)).encode() + b"\0" + path.read_bytes())
    return text.hexdigest()


def _cached(name: str, pins: Iterable[str], make: Callable[[Path], None]) -> Path:
    """The folder of these pins. It is made beside and then named, so that who finds it finds all of it."""
    cache = cache_folder()
    final = cache / f"{name}-{hashlib.sha256(chr(10).join((PYTHON, *pins)).encode()).hexdigest()[:12]}"
    with lock(cache):
        if final.is_dir():
            final.touch()
            return final
        work = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=cache))
        try:
            make(work)
            work.rename(final)
        except subprocess.CalledProcessError as error:
            raise PartError(f"the functions' bundle was not built, see above: pip gave {error.returncode}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
    for former in sorted(cache.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(former, ignore_errors=True)
    return final
