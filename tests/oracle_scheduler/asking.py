"""Asks the program around kube-scheduler's plugins about one plan, and sets aside what it cannot know."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

Json = dict[str, Any]

ORDERS_MAX: Final = 200
"""How many orders of a plan's nodes are tried before a refusal by rules between pods counts."""

LAUNCHES_MAX: Final = 8
"""How many ways to launch a plan's nodes are tried before a pod left over counts as one that has a place."""

_BETWEEN_PODS: Final = frozenset({"PodTopologySpread", "InterPodAffinity"})

_COULD_LAUNCH: Final = re.compile(r"an empty node of NodePool (\S+), (\S+) in (\S+), (\S+) would do")


class Question:
    """One plan, and the cluster for which it was made."""

    def __init__(
        self, program: Path, objects: Sequence[Json], catalogue: Path, folder: Path, emulated: str = ""
    ) -> None:
        """Write the cluster.

        Args:
            program: The built program.
            objects: The cluster's objects.
            catalogue: The file with its instance types.
            folder: Where files may be written.
            emulated: Kubernetes' minor version whose feature gates are set; empty for the program's own.
        """
        self.objects, self._written = objects, objects
        self._manifests, self._plan = folder / "judged.yaml", folder / "judged.plan.json"
        self._manifests.write_text(documents(objects), encoding="utf-8")
        self._types: list[Json] = json.loads(catalogue.read_text(encoding="utf-8"))["instanceTypes"]
        command = [str(program), "judge", "--input", str(self._manifests), "--catalog", str(catalogue)]
        self._command = [*command, "--plan", str(self._plan), "-o", "json"]
        self._command += ["--emulate", emulated] if emulated else []

    def answer(self, plan: Json) -> Json:
        """Return the scheduler's word on the plan; refusals that another order of the pods avoids are under `orderEffects`."""
        answer = self._ask(plan)
        if answer.get("violations") and self._evict_unplaced(plan):
            answer["violations"] = self._ask(plan)["violations"]
        if _by_affinity(answer) and self._let_daemons_join():
            answer["violations"] = self._ask(plan)["violations"]
        refused = [one for one in answer.get("violations") or () if not self._has_lost_its_host(one)]
        answer["violations"], answer["orderEffects"] = refused, []
        if refused and all(one.get("plugin") in _BETWEEN_PODS for one in refused):
            ordered = self._in_some_order(plan)
            if not ordered["violations"]:
                pods = {one["pod"]: {"pod": one["pod"], "plugin": one["plugin"]} for one in refused}
                answer = {**ordered, "orderEffects": list(pods.values())}
        unplaced = self._with_a_place(answer, plan)
        if unplaced and self._let_daemons_run():
            still = {pod["pod"] for pod in self._with_a_place(self._ask(plan), plan)}
            unplaced = [pod for pod in unplaced if pod["pod"] in still]
        unsure = self._left_by_some_launches(plan) if unplaced else frozenset()
        answer["wronglyUnschedulable"] = [pod for pod in unplaced if pod["pod"] not in unsure]
        return answer

    def _with_a_place(self, answer: Json, plan: Json) -> list[Json]:
        """Return the pods left over that a node would take which is there or can be launched."""
        unplaced = answer.get("wronglyUnschedulable") or ()
        return [pod for pod in unplaced if not (self._is_no_node(pod) or self._is_no_place(pod, plan))]

    def _has_lost_its_host(self, refused: Json) -> bool:
        """Whether a refused pod's local volume is on a node that is gone.

        The scheduler lets it wait. The planner finds it another node, as Karpenter does
        (docs/reference/how-we-read-kubernetes.md).
        """
        if refused.get("plugin") != "VolumeBinding":
            return False
        claims = {
            _key(one): one["spec"].get("volumeName") for one in self.objects if one["kind"] == "PersistentVolumeClaim"
        }
        namespace = refused["pod"].partition("/")[0]
        uses = (use.get("persistentVolumeClaim", {}).get("claimName") for use in self._uses_of(refused["pod"]))
        bound = {claims.get(f"{namespace}/{name}") for name in uses}
        hosts = {one["metadata"]["name"] for one in self.objects if one["kind"] == "Node"}
        return any(
            one["kind"] == "PersistentVolume"
            and one["metadata"]["name"] in bound
            and _is_without_host(one["spec"], hosts)
            for one in self.objects
        )

    def _evict_unplaced(self, plan: Json) -> bool:
        """Write the cluster without pods that have no place on nodes that are being deleted, and return whether there are any.

        They are evicted all the same, and their rules end with them. The program leaves them where they are.
        """
        deleted = {
            one["metadata"]["name"] if one["kind"] == "Node" else one.get("status", {}).get("nodeName")
            for one in self.objects
            if one["kind"] in ("Node", "NodeClaim") and "deletionTimestamp" in one["metadata"]
        }
        unplaced = {one["pod"] for one in plan.get("unschedulable") or ()}
        kept = [
            one
            for one in self.objects
            if one["kind"] != "Pod" or one["spec"].get("nodeName") not in deleted or _key(one) not in unplaced
        ]
        self._write(kept)
        return len(kept) < len(self.objects)

    def _let_daemons_join(self) -> bool:
        """Write the cluster without what keeps DaemonSets' pods out of zones, and return whether there is any such rule.

        Such a pod on a new node and one on another new node of its zone: whichever comes second waits
        (docs/reference/how-we-read-kubernetes.md). The program lets the DaemonSet's come first.
        """
        joining = [_within_node(one) if one["kind"] == "DaemonSet" else one for one in self._written]
        changed = joining != self._written
        self._write(joining)
        return changed

    def _let_daemons_run(self) -> bool:
        """Write the cluster with DaemonSets in all zones and on all capacity types, and return whether there were others.

        The planner keeps a node of a type free for each DaemonSet that may run on any of its offerings, as Karpenter does
        (docs/reference/how-we-read-kubernetes.md).
        """
        running = [_anywhere(one) if one["kind"] == "DaemonSet" else one for one in self._written]
        changed = running != self._written
        self._write(running)
        return changed

    def _write(self, objects: Sequence[Json]) -> None:
        self._written = objects
        self._manifests.write_text(documents(objects), encoding="utf-8")

    def _ask(self, plan: Json, *further: str) -> Json:
        self._plan.write_text(json.dumps(plan), encoding="utf-8")
        done = subprocess.run([*self._command, *further], capture_output=True, text=True, check=False)  # noqa: S603 - our own program
        if done.returncode not in (0, 1):
            return {"violations": [{"message": f"not judged: {done.stderr.strip()[-300:]}"}]}
        answer: Json = json.loads(done.stdout)
        return answer

    def _in_some_order(self, plan: Json) -> Json:
        """Return the answer to an order of the plan's nodes and pods in which every pod has its turn, or to the best one.

        The program tries a dozen orders, and takes pods with rules first. It may need more of them to come upon the right one,
        and a pod whose spread must wait for others without rules is refused in all. Each further try moves one node or one pod,
        mostly one that is refused, and goes on from the best so far. Since refused pods come earlier in each of the program's
        orders, it also begins anew from orders that are drawn.
        """
        best = self._ask(plan, "--rounds", "1", "--attempts", str(ORDERS_MAX))
        draw = Random("orders")  # noqa: S311 - a test's dice
        for number in range(ORDERS_MAX):
            refused = best["violations"]
            if not refused:
                break
            is_drawn = number % 2 == 1
            tried = _in_any_order(plan, draw) if is_drawn else _in_another_order(plan, refused, draw)
            now = self._ask(tried, "--rounds", "1", "--attempts", "20" if is_drawn else "2")
            if len(now["violations"]) <= len(refused):
                plan, best = tried, now
        return best

    def _left_by_some_launches(self, plan: Json) -> frozenset[str]:
        """Return the pods left over that have no place if the plan's nodes are launched as some other of their offerings.

        The program asks for the cheapest ones alone. A spread that counts spot nodes only, for example, may have a place beside
        nodes that become spot ones, and none beside on-demand ones: both are tried in all zones, and then mixtures.
        """
        draw = Random("launches")  # noqa: S311 - a test's dice
        nodes, unsure = plan.get("nodeClaims") or (), set[str]()
        kinds = ("on-demand", "spot")
        for choice in range(LAUNCHES_MAX):
            among = kinds[choice : choice + 1] or kinds
            bought = {zone: draw.choice(among) for node in nodes for zone in node["zones"]}
            launched = [self._launched(node, bought, draw) for node in nodes]
            answer = self._ask({**plan, "nodeClaims": launched}, "--rounds", "1")
            placed = {one["pod"] for one in answer.get("wronglyUnschedulable") or ()}
            if not answer["violations"]:
                unsure |= {one["pod"] for one in plan["unschedulable"]} - placed
        return frozenset(unsure)

    def _launched(self, node: Json, bought: Mapping[str, str], draw: Random) -> Json:
        """Return a planned node with one of its offerings alone, if possible of the capacity type bought in its zone."""
        offerings = [
            (kind["name"], one["zone"], one["capacityType"])
            for kind in self._types
            for one in kind["offerings"]
            if kind["name"] in node["instanceTypes"] and one.get("available", True)
            if one["zone"] in node["zones"] and one["capacityType"] in node["capacityTypes"]
        ]
        if not offerings:
            return node
        kind, zone, capacity_type = draw.choice([one for one in offerings if bought[one[1]] == one[2]] or offerings)
        return {**node, "instanceTypes": [kind], "zones": [zone], "capacityTypes": [capacity_type]}

    def _is_no_place(self, left: Json, plan: Json) -> bool:
        """Whether a new node that would take a pod left over cannot, whatever it is launched as.

        The program asks for its cheapest offering alone, and new nodes have no CSINodes, so that they attach any number of
        volumes.
        """
        nodes = plan.get("nodeClaims") or ()
        if left.get("node") not in {node["name"] for node in nodes}:
            return False
        if left["message"].endswith(("plan says AttachLimit", "plan says MinValuesNotMet")):
            return True  # rules that choose a zone would leave the claim too few; the node that is launched has one
        if self._attaches_too_many(left, plan):
            return True
        joined = [{**n, "pods": [*n["pods"], left["pod"]]} if n["name"] == left["node"] else n for n in nodes]
        others = [one for one in plan["unschedulable"] if one["pod"] != left["pod"]]
        return bool(self._ask({**plan, "nodeClaims": joined, "unschedulable": others}, "--all")["violations"])

    def _attaches_too_many(self, left: Json, plan: Json) -> bool:
        """Whether a new node's types may attach fewer volumes than its pods have with one more."""
        (node,) = (node for node in plan["nodeClaims"] if node["name"] == left["node"])
        limits = [one.get("attachLimit") for one in self._types if one["name"] in node["instanceTypes"]]
        least = min((limit for limit in limits if limit is not None), default=None)
        return least is not None and sum(map(self._volumes_of, (*node["pods"], left["pod"]))) > least

    def _volumes_of(self, key: str) -> int:
        return len(self._uses_of(key))

    def _uses_of(self, key: str) -> Sequence[Json]:
        pod = next((one for one in self.objects if one["kind"] == "Pod" and _key(one) == key), {"spec": {}})
        uses: Sequence[Json] = pod["spec"].get("volumes") or ()
        return uses

    def _is_no_node(self, left: Json) -> bool:
        """Whether a node that would take a pod left over cannot be launched: its type has not the labels of the NodePool.

        The program gives a node no label where a NodePool excludes all values of its type, and any where the type has none. It
        lets a new node attach any number of volumes.
        """
        match = _COULD_LAUNCH.match(left.get("message", ""))
        if match is None:
            return False
        if left["message"].endswith("plan says LimitReached"):
            return True  # limits are no rule of the scheduler: here, claims without nodes and nodes that go count, too
        name, kind, zone, capacity_type = match.groups()
        pool = next(one for one in self.objects if one["kind"] == "NodePool" and one["metadata"]["name"] == name)
        limit = next(one for one in self._types if one["name"] == kind).get("attachLimit")
        if limit is not None and self._volumes_of(left["pod"]) > limit:
            return True
        own = dict(next(one for one in self._types if one["name"] == kind)["requirements"])
        own |= {"topology.kubernetes.io/zone": [zone], "karpenter.sh/capacity-type": [capacity_type]}
        known = {key for one in self._types for key in one["requirements"]} | own.keys()
        demands = pool["spec"]["template"]["spec"].get("requirements") or ()
        return any(one["key"] in known and not _meets(own.get(one["key"]), one) for one in demands)


