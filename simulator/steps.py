"""Applies a scenario's steps to the world."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from fractions import Fraction
from random import Random
from typing import Any, TypeVar

from adapters.ports import JsonObject, NotFoundError
from core.catalogue.build import MarketFacts
from core.catalogue.document import Market
from core.errors import FleetwrightError
from core.model.catalogue import Catalogue
from simulator.aws.account import Account
from simulator.aws.ec2.boot import Boot, Concerned
from simulator.aws.ec2.instances import STATUS_CHECK, Instance, Reservation, is_spot
from simulator.aws.installation import ACCOUNT_ID, Exchange, Selection
from simulator.clock import VirtualClock
from simulator.cluster import Cluster
from simulator.cluster.store import name_of
from simulator.disturbances import Disturbances
from simulator.invocation import faults
from simulator.invocation.faults import Faults, MessageFaults
from simulator.outcome import CostMeter
from simulator.scenario import ALL, Brake, CapacityReservation, Fault, Interrupt, Step, Subnet
from simulator.scenario import Boot as BootStep

# A scenario's own catalogue as the functions see it: its types need no EC2 description and are what EC2 sells here.


class OwnCatalogue:
    """Replaces the functions' source and store of the market (`adapters.ports.CatalogueSource` and `CatalogueStore`)."""

    def __init__(self, clock: VirtualClock, exchange: Exchange, region: str) -> None:
        self._clock = clock
        self._exchange = exchange
        self._region = region
        self._facts: MarketFacts | None = None
        self._present: tuple[int, Catalogue] | None = None

    def read(self, previous: MarketFacts | None, *, is_used: bool = False) -> MarketFacts:  # noqa: ARG002 - nothing is kept
        """A reading without shapes: `catalogue` has the types."""
        now = self._clock.now()
        return MarketFacts(shapes=(), market=Market(region=self._region), shapes_read_at=now, prices_read_at=now)

    def facts(self) -> MarketFacts | None:
        """The last reading, None before the first."""
        return self._facts

    def save(self, facts: MarketFacts) -> None:
        """Replace the reading."""
        self._facts = facts

    def catalogue(self, node_classes: Sequence[JsonObject]) -> Catalogue:  # noqa: ARG002 - the types are as they are
        """The types at current prices, the same for every EC2NodeClass."""
        changes = self._exchange.price_changes
        if self._present is None or self._present[0] != changes:
            self._present = (changes, Catalogue(default=self._exchange.present_types()))
        return self._present[1]


USER = "user"
T = TypeVar("T")


