"""Assembles the embedded world (clock, record, account, cluster, functions, judges) and runs a scenario in it to the end."""

from __future__ import annotations

import logging
import os
import random
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from adapters.composition.functions import Adapters
from adapters.observability import logger, unwatched
from adapters.ports import CatalogueStore
from adapters.runtime import TaskRunners, in_turn
from installation.settings import OFF, Settings
from installation.wiring import ALL_BY_NAME, FunctionSpec, deployed_functions
from lambdas import bootstrap
from lambdas.application.controllers import Application
from simulator.aws.account import Account, Surroundings
from simulator.aws.dynamodb.table import Key
from simulator.aws.ec2.boot import Boot
from simulator.aws.ec2.instances import Instance
from simulator.aws.installation import Region, read_region
from simulator.checkers.disruption import Writer
from simulator.checkers.pods import Judges, Violation
from simulator.clock import SkewedClock, VirtualClock, stream
from simulator.cluster import Cluster
from simulator.disturbances import Disturbances
from simulator.events import Pump
from simulator.invocation.faults import ClusterCalls, Faults, MessageFaults
from simulator.invocation.sandbox import Handler, Sandboxes
from simulator.outcome import (
    CLAIMS,
    CostMeter,
    DecisionLog,
    LedgerFolder,
    RunSummary,
    costs,
    judged,
    kind_of_partition,
    record_of,
    summarize,
    unschedulable_by_reason,
)
from simulator.record import Event, Recorder
from simulator.scenario import Scenario, TracedPod, read_scenario, read_trace
from simulator.steps import OwnCatalogue, Steps

IMPROVE_ITERATIONS: Final = 40
"""The optimiser's bound on steps, since a bound in seconds would make runs differ. They take a few hundredths of a second."""


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """How much work a world does.

    Attributes:
        improve_iterations: Steps that the optimiser takes at most for a plan.
        checks_parameters: Whether the parameters of AWS calls are checked against the services' descriptions, as boto3 does.
        slower: How many times rarer the functions' schedules are. Months need it: what no event tells is found later.
    """

    improve_iterations: int = IMPROVE_ITERATIONS
    checks_parameters: bool = True
    slower: int = 1


THOROUGH: Final = Effort()
QUICK: Final = Effort(improve_iterations=4, checks_parameters=False)
"""The effort of thousands of worlds that test for lost work, not for cost."""


