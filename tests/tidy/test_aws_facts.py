"""Beliefs about AWS are written in one place: code cites entries that exist, and entries name files that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from cli.doctor.cluster import CHECKS
from cli.doctor.probe import PROBES

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/engineering/aws-facts.md"
CITED: Final = re.compile(r"aws-facts\.md#([a-z0-9-]+)")
FOLDERS: Final = ("core", "adapters", "lambdas", "installation", "infra", "simulator", "cli", "benchmarks", "tests")
PARTS: Final = ("Source", "Certainty", "Code")
NAMED: Final = re.compile(r"`([a-z_0-9/]+\.py)(?:(::?)([^`]+))?`")
"""A file, a test in it (`file::test`), or words in it (`file:words`)."""


def entries() -> dict[str, str]:
    """Id of each entry → its text."""
    parts = re.split(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def citations() -> list[tuple[str, str]]:
    """File and id of each citation in code."""
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return [
        (str(path.relative_to(ROOT)), found)
        for path in files
        for found in CITED.findall(path.read_text(encoding="utf-8"))
    ]


def test_code_cites_entries_of_the_page() -> None:
    """A belief without an entry has no source, and nobody can say what would prove it."""
    found, known = citations(), entries()
    assert found
    assert [(name, cited) for name, cited in found if cited not in known] == []


@pytest.mark.parametrize("entry", sorted(entries()))
def test_an_entry_says_where_it_is_from_and_what_relies_on_it(entry: str) -> None:
    """What an entry names is there: the words of the code that relies on it, and the tests that hold it."""
    text = entries()[entry]
    assert [part for part in PARTS if f"\n- {part}: " not in text] == []
    assert re.search(r"\n- (Held by|Probe): ", text), "neither a test nor a probe"
    lines = [line for line in text.splitlines() if line.startswith(("- Code:", "- Held by:"))]
    named = [name for line in lines for name in NAMED.findall(line)]
    assert named
    assert [":".join(name) for name in named if not is_there(*name)] == []


def is_there(file: str, separator: str, part: str) -> bool:
    """Whether a file exists, and has this part: `file::test` or `file:words`."""
    path = ROOT / file
    if not path.is_file():
        return False
    wanted = f"def {part}(" if separator == "::" else part
    return wanted in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("tests/tidy/test_aws_facts.py", True),
        ("tests/tidy/test_aws_facts.py::test_code_cites_entries_of_the_page", True),
        ("tests/tidy/test_aws_facts.py:CITED", True),
        ("tests/tidy/test_aws_fact.py", False),
        ("tests/tidy/test_aws_facts.py::" + "test_of_nothing", False),
        ("readme.py:any words", False),
        ("cli/doctor/probe.py:words that are nowhere", False),
    ],
)
def test_a_file_a_test_or_a_word_that_is_gone_is_noticed(named: str, *, found: bool) -> None:
    (parts,) = NAMED.findall(f"`{named}`")
    assert is_there(*parts) is found


def test_the_probes_that_entries_name_are_checks_of_the_command() -> None:
    """A probe that nobody can run proves nothing."""
    probes = re.findall(r"`fleetwright doctor(?: --probe)?` \(([a-z0-9, -]+)\)", PAGE.read_text(encoding="utf-8"))
    named = {name for probe in probes for name in probe.split(", ")}
    assert named
    assert sorted(named - {*CHECKS, *PROBES}) == []
