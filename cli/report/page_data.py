"""The data of the page's charts and timeline, as JSON for its script."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from cli.report import series
from cli.report.bands import Band, bands
from cli.report.comparison import Comparison, sampled
from cli.report.node_lifetimes import NodeLifetime

NODES_MAX: Final = 1500
PODS_NAMED_MAX: Final = 60


class PageContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a page.

    Attributes:
        summary: The SimulationSummary of the contract.
        events: The record: moment, event, fields.
        decisions: The functions' decisions, in order: at, function, kind, subject, reason, message.
        comparison: The comparison, None if it was not requested.
    """

    summary: Mapping[str, Any]
    events: Sequence[tuple[datetime, str, Mapping[str, Any]]]
    decisions: Sequence[Mapping[str, Any]]
    comparison: Comparison | None = None


def page_data(content: PageContent, lines: series.Series, found: Sequence[NodeLifetime]) -> str:
    """Return the data of the charts, and of the nodes that fit."""
    end = content.events[-1][0]
    data: dict[str, Any] = {
        "start": _seconds(content.events[0][0]),
        "end": _seconds(end),
        "t": [_seconds(at) for at in lines.times],
        "pending": lines.pending,
        "nodes": lines.nodes,
        "hourly": [round(value, 4) for value in lines.hourly],
        "kept": [round(value, 4) for value in lines.kept],
        "spent": [round(value, 3) for value in lines.spent],
        "bands": [_band(band) for band in bands(content.events)],
        "lives": [_life(life, end) for life in found[:NODES_MAX]],
    }
    if content.comparison is not None:
        data["karpenter"] = sampled(content.comparison.karpenter, lines.times)
        data["minimum"] = sampled(content.comparison.minimum, lines.times)
    return json.dumps(data, separators=(",", ":")).replace(
        "<", "\\u003c"
    )  # so that neither an end tag nor a comment starts in it


def _band(band: Band) -> dict[str, Any]:
    return {"from": _seconds(band.start), "to": _seconds(band.end), "kind": band.kind, "text": band.text}


def _life(life: NodeLifetime, end: datetime) -> dict[str, Any]:
    moments = {
        key: _seconds(moment)
        for key, moment in (
            ("launched", life.launched),
            ("joined", life.joined),
            ("ready", life.ready),
            ("noticed", life.noticed),
            ("disrupted", life.disrupted),
            ("ended", life.ended),
        )
        if moment is not None
    }
    return {
        "name": life.name,
        "claim": life.claim,
        "pool": life.pool,
        "type": life.instance_type,
        "zone": life.zone,
        "capacity": life.capacity_type,
        "price": life.price,
        "cost": round(life.cost(end), 4),
        "reason": life.reason,
        "pods": list(dict.fromkeys(life.pods))[:PODS_NAMED_MAX],
        "podCount": len(set(life.pods)),
        "evicted": len(life.evicted),
        **moments,
    }


def _seconds(moment: datetime) -> int:
    return round(moment.timestamp())
