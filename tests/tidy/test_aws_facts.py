"""Beliefs about AWS are written in one place: code cites entries that exist, and entries name files that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
BOOK: Final = ROOT / "docs/engineering/aws-facts.md"
CITED: Final = re.compile(r"aws-facts\.md#([a-z0-9-]+)")
FOLDERS: Final = ("core", "adapters", "lambdas", "installation", "infra", "simulator", "cli", "tests")
PARTS: Final = ("Source", "Certainty", "Code")


def entries() -> dict[str, str]:
    """Id of each entry → its text."""
    parts = re.split(r"^### (.+)$", BOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
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
    text = entries()[entry]
    assert [part for part in PARTS if f"\n- {part}: " not in text] == []
    assert re.search(r"\n- (Held by|Probe): ", text), "neither a test nor a probe"
    lines = [line for line in text.splitlines() if line.startswith(("- Code:", "- Held by:"))]
    named = [name for line in lines for name in re.findall(r"`([a-z_0-9/]+\.py)`", line)]
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []
