"""Finds the page of a reason code: on the documentation site if one is configured, else in the repository."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from cli.terminal import output
from cli.terminal.style import style
from core.reasons.code import PAGE

VARIABLE: Final = "FLEETWRIGHT_DOCS_URL"
"""Environment variable with the address of `make site`'s pages, such as https://docs.example.com/fleetwright."""

_CODES_MAX: Final = 3


def reason_page(code: str) -> str:
    """Return the place of a code's explanation."""
    return on_site(f"{PAGE}#{code.lower()}")


def on_site(text: str) -> str:
    """Return a text of the core with its links to the repository's page replaced by the site's, if one is configured."""
    base = os.environ.get(VARIABLE, "").rstrip("/")
    # A page has a folder of its own on the site.
    return text.replace(PAGE, f"{base}/{PAGE.removeprefix('docs/').removesuffix('.md')}/") if base else text


def pages_lines(codes: Iterable[str]) -> str:
    """Return lines with the pages of the first few of these codes; without a site, the command that explains them."""
    is_served = bool(os.environ.get(VARIABLE))
    found = list(dict.fromkeys(codes))[:_CODES_MAX]
    lines = [f"{code}: {reason_page(code) if is_served else f'fleetwright explain {code}'}" for code in found]
    return "\n".join(style.styled(output.wrapped(f"about {line}"), "dim") for line in lines)
