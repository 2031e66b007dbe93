"""Tutorials and guides show what the program prints: each page is run in its own folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cli.__main__ import main
from tests.shown import is_told

ROOT = Path(__file__).parents[3]
SAVED = re.compile(r"`([\w-]+\.yaml)`[^\n`]*:\n\n```yaml\n(.*?)```", re.DOTALL)
PLAYED = re.compile(r"```console\n\$ fleetwright ([^\n]*)\n(.*?)```", re.DOTALL)
PAGES = sorted(page for folder in ("tutorials", "how-to") for page in (ROOT / "docs" / folder).glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_output_on_the_page_is_what_the_command_prints(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer whose first output differs from the page does not know which is right."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    for name, content in SAVED.findall(text):
        (tmp_path / name).write_text(content, encoding="utf-8")
    for command, told in PLAYED.findall(text):
        code = main(shlex.split(command))
        printed = capsys.readouterr().out
        assert code in (0, 1), command
        assert is_told(told, printed), f"$ fleetwright {command}\n{printed}"


def test_the_pages_contain_outputs() -> None:
    """Otherwise, a typo in the fences makes the test above check nothing."""
    assert sum(len(PLAYED.findall(page.read_text(encoding="utf-8"))) for page in PAGES) >= 6


def test_the_first_hour_works_as_its_script_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer stops at the first command that fails."""
    monkeypatch.chdir(ROOT)
    lines = (ROOT / "examples" / "first-hour.sh").read_text(encoding="utf-8").splitlines()
    commands = [
        line.partition(" | ")[0].removeprefix("fleetwright ") for line in lines if line.startswith("fleetwright ")
    ]
    told = {}
    for command in commands:
        code = main(shlex.split(command))
        told[command] = capsys.readouterr().out
        says_no = command.startswith("explain research/") or command == "plan -f examples/pools -f examples/workloads"
        assert code == (1 if says_no else 0), command
    assert len(commands) == 9
    assert all(told.values())
    assert "pods wait" in told["plan -f examples/pools -f examples/workloads"]
