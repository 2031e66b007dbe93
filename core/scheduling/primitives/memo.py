"""Memoization of pure functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, TypeVar, cast

Question = ParamSpec("Question")
Answer = TypeVar("Answer")


def memo(answer: Callable[Question, Answer]) -> Callable[Question, Answer]:
    """Return the function with its answers remembered; `functools.cache` alone would lose the types of its arguments.

    An object creates its memos in its constructor, from functions of its parts and not of itself: a memo that holds its owner
    is a cycle, which is not freed while the collector is paused (`core.gc_pause`). Whatever depends on something else is
    another object with other memos, so there is nothing to reset.
    """
    return cast("Callable[Question, Answer]", cache(answer))
