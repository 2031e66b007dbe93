"""What a plan builds is told apart by identity: two groups of pods with equal fields are two, and comparing takes long."""

from __future__ import annotations

from core import scheduling
from tests.classes import classes_of, is_compared_by_fields

CLASSES = (
    "capacity.claim_profile:ClaimProfile",
    "capacity.daemon_overhead:DaemonPod",
    "capacity.existing_node:ExistingNode",
    "capacity.existing_node:NodeRoom",
    "capacity.in_flight_claim:InFlightClaim",
    "capacity.nodeclaim_template:NodeClaimTemplate",
    "fleet.fleet_rows:DrainableNode",
    "greedy.plan_state:PlanState",
    "greedy.scheduler:GreedyScheduler",
    "greedy.solution:Solution",
    "optimization.claims.item_assignment:AssignedMachine",
    "optimization.drained_fleet:DrainedFleet",
    "optimization.items.item_extraction:RepackScope",
    "optimization.repacker:_Replaceable",
    "optimization.repacker:_Task",
    "optimization.subproblems.packing_columns:_MachineTypes",
    "optimization.subproblems.zone_loads:ZoneLoads",
    "pods.pod_group:PendingGroup",
    "pods.pod_group:PodGroup",
    "pods.pod_group:PodSignature",
    "pods.pod_group:RelaxationStep",
    "pods.pod_group:TopologyRule",
    "pods.pod_signatures:SizedSignature",
    "replanning.variation_search:VariationSearch",
    "topology.departures:Departures",
    "topology.domain_choice:_PreferenceGroups",
)
"""All classes of the planner with fields that are not compared: no other one is added unnoticed."""


def test_an_object_of_a_plan_equals_itself_alone() -> None:
    """Otherwise, groups with equal fields would be one in a set, and a memo by object would compare their masks."""
    found = [name for name, class_ in classes_of(scheduling) if not is_compared_by_fields(class_)]
    assert sorted(found) == sorted(CLASSES)
