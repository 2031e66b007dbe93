"""The `fleetwright` program: parses the arguments, runs one command, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from cli.errors import BAD_INPUT, DONE, INTERNAL, INTERRUPTED, NEGATIVE, InputError, error_lines
from cli.manifests import KUBECTL
from cli.terminal.style import AUTO, choose_style, write_stderr
from core.errors import InvalidInputError
from core.version import VERSION
from installation.array_threads import ARRAY_THREADS

COMMANDS: Final = {
    "plan": "the node of each pending pod, and the nodes to launch for them",
    "consolidate": "nodes that can be removed, and their replacements",
    "savings": "the cost of a cluster now, after Karpenter's moves and after ours",
    "diff": "the effect of a change of manifests: pods, nodes, dollars, drift",
    "explain": "why a pod or workload is not placed, why a node stays or goes, what a NodePool can launch, what a code means",
    "calendar": "each NodePool's next days: open, closed, and the settings of its Calendars",
    "validate": "every problem of every object",
    "convert": "older API versions to v1",
    "status": "the status of a cluster: nodes, cost, budgets, work in progress and what blocks it",
    "top": "a cluster on a screen that follows it: nodes, NodePools, pending pods, work and brakes",
    "console": "a page on this machine: the cluster, its decisions, why, and what would change them",
    "metrics": "the state of a cluster for Prometheus, with a Grafana dashboard and alert rules",
    "approve": "approve or reject a command that waits for a person",
    "pause": "stop voluntary disruption, or everything, until `resume`",
    "resume": "release the kill switch",
    "adopt": "list nodes of Karpenter that can be adopted, and adopt them; none is replaced",
    "release": "list nodes that can be released to Karpenter, and release them",
    "switch": "move a cluster from Karpenter or back: plan, freeze, hand over, start, verify, undo",
    "drain": "drain every node and remove everything else, before the stack is removed",
    "log": "decisions, with their reasons and their cost or saving",
    "replay": "repeat the decisions in a ledger, and compare the results byte for byte",
    "what-if": "a recorded period under other NodePools, budgets or prices",
    "report": "the cost of a period, by owner, beside baselines, and the reasons that it was not lower",
    "forecast": "ramps that recur each week, and the warm room that would be ready for them",
    "shadow": "Karpenter's decisions beside ours: cost, evictions, waits, and where ours are worse",
    "snapshot": "a cluster as one document, with or without its names",
    "simulate": "the whole system in virtual time over a scenario",
    "catalog": "a region's instance types and prices as a file, read with your AWS permissions",
    "doctor": "problems of an AWS account or a cluster, each with its repair",
    "crds": "the CustomResourceDefinitions of NodePool, NodeClaim, NodeOverlay, EC2NodeClass and Calendar",
    "completion": "completion of commands and options for bash, zsh and fish",
    "man": "the manual page",
}

_FILES: Final = {
    **dict.fromkeys(("forecast", "log", "replay", "report", "shadow", "what-if"), "ledger"),
    **dict.fromkeys(("console", "metrics", "status", "top"), "cluster"),
    **dict.fromkeys(("convert", "crds", "validate"), "manifests"),
    **dict.fromkeys(("adopt", "release", "switch"), "takeover"),
    **dict.fromkeys(("completion", "man"), "program"),
    **dict.fromkeys(("pause", "resume"), "pause"),
}
"""Command → the file in `cli.commands` that holds it with others; its functions there end in the command's name."""

EXTRAS: Final = {"moto": "simulate", "boto3": "simulate", "botocore": "simulate", "aws_lambda_powertools": "simulate"}
"""Library → the extra of the wheel that installs it."""

_COMPLETING: Final = "_ARGCOMPLETE"
"""Environment variable that the shell's completion (argcomplete) sets."""

EXIT_CODES: Final = {
    DONE: "done",
    NEGATIVE: "the answer is negative: a pod stays unschedulable, a manifest is invalid, a run had violations",
    BAD_INPUT: "wrong usage or unreadable input",
    INTERNAL: "internal error",
    INTERRUPTED: "interrupted with Ctrl-C",
}