class World:
    """Everything that a scenario plays on. Made by `open_world`.

    Attributes:
        skew: Returns the clock error of a new sandbox.
    """

    def __init__(
        self,
        scenario: Scenario,
        region: Region,
        seed: int,
        recorder: Recorder,
        clock: VirtualClock,
        effort: Effort = THOROUGH,
        *,
        keeps_ledger: bool = False,
        changed: Callable[[Settings], Settings] = lambda settings: settings,
    ) -> None:
        self.scenario = scenario
        self._changed = changed
        self._keeps_ledger = keeps_ledger
        self._effort = effort
        self.clock = clock
        self.recorder = recorder
        self.decisions = DecisionLog(clock)
        self.warnings: list[str] = []
        self.skew: Callable[[], timedelta] = timedelta
        self._seed = seed
        self._region = region
        self._catalogues: CatalogueStore | None = None
        self.sandboxes = Sandboxes(
            clock,
            recorder,
            build=self.application,
            use=_show,
            handler_of=_handler_of,
            processor=(scenario.processor.cpu, scenario.processor.factor),
            memory_mib=scenario.memory_mib,
        )
        self.faults = Faults(clock, recorder, self.sandboxes.running)
        self.message_faults = MessageFaults(clock, recorder)
        self.cluster = Cluster(clock, recorder, stream(seed, "cluster"))
        self.summary = RunSummary()
        self.judges = Judges(self._capacity_of)
        recorder.listen(self.summary.see)
        recorder.listen(self.judges.see)
        recorder.listen(self.decisions.see)

    def _repeats(self) -> Callable[[], bool]:
        share, rng = self.scenario.aws.repeats, stream(self._seed, "repeated messages")
        return lambda: share > 0 and rng.random() < share

    def surroundings(self) -> Surroundings:
        """Return the parts of this world that the account depends on."""
        return Surroundings(
            clock=self.clock,
            recorder=self.recorder,
            faults=self.faults,
            message_faults=self.message_faults,
            bus=self._put_event,
            spend=self.sandboxes.spend,
            seed=self._seed,
            silences=self.scenario.aws,
        )

    def settle_in(self, account: Account) -> None:
        """Join the account and the cluster with each other and with the functions."""
        scenario, clock = self.scenario, self.clock
        self.account = account
        self.meter = CostMeter(clock, account.exchange)
        self._claims_by_instance: dict[str, str] = {}
        settings = self._settings()
        is_distributed = settings.distribute_from is not None
        functions = deployed_functions(is_shadow=settings.is_shadow, is_distributed=is_distributed)
        self.pump = Pump(
            clock, self.sandboxes, account.queues, self.message_faults, self.decisions.write, self.recorder, functions
        )
        self.pump.delay(
            audit_log=partial(scenario.aws.audit_log_lag.draw, stream(self._seed, "audit log")),
            schedule=partial(scenario.aws.schedule_jitter.draw, stream(self._seed, "schedules")),
            rules=partial(scenario.aws.event_lag.draw, stream(self._seed, "rules")),
        )
        self.message_faults.repeats = self._repeats()
        account.queues.on_delay(self._queue_delayed)
        account.schedules.on_fire(self.pump.window)
        account.executions.on_task(self.pump.task)
        account.executions.repeats = self._repeats()
        self.boot = Boot(
            clock,
            account.exchange,
            self._join,
            account.instances.fail_start,
            takes=partial(scenario.boot.draw, stream(self._seed, "boot")),
            region=self._region,
        )
        account.wire.on_call(self.sandboxes.note_call)
        account.wire.answer_in(self.sandboxes.elsewhere)
        account.table.listen(self._row_written)
        account.instances.on_change(self.meter.settle)
        account.instances.on_launch(self.meter.started)
        account.instances.on_launch(self.boot.launched)
        account.instances.on_end(self._ended)
        self.cluster.on_fault_point(ClusterCalls(self.faults, self.sandboxes.spend))
        if any(step.etcd is not None for step in scenario.steps):
            self.cluster.store.keep_history()
        self.cluster.on_audit_event(self.pump.audit)
        self._steps = self._steps_in(account)

    def _steps_in(self, account: Account) -> Steps:
        disturbances = Disturbances(
            account,
            self.cluster,
            self.recorder,
            stream(self._seed, "disturbances"),
            self.sandboxes.spend,
            self.warnings.append,
        )
        return Steps(
            account,
            self.cluster,
            self.boot,
            self.faults,
            self.message_faults,
            self.meter,
            stream(self._seed, "steps"),
            disturbances,
        )

    def play(self, traced: list[TracedPod]) -> None:
        """Schedule all of the scenario's events on the clock, and start the functions."""
        start = self.clock.now()
        for reservation in self.scenario.capacity_reservations:
            self._steps.reserve(reservation)
        self._steps.apply(self.scenario.manifests)
        self.pump.start(self._effort.slower)
        for step in self.scenario.steps:
            self.clock.at(start + step.at, partial(self._steps.perform, step))
        for pod in traced:
            self.clock.at(start + pod.appears, partial(self._steps.apply, [pod.manifest]))
            self.clock.at(start + pod.vanishes, partial(self._steps.remove, pod.manifest))

    def finish(self) -> None:
        """Stop the world at the end of the scenario, and return warnings."""
        self.clock.abandon()
        self.meter.settle()
        self.warnings += [f"no call matched the fault on {call}" for call in self.faults.unused()]

    def _put_event(self, source: str, detail_type: str, detail: dict[str, Any]) -> None:
        self.pump.put_event(source, detail_type, detail)

    def _ended(self, instance: Instance) -> None:
        self.meter.ended(instance)
        self.cluster.lose_instance(instance.provider_id)

    def _row_written(self, key: Key, item: dict[str, Any] | None) -> None:
        if kind_of_partition(key.partition) == CLAIMS:
            row = None if item is None else record_of(item)
            self.judges.ledger.places.claim_written(self.clock.now(), self._writer(), key.sort, row)
            machine = (row or {}).get("machine") or {}
            if machine:
                self._claims_by_instance[machine["instance_id"]] = key.sort

    def _writer(self) -> Writer | None:
        since, called_at = self.sandboxes.running_since(), self.sandboxes.called_at()
        return None if since is None or called_at is None else Writer(since, called_at)

    def _queue_delayed(self, queue: str, lag: timedelta) -> None:
        self.recorder.emit("queueDelayed", queue=queue, seconds=lag.total_seconds())

    def _join(self, node: dict[str, Any], claim: str, becomes_ready: bool = True) -> None:  # noqa: FBT002 - boot's form
        """Register a node; its instance may not be named after its claim yet, which is in the table."""
        instance = str(node["spec"]["providerID"]).rpartition("/")[2]
        claim = self._claims_by_instance.get(instance, claim)
        self.cluster.join_node(node, node_claim=claim, becomes_ready=becomes_ready)

    def _capacity_of(self, instance_type: str) -> dict[str, int]:
        listed_type = self.account.exchange.instance_type(instance_type)
        return {} if listed_type is None else listed_type.capacity

    def application(self, _: FunctionSpec | None = None) -> Application:
        """Build the application of a new sandbox."""
        source = None
        if not self._region.shapes:
            source = OwnCatalogue(self.clock, self.account.exchange, self._region.name)
        adapters = Adapters(
            self._settings(),
            self.account.session,
            SkewedClock(self.clock, self.skew(), worked=self.sandboxes.worked, uncharged=self.sandboxes.uncharged),
            kubernetes=self.cluster.api,
            catalogue_source=source,
            catalogues=source or self._catalogues,
            pause=self.sandboxes.spend,
            run_tasks=TaskRunners(messages=in_turn, launches=self.sandboxes.side_by_side),
        )
        # One market per process: each sandbox asks S3, and a changed reading is unpacked once for all.
        self._catalogues = adapters.catalogues
        return Application(adapters)

    def _settings(self) -> Settings:
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in sorted(self.scenario.feature_gates.items()))
        environment = {**self.account.settings.to_environment(), "KEEP_LEDGER": "true", **self.scenario.settings}
        chosen = Settings.from_environment(environment)
        settings = msgspec.structs.replace(
            chosen,
            feature_gates=gates,
            improve_iterations=self._effort.improve_iterations,
            keep_ledger=self._keeps_ledger or chosen.forecast != OFF,
        )
        return self._changed(settings)


@contextmanager
def open_world(
    scenario: Scenario,
    region: Region,
    seed: int,
    recorder: Recorder,
    clock: VirtualClock,
    effort: Effort = THOROUGH,
    *,
    keeps_ledger: bool = False,
    changed: Callable[[Settings], Settings] = lambda settings: settings,
) -> Iterator[World]:
    """Open the world, whose functions keep a ledger or none; it is closed at the end of the context.

    `changed` returns the functions' settings with what no scenario can say.
    """
    world = World(scenario, region, seed, recorder, clock, effort, keeps_ledger=keeps_ledger, changed=changed)
    with _quiet():
        world.settle_in(Account(world.surroundings(), region, validates=effort.checks_parameters))
        try:
            yield world
        finally:
            clock.abandon()


@contextmanager
def _quiet() -> Iterator[None]:
    """Discard the functions' output: nothing reads it here, and its real times mean nothing."""
    level = logger.log_level
    logger.setLevel(logging.CRITICAL)
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), warnings.catch_warnings(), unwatched():
        warnings.filterwarnings("ignore", module="aws_lambda_powertools")
        try:
            yield
        finally:
            logger.setLevel(level)


def _show(application: Application) -> None:
    bootstrap.use(lambda: application)


def _handler_of(function: FunctionSpec) -> Handler:
    module, _, name = ALL_BY_NAME[function.name].handler.rpartition(".")
    handler: Handler = getattr(import_module(module), name)
    return handler


# Runs a scenario from start to end.


Progress = Callable[[datetime, datetime], None]
"""Called now and then with the progress of the run and its end, in virtual time."""

