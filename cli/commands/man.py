"""`fleetwright man`: prints the manual page, generated from the program's help."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from cli.errors import DONE
from core.version import VERSION

_COLUMNS: Final = "76"
"""Width of usage lines: a page is indented and shown on 80 columns."""

_SUMMARY: Final = "what a node provisioner for Amazon EKS would do, and what it has done"
_EPILOG: Final = """examples:
  fleetwright man | man -l -
  fleetwright man > ~/.local/share/man/man1/fleetwright.1
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""
    parser.epilog = _EPILOG


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - every command has it
    """Print the page in roff."""
    from argparse_manpage.manpage import Manpage

    from cli.__main__ import whole_parser

    os.environ["COLUMNS"] = _COLUMNS
    page = {"prog": "fleetwright", "project_name": "fleetwright", "version": VERSION, "manual_title": "Fleetwright"}
    parser = whole_parser()
    parser.man_short_description = _SUMMARY  # type: ignore[attr-defined]  # where the library looks for it
    sys.stdout.write(f"{Manpage(parser, page)}\n")
    return DONE
