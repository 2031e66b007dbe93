"""Programs that judge a release's files: on the path, or in build/release-tools, where `make release-tools` builds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "build" / "release-tools"

MODULES: Final = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
    "validate-krew-manifest": "sigs.k8s.io/krew/cmd/validate-krew-manifest@v0.4.3",
    "helm": "helm.sh/helm/v3/cmd/helm@v3.22.0",
}
"""Helm takes minutes to compile, so it comes last."""


class MissingToolError(Exception):
    """A test needs a program that is not here; the message says what is not checked."""


def tool(name: str) -> str:
    """Return a program's path.

    Raises:
        MissingToolError: If it is neither on the path nor built.
    """
    built = FOLDER / name
    found = str(built) if built.exists() else shutil.which(name)
    if found is None:
        how = "`make release-tools` builds it" if name in MODULES else "it is not on the path"
        raise MissingToolError(f"not checked: there is no {name}; {how}")
    return found


def main() -> int:
    """Build each program that is missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(FOLDER)}
    for name, module in MODULES.items():
        if not (FOLDER / name).exists():
            print(f"building {name}", flush=True)  # noqa: T201 - the program's output
            subprocess.run(["go", "install", "-ldflags", "-s -w", module], env=environment, check=True)  # noqa: S603, S607
    return 0


if __name__ == "__main__":
    sys.exit(main())
