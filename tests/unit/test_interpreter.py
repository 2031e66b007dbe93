"""The garbage collector is off while plans are made: it is turned on again, and no plan needs it."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from core.interpreter import ByIdentity, TrackedObjects, collector_paused, lazily
from core.scheduling import schedule
from tests.property.naive.extras import rich_cluster


def test_it_is_on_again_after_an_error() -> None:
    """Otherwise, a process whose plan failed never collects again."""
    with pytest.raises(ZeroDivisionError), collector_paused():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_a_nested_pause_ends_with_the_outer_one() -> None:
    """Reading within a longer pause does not end it."""
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_pause_leaves_objects_as_they_were_and_counts_no_frozen_object(
    is_frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count visits each object: it took a third of the time of the functions' tests and of the campaign."""
    count = gc.get_freeze_count
    before = TrackedObjects.is_frozen
    (TrackedObjects.freeze if is_frozen else TrackedObjects.unfreeze)()
    with monkeypatch.context() as patched:
        patched.setattr(gc, "get_freeze_count", None)
        with collector_paused():
            pass
    frozen = count()
    (TrackedObjects.freeze if before else TrackedObjects.unfreeze)()
    assert (frozen > 0) == is_frozen


def test_a_plan_leaves_no_reference_cycles() -> None:
    """Otherwise, plan after plan without the collector fills the function's memory."""
    for seed in range(8):
        snapshot = rich_cluster(seed)
        schedule(snapshot)  # caches of catalogues last from plan to plan
        gc.freeze()  # what is there already is not looked through again
        with collector_paused():
            schedule(snapshot)
            found = gc.collect()
        assert found == 0, f"seed {seed}"


# Results that are cached by the identity of what they are computed from.


def test_equal_values_are_told_apart_and_the_same_one_is_computed_once() -> None:
    """An identity stays taken as long as its result is cached: another object never gets it."""
    computed: list[list[int]] = []

    def length(value: list[int]) -> int:
        computed.append(value)
        return len(value)

    cached = ByIdentity(length, size=2)
    one, equal = [1, 2], [1, 2]
    assert [cached(value) for value in (one, one, equal, one)] == [2, 2, 2, 2]
    assert [found is one for found in computed] == [True, False]


def test_the_value_that_was_asked_for_longest_ago_is_forgotten_first() -> None:
    """Otherwise, the catalogue of the present snapshot goes when two others are looked at."""
    computed: list[str] = []

    def noted(value: str) -> str:
        computed.append(value)
        return value

    cached = ByIdentity(noted, size=2)
    for value in ("a", "b", "a", "c", "a", "b"):
        cached(value)
    assert computed == ["a", "b", "c", "b"]


# Names of packages are there, and their modules are imported when they are asked for.


@pytest.mark.parametrize("package", ["core.api", "core.disruption", "core.scheduling"])
def test_every_name_that_a_package_offers_is_there_and_loads_nothing_before(package: str) -> None:
    """A name in `__all__` that no module has would be noticed by the first function that needs it."""
    code = (
        f"import sys, {package} as p; before = len([n for n in sys.modules if n.startswith({package!r} + '.')]);"
        "assert all(getattr(p, name) is not None for name in p.__all__); print(before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "0"


def test_another_name_is_an_attribute_error() -> None:
    """`hasattr` and `from … import` ask for names that may not be there."""
    get = lazily("core.values", {"known": "module"})
    with pytest.raises(AttributeError, match=r"module 'core\.values' has no attribute 'other'"):
        get("other")
