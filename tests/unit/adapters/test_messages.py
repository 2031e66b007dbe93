"""Messages that others may have written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from adapters.messages import FRESH_CHAIN, WokenBy, chain_ends_at, hops_of, read_work, wake_up, woken_by
from core.errors import InvalidInputError

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def test_a_time_without_a_zone_is_no_time() -> None:
    """Otherwise, one such message fails its whole batch, and all pods of it wait."""
    odd, good = {"until": "2026-11-23T00:00:00"}, {"wakeUp": "x"}
    records = [{"body": json.dumps(body)} for body in (odd, good)]
    assert chain_ends_at({"Records": records}, NOW) == NOW + FRESH_CHAIN
    with pytest.raises(InvalidInputError):
        read_work(json.dumps({"claim": "a", "until": "2026-11-23T00:00:00"}))


def test_news_begin_a_new_chain() -> None:
    """A run for something new is no step of a loop, whatever else is in its batch."""
    own_message, news = json.dumps(wake_up("x", NOW, 9)), json.dumps(wake_up("y"))
    assert hops_of({"Records": [{"body": own_message}, {"body": json.dumps(wake_up("z", NOW, 4))}]}) == 5
    assert hops_of({"Records": [{"body": own_message}, {"body": news}]}) == hops_of({"Records": [{"body": "{"}]}) == 1
    assert hops_of({}) == hops_of({"Records": []}) == 0


@pytest.mark.parametrize("body", [None, 7, "", "[]", "{", '{"until": 7}', '{"x":' * 20_000])
def test_a_malformed_message_ends_its_series_now(body: object) -> None:
    with pytest.raises(InvalidInputError):
        read_work(body)
    assert woken_by({"Records": [{"body": body}]}) is WokenBy.ITSELF
    assert chain_ends_at({"Records": [{"body": body}]}, NOW) == NOW
    assert chain_ends_at({"Records": []}, NOW) == NOW
    assert chain_ends_at({}, NOW) > NOW + timedelta(0)
