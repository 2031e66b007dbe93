"""Answers that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, TypeVar, cast

Question = ParamSpec("Question")
Answer = TypeVar("Answer")


def memo(answer: Callable[Question, Answer]) -> Callable[Question, Answer]:
    """The function with its answers remembered; `functools.cache` alone would lose the types of its arguments.

    An object makes its memos in its constructor, from functions of what it is made of and not of itself: a memo that holds its
    owner is a cycle, which nobody frees while the collector rests (`core.gc_pause`). So whoever depends on something else is
    another object with other memos, and there is nothing to reset.
    """
    return cast("Callable[Question, Answer]", cache(answer))
