"""Learns ramps that recur from the ledger, an hour at a time, and records what `forecast: shadow` would launch for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from adapters.ledger import LedgerWriter, RecordedSnapshots, SearchBound
from adapters.observation.observer import ClusterState, Observer
from adapters.ports import Clock, Kubernetes
from adapters.run_report import RunReport
from adapters.store import ForecastStore
from core.calendars import wall_time, warm_buffer, zone
from core.forecast import (
    HISTORY,
    LEAD_TIME,
    Forecast,
    ForecastRules,
    GrowthHistory,
    Ramp,
    balance_sentence,
    due,
    extended,
    forecast_from,
    ramp_sentence,
    stopped,
    warm_room,
)
from core.ledger.entry import PROVISION, observed, of_provisioning
from core.model.plan import PlannedClaim
from core.model.snapshot import Snapshot
from core.pods import PodLives
from core.reasons.code import ClaimReason, DecisionKind
from core.reasons.runs import RunReason
from core.scheduling import schedule
from installation.metric_names import FORECAST_USED_PERCENT, FORECASTS_STOPPED
from installation.settings import SHADOW, Settings
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.events import about_node_pool, warning, write

_HOUR: Final = timedelta(hours=1)

SETTLED_AFTER: Final = timedelta(minutes=15)
"""How long after an hour its pods are read: those that came at its end have nodes by then, and their decisions are stored."""

BEFORE: Final = timedelta(minutes=30)
"""From when on snapshots are read for an hour: one of before its start says which pods were there."""

READING_MAX: Final = timedelta(seconds=30)
"""How long one run reads the ledger; the first weeks take several runs."""

MARGIN: Final = timedelta(seconds=60)
"""No further hour is read with less time left: an observation and a plan follow."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(kw_only=True)
class ForecastRuns:
    """The second part of a scheduled run of `disrupt`. Its failures are reported, and harm nothing else."""

    observer: Observer
    recorded: RecordedSnapshots
    store: ForecastStore
    ledger: LedgerWriter
    kubernetes: Kubernetes
    settings: Settings
    clock: Clock
    _next_at: datetime = field(default=_LONG_AGO, init=False)
    """When the next hour can be read."""

    def run(self, report: RunReport, *, deadline: datetime) -> None:
        """Read what is due, forecast again after it, and in shadow record the room of the ramps that come."""
        boundary = Boundary(report)
        if self.clock.now() >= self._next_at:
            boundary.attempt("forecast", lambda: self._learn(report, deadline))
        if self.settings.forecast == SHADOW:
            boundary.attempt("forecast in shadow", lambda: self._record(report))

    def _learn(self, report: RunReport, deadline: datetime) -> None:
        rules, started_at = _rules(self.settings), self.clock.now()
        history = before = self._history(rules, started_at)
        until = min(started_at + READING_MAX, deadline - MARGIN)
        while history.read_until + _HOUR + SETTLED_AFTER <= started_at and self.clock.now() < until:
            history = self._with_next_hour(history, rules)
        if history.read_until != before.read_until:
            self.store.write_history(history)
        report.count("forecastHours", (history.read_until - before.read_until) // _HOUR)
        if history.read_until + _HOUR + SETTLED_AFTER > started_at:
            self._forecast(history, rules, report)
            self._next_at = history.read_until + _HOUR + SETTLED_AFTER

    def _history(self, rules: ForecastRules, now: datetime) -> GrowthHistory:
        """Return what was read so far; without it, or by other clocks, an empty one from the first hour that counts."""
        first = (now - HISTORY).astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        history = self.store.history()
        if history is None or history.time_zone != rules.time_zone or not first <= history.read_until <= now:
            return GrowthHistory(time_zone=rules.time_zone, read_until=first)
        return history

    def _with_next_hour(self, history: GrowthHistory, rules: ForecastRules) -> GrowthHistory:
        start, end = history.read_until, history.read_until + _HOUR
        lives, first = PodLives(), history.since
        for snapshot in self.recorded.between(start - BEFORE, end + SETTLED_AFTER):
            lives.see(snapshot)
            first = first or snapshot.now
        return extended(msgspec.structs.replace(history, since=first), lives.lives, end, rules)

    def _forecast(self, history: GrowthHistory, rules: ForecastRules, report: RunReport) -> None:
        """Store the forecast, and tell which ramps get no room any more."""
        previous = self.store.forecast()
        view = self.observer.observe()
        forecast = forecast_from(history, view.snapshot, rules)
        noted = previous.noted if previous is not None else {}
        names = {_name(ramp) for ramp in forecast.ramps}
        forecast = msgspec.structs.replace(forecast, noted={name: day for name, day in noted.items() if name in names})
        self.store.write_forecast(forecast)
        stopped_before = {_name(ramp) for ramp in stopped(previous)} if previous is not None else set[str]()
        self._tell(forecast, stopped_before, view, report)

    def _tell(self, forecast: Forecast, stopped_before: set[str], view: ClusterState, report: RunReport) -> None:
        without_room = stopped(forecast)
        report.count(FORECASTS_STOPPED, len(without_room))
        days = [day for ramp in forecast.ramps for day in ramp.recent]
        room = sum(day.room for day in days)
        if room:
            report.count(FORECAST_USED_PERCENT, 100 * sum(min(day.room, day.came) for day in days) // room)
        for ramp in without_room:
            message = f"no room any more for {ramp_sentence(ramp, forecast.rules)}"
            report.decide(DecisionKind.SKIP, f"NodePool {ramp.pool}", RunReason.FORECAST_STOPPED, message)
            if _name(ramp) not in stopped_before and ramp.pool in view.node_pools:
                about = about_node_pool(view.node_pools[ramp.pool])
                event = warning(about, RunReason.FORECAST_STOPPED, message, self.clock.now(), identity=_name(ramp))
                write(self.kubernetes, [event])

    def _record(self, report: RunReport) -> None:
        """Store what would be launched for the ramps that come now, once for each of them and day."""
        forecast, now = self.store.forecast(), self.clock.now()
        if forecast is None:
            return
        today = wall_time(now + LEAD_TIME, zone(forecast.rules.time_zone)).date().isoformat()
        coming = [ramp for ramp in due(forecast, now) if forecast.noted.get(_name(ramp)) != today]
        if not coming:
            return
        self.store.write_forecast(
            msgspec.structs.replace(forecast, noted=forecast.noted | {_name(ramp): today for ramp in coming})
        )
        snapshot = _with_room(self.observer.observe().snapshot, coming)
        plan = schedule(snapshot)
        draft = self.ledger.draft(
            PROVISION, snapshot, plan, SearchBound(snapshot.options.improve_iterations), is_observed=True
        )
        claims = [claim for claim in plan.claims if claim.buffer_pods]
        summary = observed(of_provisioning(claims, (), ()))
        evidence = "; ".join(f"NodePool {ramp.pool}: {_evidence(ramp, forecast.rules)}" for ramp in coming)
        self.ledger.try_write(
            draft, msgspec.structs.replace(summary, what=f"{summary.what}, ahead of {evidence}"), report
        )
        for ramp in coming:
            message = f"would launch {_launched(claims, ramp)} ahead of {_evidence(ramp, forecast.rules)}"
            report.decide(DecisionKind.OBSERVE, ramp.pool, ClaimReason.OBSERVED, message)


def _rules(settings: Settings) -> ForecastRules:
    return ForecastRules(time_zone=settings.forecast_time_zone, nanodollars_per_hour=settings.forecast_amount())


def _name(ramp: Ramp) -> str:
    return f"{ramp.pool} {ramp.name}"


def _evidence(ramp: Ramp, rules: ForecastRules) -> str:
    """Return what the room is for, and what it would have cost and brought lately."""
    return "; ".join(filter(None, (ramp_sentence(ramp, rules), balance_sentence(ramp))))


def _with_room(snapshot: Snapshot, coming: Iterable[Ramp]) -> Snapshot:
    """Return the snapshot as `forecast: on` would have it, with a plan that is not improved."""
    closed = {pool.name for pool in snapshot.node_pools if pool.is_closed}
    written = {buffer.calendar for buffer in snapshot.buffers}
    rooms = {ramp.pool: warm_room(ramp) for ramp in coming}
    warm = tuple(warm_buffer(pool, room) for pool, room in rooms.items() if pool not in closed | written)
    options = msgspec.structs.replace(snapshot.options, improve_iterations=0)
    return msgspec.structs.replace(snapshot, buffers=(*snapshot.buffers, *warm), options=options)


def _launched(claims: Iterable[PlannedClaim], ramp: Ramp) -> str:
    types = [claim.instance_types[0] for claim in claims if claim.node_pool == ramp.pool and claim.instance_types]
    return ", ".join(types) or "nothing, for its nodes have room,"
