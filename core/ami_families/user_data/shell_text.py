"""Quotes text that a script passes on as one argument, for the shell that reads the script.

The programs behind the shell parse some arguments again (systemd splits the kubelet's), so quoting alone is not enough:
`core.ami_families.user_data.kubelet_args` also restricts the characters in such an argument.
"""

from __future__ import annotations

import re
from typing import Final

from core.errors import InvalidInputError
from core.model.values.label_syntax import shown

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_POWERSHELL_QUOTES: Final = re.compile("['\u2018\u2019\u201a\u201b]")
"""PowerShell ends a text at any of these, and reads two of them as one."""

_BLOCK_END: Final = re.compile(r"</\s*(?:powershell|script|persist)", re.IGNORECASE)
"""EC2Launch splits Windows user data at its tags before any shell sees it; they cannot be quoted."""


def bash_quoted(text: str, *, field: str) -> str:
    """One word of a bash script.

    Raises:
        InvalidInputError: If the text has control characters; `field` says where it comes from.
    """
    _refuse(_CONTROL, text, field)
    return "'" + text.replace("'", "'\\''") + "'"


def powershell_quoted(text: str, *, field: str) -> str:
    """Return one argument of a PowerShell command in Windows user data.

    Raises:
        InvalidInputError: If the text has control characters, or would end the block that the script is in.
    """
    _refuse(_CONTROL, text, field)
    _refuse(_BLOCK_END, text, field)
    return "'" + _POWERSHELL_QUOTES.sub(lambda match: match[0] * 2, text) + "'"


def _refuse(pattern: re.Pattern[str], text: str, field: str) -> None:
    if pattern.search(text):
        raise InvalidInputError(f"{shown(text)} cannot be part of a script", field=field)