_TELL_EVERY: Final = timedelta(minutes=10)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run.

    Attributes:
        summary: The SimulationSummary of the command line's contract.
        events: The record.
        decisions: The functions' decisions, in order and without repeats: at, function, kind, subject, reason, message.
        violations: What the judges found.
        warnings: What in the scenario had no effect.
        failures: What handlers raised, with tracebacks.
    """

    summary: dict[str, Any]
    events: tuple[Event, ...]
    decisions: tuple[dict[str, Any], ...]
    violations: tuple[Violation, ...]
    warnings: tuple[str, ...]
    failures: tuple[str, ...]


def run(
    path: Path,
    *,
    seed: int | None = None,
    record: Path | None = None,
    ledger: Path | None = None,
    progress: Progress | None = None,
    beside: Callable[[World], object] = lambda _: None,
) -> Result:
    """Run a scenario.

    Args:
        path: The scenario file.
        seed: Replaces the scenario's own seed.
        record: Where the record goes, one JSON object a line.
        ledger: The folder in which the functions' ledger is kept; None: they keep none.
        progress: Called from time to time with the run's progress.
        beside: Called with the world before its time begins, to put another program into it.

    Raises:
        InvalidInputError: If the scenario, or a file that it names, cannot be read.
    """
    scenario = read_scenario(path)
    region = _region_of(scenario)
    traced = [] if scenario.trace is None else read_trace(scenario.file(scenario.trace.file), scenario.trace)
    own_seed = scenario.seed if seed is None else seed
    began = time.perf_counter()
    clock = VirtualClock(scenario.start)
    recorder = Recorder(clock)
    events: list[Event] = []
    recorder.listen(events.append)
    with (
        _written(recorder, record),
        seeded(own_seed),
        open_world(scenario, region, own_seed, recorder, clock, keeps_ledger=ledger is not None) as world,
    ):
        if ledger is not None:
            world.account.wire.listen(LedgerFolder(ledger).see)
        recorder.emit("simulationStarted", scenario=scenario.name, seed=own_seed)
        beside(world)
        world.play(traced)
        _run_to_end(world, scenario, progress)
        world.finish()
        recorder.emit("simulationEnded")
        return _result(world, events, time.perf_counter() - began)


def _region_of(scenario: Scenario) -> Region:
    region = read_region(scenario.catalogue_file)
    return msgspec.structs.replace(region, vcpu_quotas={**region.vcpu_quotas, **scenario.vcpu_quotas})


def _run_to_end(world: World, scenario: Scenario, progress: Progress | None) -> None:
    end = scenario.start + scenario.duration
    moment = scenario.start
    while moment < end:
        moment = min(end, moment + _TELL_EVERY) if progress is not None else end
        world.clock.run_until(moment)
        if progress is not None:
            progress(moment, end)


def _result(world: World, events: list[Event], wall_seconds: float) -> Result:
    verdict = world.judges.finish()
    unschedulable = unschedulable_by_reason(world.summary.pending(), world.decisions.entries)
    figures = {
        **world.summary.figures(unschedulable),
        **costs(world.meter),
        **judged(verdict),
        "cpuSeconds": {name: round(seconds, 3) for name, seconds in sorted(world.sandboxes.cpu_seconds.items())},
        "peakMemoryMiB": dict(sorted(world.sandboxes.peak_memory_mib.items())),
        "decisions": len(world.decisions.entries),
    }
    seconds = round(world.scenario.duration.total_seconds())
    return Result(
        summary=summarize(world.scenario.name, seconds, wall_seconds, figures),
        events=tuple(events),
        decisions=tuple(world.decisions.entries),
        violations=verdict.violations,
        warnings=tuple(world.warnings),
        failures=tuple(world.sandboxes.failures),
    )


@contextmanager
def _written(recorder: Recorder, record: Path | None) -> Iterator[None]:
    if record is None:
        yield
        return
    with record.open("wb") as file:

        def write(event: Event) -> None:
            file.write(event.to_line() + b"\n")

        recorder.listen(write)
        yield


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Python's own generator follows the seed too: the SDK draws the length of its waits from it."""
    state = random.getstate()
    random.setstate(stream(seed, "process").getstate())
    try:
        yield
    finally:
        random.setstate(state)