_EXAMPLES: Final = f"""examples:
  {KUBECTL} > cluster.yaml
  fleetwright plan -f cluster.yaml
  fleetwright consolidate -f cluster.yaml
  fleetwright diff --from main/ --to pull-request/ -o markdown
  fleetwright explain shop/cart-0 -f cluster/
  fleetwright status --cluster prod
  fleetwright validate -f pools/
  fleetwright simulate examples/demo.yaml --report build/demo.html
  fleetwright crds | kubectl apply --server-side -f -
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    os.environ.update(ARRAY_THREADS)
    words = list(sys.argv[1:] if arguments is None else arguments)
    if _COMPLETING in os.environ:
        _complete()
    if not words:
        _parser(()).print_help(sys.stderr)
        return BAD_INPUT
    debug = "--debug" in words
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    try:
        parsed = _parsed([word for word in words if word != "--debug"])
        choose_style(getattr(parsed, "color", AUTO))
        return _ended(_run(parsed))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else DONE if stop.code is None else BAD_INPUT
    except (InputError, InvalidInputError) as error:
        _report(error, traced=debug)
        return BAD_INPUT
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(str(error.name).partition(".")[0])
        if extra is None:
            return _internal(error, traced=debug)
        needed = (
            f"this command needs {error.name}: install 'fleetwright-eks[{extra}]', from a wheel 'FILE.whl[{extra}]'"
        )
        _report(needed, traced=debug)
        return BAD_INPUT
    except RecursionError:
        _report("something in the input is nested too deeply to be followed (--debug says where)", traced=debug)
        return BAD_INPUT
    except KeyboardInterrupt:
        _report("interrupted", traced=debug)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:  # noqa: BLE001 - the outermost boundary: any other exception is a bug of ours
        return _internal(error, traced=debug)


def _run(parsed: argparse.Namespace) -> int:
    """Run the command once, or under `--watch` until Ctrl-C."""
    every = getattr(parsed, "watch", None)
    if not every:
        return int(parsed.run(parsed))
    from cli.terminal.screen import repeat

    return repeat(lambda: int(parsed.run(_for_one_reading(parsed))), every)


def _for_one_reading(parsed: argparse.Namespace) -> argparse.Namespace:
    """Return arguments that a command may complete: the next reading begins with those that were given."""
    from cli.manifests.inventory import STANDARD_INPUT
    from core.interpreter import TrackedObjects

    if STANDARD_INPUT in parsed.files:
        raise InputError("standard input can be read once only: name a file or a cluster", source="--watch")
    TrackedObjects.unfreeze()  # a command freezes what it reads, for as long as it lives
    return argparse.Namespace(**vars(parsed))


def _complete() -> None:
    """Answer the shell's completion request, and exit."""
    import argcomplete

    line = os.environ.get("COMP_LINE", "")
    words = line[: int(os.environ.get("COMP_POINT", len(line)))].split()
    argcomplete.autocomplete(_parser(words[1:], is_complete=False), always_complete_options=False)


def _ended(code: int) -> int:
    """Flush now, while a closed pipe can still be distinguished from a bug."""
    sys.stdout.flush()
    return code


def _internal(error: Exception, *, traced: bool) -> int:
    _report(f"internal error: {type(error).__name__}: {error}", traced=traced)
    print("hint: run it again with --debug for the traceback, and report it with the input", file=sys.stderr)
    return INTERNAL


def _report(problem: object, *, traced: bool) -> None:
    if traced:
        import traceback

        traceback.print_exc()
    write_stderr(*error_lines(problem))


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command alone."""
    return _configured(_Parser(prog=f"fleetwright {name}", formatter_class=_Help), name)


def whole_parser() -> argparse.ArgumentParser:
    """Return the program's parser with the arguments of every command."""
    parser = _parser(())
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001 - argparse has no other way
    for name, command in commands.choices.items():
        _configured(command, name)
    return parser


def _parser(words: Sequence[str], *, is_complete: bool = True) -> argparse.ArgumentParser:
    """Return a parser that knows all commands, but loads only the requested one's arguments and module."""
    parser = _Parser(
        prog="fleetwright",
        description="A node provisioner for Amazon EKS: what it would do, on files or on your cluster, and what it has done.",
        epilog=f"exit codes:\n{_exit_codes()}\n\n{_EXAMPLES}",
        formatter_class=_Help,
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    wanted = next((word for word in words if not word.startswith("-")), "")
    if is_complete and wanted and wanted not in COMMANDS:
        _suggest(parser, wanted)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary, formatter_class=_Help)
        if name == wanted:
            _configured(command, name)
    return parser


def _suggest(parser: argparse.ArgumentParser, wanted: str) -> None:
    """Exit with the command that the user probably meant, if there is one."""
    import difflib

    if near := difflib.get_close_matches(wanted, COMMANDS):
        parser.error(f"there is no command {wanted!r}, did you mean {near[0]!r}?")


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parsed, unknown = _parser(words).parse_known_args(words)
    if unknown:
        _refuse(parsed.command, unknown)
    return parsed


def _refuse(command: str, unknown: Sequence[str]) -> NoReturn:
    """Exit with the arguments that the command does not have, and the option that the user probably meant."""
    import difflib

    parser = command_parser(command)
    options = sorted(parser._option_string_actions)  # noqa: SLF001 - argparse has no other way
    near = difflib.get_close_matches(unknown[0].partition("=")[0], options, cutoff=0.7)
    if "-f" in options and not unknown[0].startswith("-"):
        near = [f"-f {unknown[0]}"]
    meant = f", did you mean {near[0]!r}?" if near else ""
    parser.error(f"it does not take {' '.join(unknown)!r}{meant}")


def _configured(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    word = name.replace("-", "_")
    module = importlib.import_module(f"cli.commands.{_FILES.get(name, word)}")
    suffix = f"_{word}" if name in _FILES else ""
    getattr(module, f"configure{suffix}")(parser)
    parser.set_defaults(run=getattr(module, f"run{suffix}"))
    return parser


def _exit_codes() -> str:
    return "\n".join(f"  {code:<3}  {meaning}" for code, meaning in EXIT_CODES.items())


class _Parser(argparse.ArgumentParser):
    """Prints errors in one line with a hint: the full usage would push the error off the screen."""

    def error(self, message: str) -> NoReturn:
        write_stderr(f"{self.prog}: error: {message}", f"hint: {self.prog} --help lists what it takes")
        self.exit(BAD_INPUT)


class _Help(argparse.RawDescriptionHelpFormatter):
    """Formats help with columns that leave room for the texts."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        super().__init__(prog, **{"max_help_position": 32, **kwargs})

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Name an option's value once (`-f, --filename PATH`), as argparse does from Python 3.13 on."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap a single sentence; examples keep their lines."""
        fill = super()._fill_text if "\n" in text else super(argparse.RawDescriptionHelpFormatter, self)._fill_text
        return fill(text, width, indent)


if __name__ == "__main__":
    sys.exit(main())
