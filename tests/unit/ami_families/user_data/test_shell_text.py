"""Quoting for the shells that read user data."""

from __future__ import annotations

import subprocess

import pytest

from core.ami_families.user_data.shell_text import bash_quoted, powershell_quoted
from core.errors import InvalidInputError


@pytest.mark.parametrize("text", ["plain", "it's", "$(id)", "`id`", '"', "\\", "'; echo no; '"])
def test_bash_reads_back_the_quoted_text(text: str) -> None:
    """Otherwise, parts of the text are executed."""
    script = f"printf %s {bash_quoted(text, field='f')}"
    assert subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode() == text  # noqa: S603, S607


def test_powershell_text_ends_at_typographic_quotes_too() -> None:
    """Every kind of quote must be doubled, not only the plain one."""
    assert powershell_quoted("it's \u2019x\u2018", field="f") == "'it''s \u2019\u2019x\u2018\u2018'"


@pytest.mark.parametrize("text", ["a\nb", "a\x00", "</PowerShell>"])
def test_text_that_no_quote_can_hold_is_refused_with_its_field(text: str) -> None:
    """EC2Launch cuts the script at its tag before PowerShell sees a quote."""
    with pytest.raises(InvalidInputError, match=r"cluster\.name: .* cannot be part of a script"):
        powershell_quoted(text, field="cluster.name")


def test_bash_gets_no_control_characters() -> None:
    """A line break in an argument would begin another command for what parses it again."""
    with pytest.raises(InvalidInputError, match=r"cluster\.name: .* cannot be part of a script"):
        bash_quoted("a\nb", field="cluster.name")
    assert bash_quoted("</powershell>", field="f") == "'</powershell>'"
