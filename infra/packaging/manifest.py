"""The result of `make package`, and the check before each synthesis that it matches the sources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from infra.packaging.bundles import bundle_of
from infra.packaging.dependencies import ROOT
from infra.packaging.sources import digest
from installation.wiring import FunctionSpec

PACKAGE: Final = ROOT / "build" / "package"
"""Contains a folder for each bundle."""

MANIFEST: Final = ROOT / "build" / "package.json"


class PackageError(Exception):
    """There is no valid package to deploy; the message says what to do."""


class Packaged(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A function's bundle, and the bundle's size in bytes."""

    bundle: str
    unzipped_bytes: int
    zipped_bytes: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """build/package.json.

    Attributes:
        functions: Function name → its bundle.
        digest: Digest of the bundles' inputs (`sources.digest`).
    """

    functions: Mapping[str, Packaged]
    digest: str

    def write(self, path: Path = MANIFEST) -> None:
        """Write the manifest where `folder_of` reads it."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2))


def check_package(path: Path = MANIFEST) -> None:
    """Check that the package exists and is up to date.

    Raises:
        PackageError: If it is not.
    """
    if not path.is_file() or not PACKAGE.is_dir():
        raise PackageError("the functions are not packaged: run `make package`")
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except msgspec.DecodeError as error:
        raise PackageError(f"{path.relative_to(ROOT)} cannot be read ({error}): run `make package`") from error
    if manifest.digest != digest():
        raise PackageError("build/package is of other sources than these: run `make package`")


def folder_of(spec: FunctionSpec) -> Path:
    """Return the folder of a function's bundle."""
    return PACKAGE / bundle_of(spec).name