def _in_another_order(plan: Json, refused: Sequence[Json], draw: Random) -> Json:
    """Return a plan with one of its new nodes in another place, or with a refused pod before the others of its node."""
    nodes, pods = list(plan.get("nodeClaims") or ()), {one["pod"] for one in refused}
    bad = [node for node in nodes if node["name"] in {one.get("node") for one in refused}]
    if draw.random() < 0.5:
        first = draw.choice(sorted(pods))
        bindings = sorted(plan.get("bindings") or (), key=lambda one: one["pod"] != first)
        nodes = [{**node, "pods": sorted(node["pods"], key=lambda pod: pod != first)} for node in nodes]
        return {**plan, "nodeClaims": nodes, "bindings": bindings}
    if len(nodes) < 2:
        return plan
    moved = draw.choice((bad if draw.random() < 0.5 else None) or nodes)
    nodes = [node for node in nodes if node is not moved]
    nodes.insert(draw.randrange(len(nodes) + 1), moved)
    return {**plan, "nodeClaims": nodes}


def _in_any_order(plan: Json, draw: Random) -> Json:
    """Return a plan with its nodes and their pods in an order that is drawn."""
    nodes, bindings = list(plan.get("nodeClaims") or ()), list(plan.get("bindings") or ())
    nodes = [{**node, "pods": draw.sample(node["pods"], len(node["pods"]))} for node in draw.sample(nodes, len(nodes))]
    return {**plan, "nodeClaims": nodes, "bindings": draw.sample(bindings, len(bindings))}


