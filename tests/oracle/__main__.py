"""Records the page of instance types that Karpenter's provider for AWS publishes: `python -m tests.oracle PAGE`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.oracle.published import RECORDING, read_page, write

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.oracle PAGE; PAGE is reference/instance-types.md of karpenter-provider-aws")
    types = read_page(Path(sys.argv[1]).read_text().splitlines())
    if not types:
        sys.exit(f"{sys.argv[1]}: no instance types; is it reference/instance-types.md?")
    write(types)
    sys.stdout.write(f"{RECORDING.name}: {len(types)} types\n")
