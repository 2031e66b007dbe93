"""`fleetwright man`, `fleetwright completion`: the manual page, which `make docs` generates, and the shell's completion."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from cli.errors import DONE
from core.version import VERSION

# `man`

_COLUMNS: Final = "76"
"""Width of usage lines: a page is indented and shown on 80 columns."""

PAGE: Final = Path(__file__).parents[1] / "assets" / "fleetwright.1"

_ANY_VERSION: Final = "@VERSION@"
"""Stands for the version in the stored page, which is the same for every release."""

_SUMMARY: Final = "what a node provisioner for Amazon EKS would do, and what it has done"
_MAN_EXAMPLES: Final = """examples:
  fleetwright man | man -l -
  fleetwright man > ~/.local/share/man/man1/fleetwright.1
"""


def configure_man(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""
    parser.epilog = _MAN_EXAMPLES


def run_man(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - every command has it
    """Print the page in roff."""
    sys.stdout.write(PAGE.read_text(encoding="utf-8").replace(_ANY_VERSION, VERSION))
    return DONE


def written_page() -> str:
    """Return the text of PAGE. The library that writes it has no wheel, so only development installs it."""
    from argparse_manpage.manpage import Manpage

    from cli.__main__ import whole_parser

    os.environ["COLUMNS"] = _COLUMNS
    page = {
        "prog": "fleetwright",
        "project_name": "fleetwright",
        "version": _ANY_VERSION,
        "manual_title": "Fleetwright",
    }
    parser = whole_parser()
    parser.man_short_description = _SUMMARY  # type: ignore[attr-defined]  # where the library looks for it
    _, _, text = str(Manpage(parser, page)).partition("\n")
    return f'.TH FLEETWRIGHT "1" "" "fleetwright {_ANY_VERSION}" "Fleetwright"\n{text}\n'


# `completion`


SHELLS: Final = ("bash", "zsh", "fish")
_COMPLETION_EXAMPLES: Final = """examples:
  source <(fleetwright completion bash)
  fleetwright completion zsh > "${fpath[1]}/_fleetwright"
  fleetwright completion fish > ~/.config/fish/completions/fleetwright.fish
"""


def configure_completion(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _COMPLETION_EXAMPLES
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read it")


def run_completion(arguments: argparse.Namespace) -> int:
    """Print the script, which calls this program at each completion."""
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["fleetwright"], shell=arguments.shell))
    return DONE
