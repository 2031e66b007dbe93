"""`python -m tests.template_checks`: synthesizes all installations twice and asks cfn-lint and cdk-nag about the templates.

Prints each finding that nobody has explained, each explanation that nothing needs, and whether the page of partitions is
current; 1 if anything is wrong.
"""

from __future__ import annotations

import filecmp
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cfnlint import api
from cfnlint.config import ManualArgs

from tests.infra.conftest import ROOT
from tests.template_checks import partitions_page, synthesis
from tests.template_checks.acknowledged import Finding, idle, unexplained
from tests.template_checks.synthesis import NAG_FOLDER, REPORT

TEMPLATES: Final = "*.template.json"
ALL_REGIONS: Final = {**synthesis.REGIONS, **synthesis.FURTHER_REGIONS}
LINTED: Final = ("public-aws", *(f"private-{partition}" for partition in ALL_REGIONS))
"""All else has the same resources under other names; one template takes seconds."""

HASH_SEEDS: Final = ("1", "2")
"""The order of sets depends on it: what depends on that order differs."""


def main() -> int:
    """Run every check; what was found goes to standard output."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = (Path(folder, seed) for seed in HASH_SEEDS)
        _synthesize(first, HASH_SEEDS[0], "--nag")
        _synthesize(second, HASH_SEEDS[1])
        templates = sorted(p for p in first.glob(f"*/{TEMPLATES}") if not p.parent.name.startswith(NAG_FOLDER))
        different = [path for path in templates if not _is_same(path, second / path.relative_to(first))]
        is_page_current = partitions_page.PAGE.read_text(encoding="utf-8") == partitions_page.text(first)
        findings = [
            *_nagged(first),
            *(found for path in templates if path.parent.name in LINTED for found in _linted(path)),
        ]
    for path in different:
        print(f"another synthesis writes another {path.parent.name}/{path.name}")  # noqa: T201 - the answer
    if not is_page_current:
        print("docs/reference/partitions.md: `make docs` writes another one")  # noqa: T201 - the answer
    missing, unneeded = unexplained(findings), idle(findings)
    for finding in missing:
        print(f"{finding.what} at {finding.where}")  # noqa: T201 - the answer
    for row in unneeded:
        print(f"nothing needs this explanation any more: {row.what} at {row.where}")  # noqa: T201 - the answer
    print(f"{len(templates)} templates, {len(findings)} findings, {len(missing)} of them not explained")  # noqa: T201
    return int(bool(different or missing or unneeded or not is_page_current))


def _synthesize(target: Path, hash_seed: str, *more: str) -> None:
    command = [sys.executable, "-m", "tests.template_checks.synthesis", str(target), *more]
    subprocess.run(  # noqa: S603 - our own program
        command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": hash_seed}, check=True, stderr=subprocess.PIPE
    )


def _is_same(path: Path, other: Path) -> bool:
    return other.exists() and filecmp.cmp(path, other, shallow=False)


def _nagged(folder: Path) -> Iterator[Finding]:
    for report in sorted(folder.glob(f"{NAG_FOLDER}*/{REPORT}")):
        for plugin in json.loads(report.read_text(encoding="utf-8"))["pluginReports"]:
            for violation in plugin["violations"]:
                for construct in violation["violatingConstructs"]:
                    yield Finding(violation["ruleName"], construct["constructPath"])


def _linted(path: Path) -> Iterator[Finding]:
    partition = path.parent.name.partition("-")[2]
    regions = [ALL_REGIONS[partition][0]]
    for match in api.lint(path.read_text(encoding="utf-8"), config=ManualArgs(regions=regions)):
        yield Finding(match.rule.id, f"{path.parent.name}/{path.name}: {match.message}")


if __name__ == "__main__":
    sys.exit(main())
