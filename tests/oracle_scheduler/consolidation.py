"""The state after each wave of a consolidation, as a plan that kube-scheduler's plugins can judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.oracle_scheduler.asking import Json


def states(objects: Sequence[Json], decided: Json, planned: Json) -> Iterator[tuple[list[Json], Json]]:
    """Return for each wave the objects without the nodes that are gone by its end, and a plan of all moves up to then.

    Pods that wait have their places by then: those of `planned`. A pod that moves may need them near.

    The order within a wave is left out. While a node drains, kube-scheduler still counts it as a domain of spreads, so that a
    pod may wait until it is gone.
    """
    commands = decided.get("commands") or []
    for wave in sorted({command.get("wave", 1) for command in commands}):
        carried_out = [command for command in commands if command.get("wave", 1) <= wave]
        gone = {node for command in carried_out for node in command["nodes"]}
        kept = [one for one in objects if not _is_gone(one, gone)]
        yield kept, _plan(carried_out, planned, {_name(one) for one in kept if one["kind"] in ("Node", "NodeClaim")})


def _plan(commands: Sequence[Json], planned: Json, left: set[str]) -> Json:
    """Return the plan that moves each pod to its last place, on a new node or one that is there."""
    places = {move["pod"]: move["to"] for command in commands for move in command["moves"]}
    new = {node["name"]: node for command in commands for node in command["replacements"]}
    claims = [{**node, "pods": sorted(p for p, to in places.items() if to == name)} for name, node in new.items()]
    claims += [{**node, "name": f"waiting-{node['name']}"} for node in planned.get("nodeClaims") or ()]
    bindings = [{"pod": pod, "node": to} for pod, to in sorted(places.items()) if to not in new]
    bindings += [one for one in planned.get("bindings") or () if one["node"] in left and one["pod"] not in places]
    return {"kind": "Plan", "nodeClaims": claims, "bindings": bindings, "unschedulable": []}


def _is_gone(one: Json, nodes: set[str]) -> bool:
    if one["kind"] == "Node":
        return _name(one) in nodes
    return one["kind"] == "NodeClaim" and ((one.get("status") or {}).get("nodeName") in nodes or _name(one) in nodes)


def _name(one: Json) -> str:
    return str(one["metadata"]["name"])
