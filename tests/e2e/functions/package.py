"""The functions' deployed bundle, built for this machine, and what Lambda itself provides."""

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

from infra.packaging import build
from infra.packaging.bundles import BASE, SOLVER, Bundle, Platform
from infra.packaging.dependencies import ROOT, locked
from infra.packaging.sources import add_sources, digest, drop_sources
from installation.wiring import FunctionSpec
from tests.e2e.parts.builds import cache_folder, lock
from tests.e2e.parts.processes import PartError

PLATFORM: Final = Platform("x86_64", f"{sys.version_info.major}.{sys.version_info.minor}")
RUNTIME: Final = "awslambdaric"
"""What Lambda's runtime brings; requirements-dev.txt pins it."""

KEPT: Final = 3
"""Bundles of former sources that stay in the cache."""


@dataclass(frozen=True)
class Package:
    """Where the functions' code is: `solver` and `base` are what is deployed, `runtime` what Lambda has already."""

    solver: Path
    base: Path
    runtime: Path

    def task(self, spec: FunctionSpec) -> Path:
        """The bundle of a function."""
        return self.solver if spec.needs_solver else self.base


def package() -> Package:
    """The package, built where it is not in the cache yet. Raises PartError if pip cannot have what it takes."""
    pinned = _pinned()
    return Package(
        solver=_bundle(SOLVER),
        base=_bundle(BASE),
        runtime=_cached("runtime", [pinned], lambda folder: _install_runtime(folder, pinned)),
    )


def _bundle(bundle: Bundle) -> Path:
    pins = [*locked(bundle).values(), *(path.read_text() for path in sorted((ROOT / "infra/packaging").glob("*.py")))]
    name = f"dependencies-{bundle.name}"
    dependencies = _cached(name, pins, lambda folder: build.add_dependencies(folder, bundle, PLATFORM))

    def assemble(folder: Path) -> None:
        shutil.copytree(dependencies, folder, copy_function=os.link, dirs_exist_ok=True)
        add_sources(folder, PLATFORM.python)
        drop_sources(folder)

    return _cached(f"task-{bundle.name}", [dependencies.name, digest()], assemble)


def _install_runtime(folder: Path, pinned: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        str(folder),
    ]
    subprocess.run([*command, pinned], check=True)


def _pinned() -> str:
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    return next(line.strip() for line in lines if line.startswith(f"{RUNTIME}=="))


def _cached(name: str, pins: Iterable[str], make: Callable[[Path], None]) -> Path:
    """The folder of these pins. It is made beside and then named, so that who finds it finds all of it."""
    cache = cache_folder()
    final = cache / f"{name}-{hashlib.sha256(chr(10).join((PLATFORM.python, *pins)).encode()).hexdigest()[:12]}"
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
