"""`fleetwright`: reads the arguments, runs one command, turns what went wrong into an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final

from cli.errors import BAD_INPUT, DONE, INTERNAL, INTERRUPTED, InputError
from core.errors import InvalidInputError

COMMANDS: Final = {
    "plan": "where would every pending pod go, and which nodes must be launched",
    "consolidate": "which nodes can go, and what replaces them",
    "explain": "why a pod is not placed, or why a node is or is not disrupted",
    "validate": "every problem of every NodePool, EC2NodeClass and NodeOverlay",
    "convert": "older API versions to v1",
    "simulate": "the whole system in virtual time over a scenario",
}

_EXAMPLES: Final = """exit codes:
  0  done
  1  the answer is negative: a pod stays unschedulable, a manifest is invalid, a run had violations
  2  wrong usage or unreadable input
  3  internal error

examples:
  kubectl get pods,nodes,pv,pvc,sc,nodepools,nodeclaims -A -o yaml | fleetwright plan -f -
  fleetwright consolidate -f cluster/ -o json
  fleetwright explain shop/cart-0 -f cluster/
  fleetwright validate -f pools/
  fleetwright simulate examples/demo.yaml --report build/demo.html
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        parsed = _parser(given).parse_args([word for word in given if word != "--debug"])
        return int(parsed.run(parsed))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else DONE if stop.code is None else BAD_INPUT
    except (InputError, InvalidInputError) as error:
        _tell(str(error), traced=debug)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:  # noqa: BLE001 - the border: whatever is left is a bug of ours
        _tell(f"internal error: {type(error).__name__}: {error}", traced=debug)
        print("hint: run it again with --debug for the traceback, and report it with the input", file=sys.stderr)
        return INTERNAL


def _tell(problem: str, *, traced: bool) -> None:
    if traced:
        traceback.print_exc()
    print(f"fleetwright: {problem}", file=sys.stderr)


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fleetwright",
        description="A node provisioner for Amazon EKS: what it would do, on files instead of a live cluster.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    commands = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    wanted = next((word for word in given if not word.startswith("-")), "")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, description=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == wanted:
            module = importlib.import_module(f"cli.commands.{name}")
            module.configure(command)
            command.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
