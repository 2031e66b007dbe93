"""`fleetwright adopt`, `fleetwright release`: show which nodes can change hands between Karpenter and us, and transfer them."""

from __future__ import annotations

import argparse

from cli.takeover.steps import configure_handover, hand_over


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command that the parser is for: `adopt` or `release`."""
    handover = parser.prog.rpartition(" ")[2]
    configure_handover(parser, handover)
    parser.set_defaults(handover=handover)


def run(arguments: argparse.Namespace) -> int:
    """Show the transfer, or carry it out; negative if something prevents it."""
    return hand_over(arguments, arguments.handover)
