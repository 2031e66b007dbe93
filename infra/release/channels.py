"""Files for GitHub, GitLab, krew, Homebrew and Terraform: texts with the release's version and digests."""

from __future__ import annotations

import platform
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from infra.packaging.dependencies import ROOT
from infra.release.archives import TIME, sha256
from infra.release.templates import VARIANTS
from infra.release.version import Version, VersionError

FILES: Final = Path(__file__).parent / "files"
NO_HOMEPAGE: Final = "https://example.invalid/fleetwright"
"""Stands for the project's page if `make release` is given none: krew's and Homebrew's files are not fit to publish then."""

ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""What the kernel calls a machine → what krew calls it."""

PLUGIN: Final = "kubectl-fleetwright"
_ADDRESS: Final = re.compile(r"https://[a-z0-9.-]+\.[a-z]{2,}(/[A-Za-z0-9._~/-]*)?")


def krew_archive(program: Path, target: Path) -> None:
    """Pack the single file under the name of kubectl's plugin, with the license that krew asks for."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, path, mode in ((PLUGIN, program, 0o755), ("LICENSE", ROOT / "LICENSE", 0o644)):
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, path.read_bytes())


def homepage(address: str) -> str:
    """Return the address of the project's page. Raises VersionError, if it is none that a browser opens."""
    if not address:
        return NO_HOMEPAGE
    if not _ADDRESS.fullmatch(address):
        raise VersionError(f"HOMEPAGE={address} is not an address such as https://github.com/OWNER/NAME")
    return address.rstrip("/")


def values(version: Version, wheel: Path, krew: Path, page: str = NO_HOMEPAGE) -> dict[str, str]:
    """Return what the texts call by `@NAME@`."""
    names = [variant.name for variant in VARIANTS]
    return {
        "VERSION": version.text,
        "PYTHON_VERSION": version.of_python,
        "HOMEPAGE": page,
        "WHEEL": wheel.name,
        "WHEEL_SHA256": sha256(wheel),
        "KREW_ARCHIVE": krew.name,
        "KREW_SHA256": sha256(krew),
        "OS": platform.system().lower(),
        "ARCH": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "PYTHON": f"Python {sys.version_info.major}.{sys.version_info.minor}",
        "VARIANTS": ", ".join(f'"{name}"' for name in names),
        "VARIANT_NAMES": ", ".join(names),
    }


def written(substitutions: Mapping[str, str]) -> dict[str, str]:
    """Return path → text of every file."""
    made = {}
    for path in sorted(path for path in FILES.rglob("*") if path.is_file()):
        text = path.read_text(encoding="utf-8")
        for name, value in substitutions.items():
            text = text.replace(f"@{name}@", value)
        made[path.relative_to(FILES).as_posix()] = text
    return made
