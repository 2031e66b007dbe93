"""Quoting for the shells that read user data."""

from __future__ import annotations

import subprocess

import pytest

from core.ami_families.user_data.shell_text import bash_quoted, powershell_quoted
from core.errors import InvalidInputError


@pytest.mark.parametrize("text", ["plain", "it's", "$(id)", "`id`", '"', "\\", "'; echo no; '"])
def test_bash_gives_back_what_was_quoted(text: str) -> None:
    """Anything else would be run."""
    script = f"printf %s {bash_quoted(text, field='f')}"
    assert subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode() == text  # noqa: S603, S607


def test_powershell_ends_a_text_at_typographic_quotes_too() -> None:
    """A doubled quote is one; only the plain one is often thought of."""
    assert powershell_quoted("it's \u2019x\u2018", field="f") == "'it''s \u2019\u2019x\u2018\u2018'"


@pytest.mark.parametrize("text", ["a\nb", "a\x00", "</PowerShell>"])
def test_what_no_quote_can_hold_is_refused_by_field(text: str) -> None:
    """EC2Launch cuts the block at its tag before PowerShell sees a quote."""
    with pytest.raises(InvalidInputError, match=r"cluster\.name: .* cannot be part of a script"):
        powershell_quoted(text, field="cluster.name")
