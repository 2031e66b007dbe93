"""Many seeds at once: each in a process of its own, forked from one that has everything loaded."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator

from simulator.campaign.market import campaign_region
from simulator.campaign.trial import Outcome, Plan, play


def play_all(plans: Iterable[Plan], processes: int) -> Iterator[Outcome]:
    """Play them, as many at once as there are processes; outcomes come in no order."""
    _warm_up()
    # A process for each seed: what libraries keep between worlds cannot make one seed depend on another.
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(play, plans, chunksize=1)


def _warm_up() -> None:
    for described in (False, True):
        campaign_region(described=described)
