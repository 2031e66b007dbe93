"""Builds bundles, and rejects those that are not fit for deployment."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Final

from infra.packaging import closure, elf, sbom
from infra.packaging.bundles import BUNDLES, LAMBDA, MEGABYTE, Bundle, Platform, bundle_of
from infra.packaging.dependencies import add_dependencies
from infra.packaging.manifest import MANIFEST, PACKAGE, Manifest, Packaged, PackageError
from infra.packaging.sources import add_sources, digest, drop_sources
from infra.packaging.start import check_starts
from installation.wiring import ALL_BY_NAME, FunctionSpec

SBOM: Final = "sbom.cdx.json"


def build_all() -> Manifest:
    """Fill build/package and write build/package.json.

    Raises:
        subprocess.CalledProcessError: If a dependency cannot be downloaded, or its hash is not in the lock.
        MissingInterpreterError: If no interpreter of Lambda's version is installed.
        PackageError: If a bundle is too large, lacks a module, contains code for another architecture, or does not start.
    """
    MANIFEST.unlink(missing_ok=True)
    shutil.rmtree(PACKAGE, ignore_errors=True)
    made = {}
    for bundle in BUNDLES:
        folder = PACKAGE / bundle.name
        build(folder, bundle, LAMBDA)
        check(folder, bundle, LAMBDA)
        starts = [(spec, closure.modules(folder, bundle, [spec])) for spec in served(bundle)]
        drop_sources(folder)
        check_size(folder, bundle)
        check_starts(folder, bundle, LAMBDA, starts)
        made[bundle.name] = Packaged(bundle=bundle.name, unzipped_bytes=_size(folder), zipped_bytes=_zipped(folder))
    manifest = Manifest(
        functions={spec.name: made[bundle_of(spec).name] for spec in ALL_BY_NAME.values()}, digest=digest()
    )
    manifest.write()
    return manifest


def build(folder: Path, bundle: Bundle, platform: Platform) -> None:
    """Make one bundle in an empty or missing folder."""
    add_dependencies(folder, bundle, platform)
    add_sources(folder, platform.python)
    (folder / SBOM).write_text(json.dumps(sbom.components(bundle), indent=1), encoding="utf-8")


def served(bundle: Bundle) -> list[FunctionSpec]:
    """Return the functions that are deployed with the bundle."""
    return [spec for spec in ALL_BY_NAME.values() if bundle_of(spec) is bundle]


def check(folder: Path, bundle: Bundle, platform: Platform) -> None:
    """Check that a bundle is fit for deployment.

    Raises:
        PackageError: If it is not; the message lists all problems.
    """
    lost = closure.missing(folder, bundle, served(bundle))
    problems = [f"{missing_import.module} imports {missing_import.name}, which is not there" for missing_import in lost]
    wanted = elf.MACHINE_OF[platform.architecture]
    foreign = [path for path in elf.libraries(folder) if elf.machine(path.read_bytes()) != wanted]
    problems += [f"{path.relative_to(folder)} is for another machine than {platform.architecture}" for path in foreign]
    if problems:
        raise PackageError("\n".join(f"bundle {bundle.name}: {problem}" for problem in problems))


def check_size(folder: Path, bundle: Bundle) -> None:
    """Check that the unpacked bundle is within its size limit.

    Raises:
        PackageError: If it is not.
    """
    size = _size(folder)
    if size > bundle.bytes_max:
        allowed = bundle.bytes_max // MEGABYTE
        raise PackageError(
            f"bundle {bundle.name}: {size / MEGABYTE:.1f} MB unpacked, {allowed} are allowed: see infra/packaging/pruning.py"
        )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _zipped(folder: Path) -> int:
    """Return the bytes of the zip file that Lambda gets."""
    packed = folder.with_suffix(".zip")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    size = packed.stat().st_size
    packed.unlink()
    return size
