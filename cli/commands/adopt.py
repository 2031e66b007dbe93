"""`fleetwright adopt`: shows which nodes of Karpenter's would be ours, and makes them so."""

from __future__ import annotations

import argparse

from cli.takeover.command import ADOPT, configure_handover, hand_over


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    configure_handover(parser, ADOPT)


def run(arguments: argparse.Namespace) -> int:
    """Show what would change hands, or let it; negative where something is in the way."""
    return hand_over(arguments, ADOPT)
