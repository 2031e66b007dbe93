"""Records what Karpenter's provider for AWS says of instance types.

`python -m tests.oracle PAGE` records the page that it publishes, `python -m tests.oracle --provider ORACLE` asks its code.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.oracle import published, resolved

_DESCRIPTIONS = "ec2/resources/instance_types.json.gz"


def main() -> None:
    """Record one or both."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, help="reference/instance-types.md of karpenter-provider-aws")
    parser.add_argument(
        "--provider", type=Path, help="program around the provider's code, see tests/oracle/resolved.py"
    )
    given = parser.parse_args()
    if given.page is None and given.provider is None:
        parser.error("name the page, or --provider")
    if given.page is not None:
        types = published.read_page(given.page.read_text().splitlines())
        if not types:
            sys.exit(f"{given.page}: no instance types; is it reference/instance-types.md?")
        published.write(types)
        sys.stdout.write(f"{published.RECORDING.name}: {len(types)} types\n")
    if given.provider is not None:
        spec = find_spec("moto")
        if spec is None or spec.origin is None:
            sys.exit("moto is not installed: it ships EC2's descriptions")
        found = resolved.record(given.provider, Path(spec.origin).parent / _DESCRIPTIONS)
        sys.stdout.write(f"{resolved.RECORDING.name}: {len(found.sizes)} types, {len(found.user_data)} classes\n")


if __name__ == "__main__":
    main()
