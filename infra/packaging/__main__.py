"""`python -m infra.packaging`: builds the bundles, and prints their sizes."""

from __future__ import annotations

import subprocess
import sys

from infra.packaging.build import build_all
from infra.packaging.bundles import MEGABYTE
from infra.packaging.bytecode import MissingInterpreterError
from infra.packaging.manifest import PackageError
from infra.packaging.start import why_not_started


def main() -> None:
    """Build every bundle.

    Raises:
        SystemExit: If a bundle cannot be built; the message says why.
    """
    try:
        manifest = build_all()
    except (MissingInterpreterError, PackageError) as error:
        sys.exit(f"make package: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"make package: {error.cmd[0]} gave {error.returncode}, see above")
    for made in {made.bundle: made for made in manifest.functions.values()}.values():
        sizes = f"{made.unzipped_bytes / MEGABYTE:.1f} MB unpacked, {made.zipped_bytes / MEGABYTE:.1f} MB zipped"
        users = ", ".join(
            name for name, function_entry in manifest.functions.items() if function_entry.bundle == made.bundle
        )
        print(f"{made.bundle}: {sizes}; {users}")  # noqa: T201 - this is the program's output
    if reason := why_not_started():
        print(f"not checked that the functions start: {reason}")  # noqa: T201 - this is the program's output


if __name__ == "__main__":
    main()