class Steps:
    """Carries out steps. A step that cannot be done (a workload that does not exist) is a warning, and the run continues."""

    def __init__(
        self,
        account: Account,
        cluster: Cluster,
        boot: Boot,
        faults: Faults,
        message_faults: MessageFaults,
        meter: CostMeter,
        rng: Random,
        disturbances: Disturbances,
    ) -> None:
        self._account = account
        self._cluster = cluster
        self._boot = boot
        self._faults = faults
        self._message_faults = message_faults
        self._meter = meter
        self._rng = rng
        self._warn = disturbances.warn
        self._disturbances = disturbances

    def perform(self, step: Step) -> None:
        """Carry out the step."""
        try:
            self._to_cluster(step)
            self._to_account(step)
            self._to_functions(step)
            self._disturbances.perform(step)
        except FleetwrightError as error:
            self._warn(f"step at {step.at}: {error}")

    def apply(self, objects: Iterable[dict[str, Any]]) -> None:
        """Apply objects; one that the API server refuses is a warning."""
        for obj in objects:
            try:
                self._cluster.apply([obj], by=USER)
            except FleetwrightError as error:
                self._warn(f"{obj['kind']} {obj['metadata']['name']} was not applied: {error}")

    def remove(self, manifest: dict[str, Any]) -> None:
        """Delete a pod of a trace, unless it is gone already."""
        metadata = manifest["metadata"]
        with suppress(NotFoundError):
            self._cluster.delete(manifest["kind"], metadata["namespace"], metadata["name"], by=USER)

    def reserve(self, wanted: CapacityReservation) -> None:
        """Create, change or cancel a capacity reservation."""
        if wanted.cancel:
            if self._account.reservations.find(wanted.id) is None:
                self._warn(f"there is no capacity reservation {wanted.id} to cancel")
            else:
                self._account.reservations.cancel(wanted.id)
            return
        now = self._account.clock.now()
        self._account.reservations.make(
            Reservation(
                id=wanted.id,
                instance_type=wanted.instance_type,
                zone=wanted.zone,
                total=wanted.total,
                others=wanted.others,
                owner=wanted.owner_id or ACCOUNT_ID,
                kind=wanted.type,
                criteria=wanted.instance_match_criteria,
                interruptible=wanted.interruptible,
                tags=wanted.tags,
                starts_at=None if wanted.starts is None else now + wanted.starts,
                ends_at=None if wanted.ends is None else now + wanted.ends,
            )
        )

    def _to_cluster(self, step: Step) -> None:
        if step.apply is not None:
            self.apply(step.apply)
        if step.scale is not None:
            scale = step.scale
            self._cluster.scale(scale.kind, scale.namespace, scale.name, scale.replicas, by=USER)
        for reference in step.delete or ():
            of = reference.api_version
            self._cluster.delete(reference.kind, reference.namespace, reference.name, by=USER, api_version=of)
        if step.delete_nodes is not None:
            for node in self._some(self._cluster.nodes(), step.delete_nodes.fraction):
                self._cluster.delete("Node", "", name_of(node), by=USER)
        if step.delete_node_claims is not None:
            for claim in self._some(self._cluster.objects("NodeClaim"), step.delete_node_claims.fraction):
                self._cluster.delete("NodeClaim", "", name_of(claim), by=USER)

    def _to_account(self, step: Step) -> None:
        if step.capacity is not None:
            self._account.exchange.state_capacity(_selection(step.capacity), step.capacity.available)
        if step.price is not None:
            self._meter.settle()
            self._account.exchange.scale_prices(_selection(step.price), Fraction(str(step.price.factor)))
        if step.ami is not None:
            self._account.images.publish(step.ami.alias, step.ami.id)
        if step.subnet is not None:
            self._set_free(step.subnet)
        if step.capacity_reservation is not None:
            self.reserve(step.capacity_reservation)
        if step.interrupt is not None:
            self._interrupt(step.interrupt)
        if step.boot is not None:
            self._boot_problem(step.boot)

    def _boot_problem(self, boot: BootStep) -> None:
        concerned = Concerned(
            instance_type=boot.instance_type,
            zone=boot.zone,
            capacity_type=boot.capacity_type,
            node_pool=boot.node_pool,
        )
        if boot.fail:
            self._boot.disturb(boot.fail, None, concerned)
        if boot.not_ready:
            self._boot.spoil(boot.not_ready, concerned)
        if boot.end_reason:
            self._boot.fail(boot.count, boot.end_reason, concerned)
        if boot.seconds is not None:
            self._boot.disturb(boot.count, timedelta(seconds=boot.seconds), concerned)

    def _set_free(self, subnet: Subnet) -> None:
        if not self._account.network.set_free(subnet.zone, subnet.number, subnet.free_addresses):
            self._warn(f"subnet: no instance type is offered in zone {subnet.zone}")

    def _to_functions(self, step: Step) -> None:
        if step.fault is not None:
            self._arm(step.fault)
        if step.brake is not None:
            self._brake(step.brake)
        if step.events is not None:
            events = step.events
            self._message_faults.arm(events.kind, events.count, timedelta(seconds=events.seconds))
        if step.table is not None and step.table.lose is not None:
            self._account.table.lose(None if step.table.lose == ALL else int(step.table.lose))
        if step.table is not None and step.table.restore is not None:
            self._account.table.restore(self._account.clock.now() - step.table.restore)

    def _brake(self, brake: Brake) -> None:
        brakes = self._account.brakes
        brakes.mode = brakes.mode if brake.mode is None else brake.mode
        brakes.alarm = brakes.alarm if brake.alarm is None else brake.alarm
        brakes.shifted_zones = brakes.shifted_zones if brake.shifted_zones is None else tuple(brake.shifted_zones)

    def _arm(self, step: Fault) -> None:
        fault = faults.Fault(
            kind=step.kind,
            delay=timedelta(seconds=step.seconds),
            code=step.code,
            form=step.form,
            instance_type=step.instance_type,
            zone=step.zone,
            capacity_type=step.capacity_type,
        )
        share = step.share
        count = 1 if step.count is None and step.lasting is None and share is None else step.count
        self._faults.arm(
            step.call,
            fault,
            count=count,
            lasting=step.lasting,
            function=step.function,
            nth=step.nth,
            chance=None if share is None else lambda: self._rng.random() < share,
        )

    def _interrupt(self, interrupt: Interrupt) -> None:
        instances = [instance for instance in self._account.instances.all() if _matches(instance, interrupt)]
        if not instances:
            kind = "" if interrupt.kind == STATUS_CHECK else "spot "
            self._warn(f"interrupt: no running {kind}instance matches {interrupt.node or interrupt.zone or 'any zone'}")
        for instance in self._some(instances, interrupt.fraction):
            self._account.instances.interrupt(instance, interrupt.kind)

    def _some(self, items: Sequence[T], fraction: float) -> list[T]:
        """Return this share of the items, rounded up."""
        return self._rng.sample(items, min(len(items), math.ceil(Fraction(str(fraction)) * len(items))))


def _matches(instance: Instance, interrupt: Interrupt) -> bool:
    return (
        instance.is_alive
        and (is_spot(instance) or interrupt.kind == STATUS_CHECK)
        and interrupt.zone in (None, instance.pool.zone)
        and interrupt.node in (None, instance.node_name)
    )


def _selection(meant: Any) -> Selection:
    return Selection(meant.instance_type, meant.zone, meant.capacity_type)
