"""Records what Karpenter's provider for AWS says of instance types, and what it asks EC2 for.

`python -m tests.oracle PAGE` records the page that it publishes, `python -m tests.oracle --provider ORACLE` asks its code, and
`python -m tests.oracle --requests FOLDER` builds the program around its launches from its source and records their calls.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.oracle import published, requests, resolved

ROOT = Path(__file__).parents[2]
_DESCRIPTIONS = "ec2/resources/instance_types.json.gz"


def main() -> None:
    """Record one or both."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, help="reference/instance-types.md of karpenter-provider-aws")
    parser.add_argument(
        "--provider", type=Path, help="program around the provider's code, see tests/oracle/resolved.py"
    )
    parser.add_argument("--requests", type=Path, help="source of the program, see tests/oracle/requests.py")
    given = parser.parse_args()
    if given.page is None and given.provider is None and given.requests is None:
        parser.error("name the page, --provider or --requests")
    if given.page is not None:
        types = published.read_page(given.page.read_text().splitlines())
        if not types:
            sys.exit(f"{given.page}: no instance types; is it reference/instance-types.md?")
        published.write(types)
        sys.stdout.write(f"{published.RECORDING.name}: {len(types)} types\n")
    if given.provider is not None:
        found = resolved.record(given.provider, descriptions())
        sys.stdout.write(f"{resolved.RECORDING.name}: {len(found.sizes)} types, {len(found.user_data)} classes\n")
    if given.requests is not None:
        program = requests.build(given.requests, ROOT / "build/oracle-requests")
        calls = requests.record(program, descriptions())
        sys.stdout.write(f"{requests.RECORDING.name}: {len(calls)} cases\n")


def descriptions() -> Path:
    """The file of EC2's descriptions of instance types."""
    spec = find_spec("moto")
    if spec is None or spec.origin is None:
        sys.exit("moto is not installed: it ships EC2's descriptions")
    return Path(spec.origin).parent / _DESCRIPTIONS


if __name__ == "__main__":
    main()
