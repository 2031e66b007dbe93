"""Similar pods are merged, so that the program stays small; their minimum bounds, their mean plans."""

from __future__ import annotations

import numpy as np

from core.packing.search_settings import DEFAULT_SETTINGS
from core.packing.target.fleet_problem import PodCells
from tests.unit.packing.target.fleets import a_fleet


def test_a_few_items_stay_separate() -> None:
    fleet = a_fleet([[1, 2]], free=[0], prices=[1], machines={4: 1})
    assert PodCells.of(fleet).cell.tolist() == [0, 1]


def test_many_items_are_merged_by_size_and_never_across_places() -> None:
    items = 4 * DEFAULT_SETTINGS.target.cells_max
    requests = np.arange(1, items + 1, dtype=np.int64)[:, None]
    fits = (np.arange(items) % 2 == 0)[:, None]
    fleet = a_fleet([[1] * items], free=[0], prices=[1], machines={10**6: 1}, requests=requests, fits=fits)
    cells = PodCells.of(fleet)
    assert len(cells.members) <= DEFAULT_SETTINGS.target.cells_max
    for members in cells.members:
        assert len(set(fits[members > 0, 0].tolist())) == 1
    least, mean = cells.least_requests(fleet), cells.mean_requests(fleet)
    assert (least <= mean).all()
    assert (least[cells.cell] <= requests).all()
