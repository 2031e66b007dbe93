"""`python -m infra.release VERSION FOLDER [HOMEPAGE]`: writes a release's files; `tests.release` then installs each of them.

The sources are copied, and the copy gets the version: wheel, functions and templates then agree on it. SIGNING_KEY in the
environment names the private SSH key that signs the checksums.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from infra.packaging.dependencies import ROOT
from infra.release.channels import homepage
from infra.release.version import Version, VersionError

LEFT_OUT: Final = (
    "build",
    "cdk.out",
    "node_modules",
    ".git",
    ".venv",
    ".*_cache",
    "__pycache__",
    "*.egg-info",
    ".hypothesis",
)
"""What is no source."""

STATED: Final = re.compile(r'^VERSION: Final = ".*"$', re.MULTILINE)
EPOCH: Final = 315532800
"""The first second that a zip can hold, for sources that are in no repository."""


def main() -> int:
    """Copy the sources, and build from the copy.

    Raises:
        SystemExit: If the version is invalid or a step fails; the message says why.
    """
    if len(sys.argv) not in (3, 4) or not sys.argv[1]:
        sys.exit("usage: make release VERSION=1.2.3 [HOMEPAGE=https://…]")
    target = Path(sys.argv[2]).resolve()
    try:
        version, page = Version(sys.argv[1]), homepage("".join(sys.argv[3:]))
        for stale in (target, copied := target.with_name(f"{target.name}-sources")):
            shutil.rmtree(stale, ignore_errors=True)
        copy_sources(copied, version)
        key = os.environ.get("SIGNING_KEY", "")
        signing = str(Path(key).expanduser().resolve()) if key else ""
        command = [sys.executable, "-m", "infra.release.build", version.text, str(target), page, signing, *source()]
        subprocess.run(command, cwd=copied, check=True)  # noqa: S603 - our own program
        shutil.rmtree(copied)  # a failed step leaves it, to be looked at
    except VersionError as error:
        sys.exit(f"make release: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"make release: {' '.join(map(str, error.cmd[:4]))} … gave {error.returncode}, see above")
    return 0


def copy_sources(target: Path, version: Version) -> None:
    """Copy the sources, with the version in the file that defines it."""
    shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    path = target / "core" / "version.py"
    path.write_text(
        STATED.sub(f'VERSION: Final = "{version.of_python}"', path.read_text(encoding="utf-8")), encoding="utf-8"
    )


def source() -> tuple[str, str, str]:
    """Return commit, whether files differ from it, and the time of the commit in seconds."""

    def answer(*arguments: str) -> str:
        ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
        return ran.stdout.strip() if ran.returncode == 0 else ""

    is_modified = "modified" if answer("status", "--porcelain") else ""
    return answer("rev-parse", "HEAD"), is_modified, answer("log", "-1", "--format=%ct") or str(EPOCH)


if __name__ == "__main__":
    sys.exit(main())
