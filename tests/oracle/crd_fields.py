"""The paths of the fields of CustomResourceDefinitions, one a line: `NodePool spec.disruption.budgets[].nodes`.

python -m tests.oracle.crd_fields FOLDER             # of the definitions in a folder, such as pkg/apis/crds of the provider
python -m tests.oracle.crd_fields OLD NEW            # what a release adds and removes, and what crds/ lacks of it
python -m tests.oracle.crd_fields FOLDER --record    # keep them: the tests compare crds/ with the recording
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
RECORDED: Final = Path(__file__).with_name("karpenter_fields.txt")
KINDS: Final = ("NodePool", "NodeClaim", "NodeOverlay", "EC2NodeClass")


def fields_of(folder: Path) -> list[str]:
    """The paths of all fields below `spec` of the kinds that we read, sorted."""
    found = set[str]()
    for path in sorted(folder.glob("*.yaml")):
        for definition in yaml.safe_load_all(path.read_text()):
            if not definition or definition.get("spec", {}).get("names", {}).get("kind") not in KINDS:
                continue
            kind = definition["spec"]["names"]["kind"]
            newest = next(version for version in definition["spec"]["versions"] if version["storage"])
            schema = newest["schema"]["openAPIV3Schema"]["properties"]["spec"]
            found.update(f"{kind} {path}" for path in _paths(schema, "spec"))
    return sorted(found)


def _paths(schema: dict[str, Any], at: str) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{at}.{name}"
        yield from _paths(inner, f"{at}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from _paths(schema["items"], f"{at}[]")


def recorded() -> list[str]:
    """The paths in the definitions of the Karpenter that the tests compare with."""
    return [line for line in RECORDED.read_text().splitlines() if not line.startswith("#")]


def main() -> None:
    """Print or record the paths, or compare two releases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--record", metavar="VERSION", help="keep the paths as those of this version")
    given = parser.parse_args()
    newest = fields_of(given.folders[-1])
    if given.record:
        head = f"# Fields of Karpenter's definitions, {given.record}: python -m tests.oracle.crd_fields\n"
        RECORDED.write_text(head + "".join(f"{line}\n" for line in newest))
    elif len(given.folders) == 1:
        sys.stdout.write("".join(f"{line}\n" for line in newest))
    else:
        before, ours = set(fields_of(given.folders[0])), set(fields_of(ROOT / "crds"))
        for line in sorted(before ^ set(newest)):
            change = "removed" if line in before else "added  " if line in ours else "MISSING"
            sys.stdout.write(f"{change} {line}\n")


if __name__ == "__main__":
    main()
