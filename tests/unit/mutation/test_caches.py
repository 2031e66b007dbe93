"""Each test is noted with all lines that it needs, and sees a mutant in them, whichever test ran before it."""

from __future__ import annotations

import gc
from functools import cache
from types import SimpleNamespace

from core.api.translation import KEPT, node_pool
from core.interpreter import ByIdentity
from tests.mutation.caches import Caches
from tests.unit.api.objects import NODE_POOL

ASKED: list[object] = []


@cache
def helper(number: int) -> int:
    ASKED.append(number)
    return number


def by_object(key: SimpleNamespace) -> SimpleNamespace:
    ASKED.append(key)
    return key


def test_what_a_function_remembers_is_forgotten() -> None:
    """Otherwise, only the first test that asks it seems to run the code behind it."""
    one, kept = SimpleNamespace(), ByIdentity(by_object, size=KEPT)
    caches = Caches()
    ASKED.clear()
    for times in (1, 2):
        caches.empty()
        for _ in range(3):
            helper(1)
            kept(one)
        assert [1, one] * times == ASKED


def test_caches_are_found_whatever_was_frozen_before() -> None:
    """A command freezes what it has read."""
    gc.freeze()
    test_what_a_function_remembers_is_forgotten()
    assert gc.get_freeze_count() > 0


def test_objects_are_read_again_which_the_product_does_once() -> None:
    """Test modules read some while they are collected: a fault in the hash of a NodePool was noticed by nobody."""
    first = node_pool(NODE_POOL)
    assert node_pool(NODE_POOL) is first
    Caches().empty()
    assert node_pool(NODE_POOL) is not first