def _by_affinity(answer: Json) -> bool:
    return any(one.get("plugin") == "InterPodAffinity" for one in answer.get("violations") or ())


def _within_node(daemon_set: Json) -> Json:
    """Return a DaemonSet whose anti-affinity holds on its pods' own nodes alone."""
    changed = copy.deepcopy(daemon_set)
    apart = (changed["spec"]["template"]["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    terms = apart.get("requiredDuringSchedulingIgnoredDuringExecution") or []
    terms[:] = [{**term, "topologyKey": "kubernetes.io/hostname"} for term in terms]
    return changed


def _anywhere(daemon_set: Json) -> Json:
    """Return a DaemonSet without what it demands of offerings: zone and capacity type."""
    changed = copy.deepcopy(daemon_set)
    spec = changed["spec"]["template"]["spec"]
    keys = ("topology.kubernetes.io/zone", "karpenter.sh/capacity-type")
    for key in keys:
        spec.get("nodeSelector", {}).pop(key, None)
    by_node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (by_node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    for term in terms:
        term["matchExpressions"] = [one for one in term.get("matchExpressions") or () if one["key"] not in keys]
    if not all(term["matchExpressions"] or term.get("matchFields") for term in terms):
        del spec["affinity"]["nodeAffinity"]  # one term that excludes no node
    return changed


def _is_without_host(volume: Json, hosts: Collection[str]) -> bool:
    if "local" not in volume:
        return False
    terms = volume.get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms") or ()
    named = [
        set(one["values"])
        for term in terms
        for one in term.get("matchExpressions") or ()
        if one["key"] == "kubernetes.io/hostname"
    ]
    return bool(named) and not set().union(*named) & set(hosts)


def _meets(values: Sequence[str] | None, demand: Json) -> bool:
    """Whether a type with these values of a label may become a node that meets a requirement; None is a type without it."""
    asked: Sequence[str] = demand.get("values") or [""]
    kept: Mapping[str, Callable[[str], bool]] = {
        "In": lambda value: value in asked,
        "NotIn": lambda value: value not in asked,
        "Exists": lambda _: True,
        "DoesNotExist": lambda _: False,
        "Gt": lambda value: value.isdigit() and int(value) > int(asked[0]),
        "Gte": lambda value: value.isdigit() and int(value) >= int(asked[0]),
        "Lt": lambda value: value.isdigit() and int(value) < int(asked[0]),
        "Lte": lambda value: value.isdigit() and int(value) <= int(asked[0]),
    }
    if not values:
        return demand["operator"] in ("NotIn", "DoesNotExist")
    return any(map(kept[demand["operator"]], values))


def _key(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def documents(objects: Sequence[Json]) -> str:
    """Return the objects as one file of manifests."""
    return "\n---\n".join(json.dumps(one, default=str) for one in objects)
