"""`fleetwright completion`: prints the shell script that completes commands and options."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from cli.errors import DONE

SHELLS: Final = ("bash", "zsh", "fish")
_EPILOG: Final = """examples:
  source <(fleetwright completion bash)
  fleetwright completion zsh > "${fpath[1]}/_fleetwright"
  fleetwright completion fish > ~/.config/fish/completions/fleetwright.fish
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read it")


def run(arguments: argparse.Namespace) -> int:
    """Print the script, which calls this program at each completion."""
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["fleetwright"], shell=arguments.shell))
    return DONE
