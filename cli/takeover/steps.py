"""Carries out a transfer node by node, and reports the result of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from adapters.ports import DeniedError, PortError
from cli.takeover.environment import TakeoverEnvironment
from cli.terminal.printable import write_stderr
from core.api.objects import JsonObject

FAILED: Final = "failed"
T = TypeVar("T")


def in_turn(
    environment: TakeoverEnvironment, due: Iterable[tuple[JsonObject, T]], act: Callable[[T], Any], done: str
) -> bool:
    """Act on each subject, and write its new state into its part of the answer; return whether all went well.

    It stops early if Karpenter is running again or a permission is missing: the next subject would fail too.
    """
    is_well = True
    for part, subject in due:
        try:
            if environment.karpenter_runs():
                part |= {"state": FAILED, "message": "Karpenter was started meanwhile: stop it, and run this again"}
                return False
            act(subject)
        except DeniedError as error:
            part |= {
                "state": FAILED,
                "message": f"{error}; the rest is left as it is: run this again with that permission",
            }
            return False
        except PortError as error:
            part |= {"state": FAILED, "message": f"{error}; run this again: it continues from here"}
            is_well = False
        else:
            part["state"] = done
            write_stderr(f"{part['subject']} {done}")
    return is_well
