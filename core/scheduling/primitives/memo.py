"""Memoization of pure functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, TypeVar, cast

Question = ParamSpec("Question")
Answer = TypeVar("Answer")


def memo(answer: Callable[Question, Answer]) -> Callable[Question, Answer]:
    """Return the function with cached results; `functools.cache` alone would lose the types of its arguments.

    An object creates its memos in its constructor, from functions of its parts instead of its own methods: a memo that refers
    to its owner is a cycle, which is not freed while the collector is paused (`core.gc_pause`). Objects with different inputs
    have different memos, so no memo is ever reset.
    """
    return cast("Callable[Question, Answer]", cache(answer))
