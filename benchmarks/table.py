"""The results as one table for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

_HEADINGS: Final = (
    "case", "pods", "types", "pages s", "files s", "cold s", "greedy s", "solve s", "pods/s", "peak MB", "nodes", "greedy $/h",
    "budget s", "plan s", "nodes", "plan $/h", "bound $/h", "gap", "flexible",
    "Karpenter s", "faster", "by cpu", "nodes", "$/h", "saved", "checked",
)  # fmt: skip
_NOTES: Final = """\
pages: from API pages to the snapshot. files: the same as manifests, by the command line.
cold: the first plan of a process. greedy: median of the warm plans, preparing the snapshot included; solve: without.
plan: one run that may improve for `budget s`, loading the solver included. gap: cost over the proven lower bound.
flexible: claims of c, m and r types that keep 15 types or more within 1.6 times their cheapest.
faster: Karpenter's time in its scheduler, its preparing left out, over our greedy with ours.
by cpu: the same in processor seconds, which a busy machine distorts less; Karpenter uses several processors at a time.
saved: what our plan costs less than Karpenter's.
checked: both plans, by the naive judge."""
_NONE: Final = "-"
_ROUNDING: Final = 1e-9


def table(results: Sequence[dict[str, Any]], why_no_peer: str) -> str:
    """Right-aligned columns, a row for each case and time budget, and what the columns mean."""
    rows = [_HEADINGS, *(row for result in results for row in _rows(result))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = [
        "  ".join(_cell(text, width, column) for column, (text, width) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    notes = [_NOTES, *([f"Karpenter: {why_no_peer}"] if why_no_peer else [])]
    notes += [f"{result['name']}: {note}" for result in results for note in _remarks(result)]
    return "\n".join([*(line.rstrip() for line in lines), "", *notes])


def below_bound(result: dict[str, Any]) -> bool:
    """Whether any plan that places every pod costs less than a lower bound says is possible: then a proof is wrong."""
    plans = [result[key] for key in ("greedy", "peer") if key in result] + result.get("improved", [])
    whole = [plan["cost"] for plan in plans if not plan["unschedulable"]]
    bounds = [plan["lowerBound"] for plan in plans if plan.get("lowerBound") is not None]
    return bool(whole and bounds) and min(whole) < max(bounds) * (1 - _ROUNDING)


def gives_up_more(result: dict[str, Any]) -> bool:
    """Whether compared plans place different pods: improved ones another number than greedy, or we fewer than Karpenter.

    What a plan saves by leaving pods without a place is nothing saved.
    """
    greedy = result["greedy"]["unschedulable"] if "greedy" in result else 0
    improved = [plan["unschedulable"] for plan in result.get("improved", [])]
    peer = result.get("peer", {}).get("unschedulable", greedy)
    return any(number != greedy for number in improved) or greedy > peer


def _cell(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column == 0 else text.rjust(width)


def _rows(result: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    if "greedy" not in result:
        yield (result["name"], *("skipped" if "skipped" in result else "failed", *[""] * (len(_HEADINGS) - 2)))
        return
    greedy = result["greedy"]
    first = [
        result["name"],
        f"{result['pods']}",
        f"{result['types']}",
        _seconds(result["decodeSeconds"]),
        _seconds(result["manifestsSeconds"]) if "manifestsSeconds" in result else _NONE,
        _seconds(result["coldSeconds"]),
        _seconds(result["greedySeconds"]),
        _seconds(result["solveSeconds"]),
        f"{result['pods'] / result['greedySeconds']:,.0f}",
        f"{result['peakBytes'] / 1e6:.0f}",
        f"{greedy['claims']}",
        f"{greedy['cost']:.2f}",
    ]
    for number, plan in enumerate(result["improved"] or [greedy]):
        own = first if number == 0 else [result["name"], *[""] * (len(first) - 1)]
        yield (*own, *_plan_cells(plan), *_peer_cells(result, plan, is_first=number == 0), _verdict(result, plan))


def _plan_cells(plan: dict[str, Any]) -> list[str]:
    bound, cost = plan["lowerBound"], plan["cost"]
    flexible = plan["flexibility"]
    return [
        f"{plan['budgetSeconds']:g}" if "budgetSeconds" in plan else _NONE,
        _seconds(plan["seconds"]) if "seconds" in plan else _NONE,
        f"{plan['claims']}",
        f"{cost:.2f}",
        _NONE if bound is None else f"{bound:.2f}",
        f"{cost / bound - 1:.1%}" if bound else _NONE,
        _NONE if flexible is None else f"{flexible['share']:.0%}",
    ]


def _peer_cells(result: dict[str, Any], plan: dict[str, Any], *, is_first: bool) -> list[str]:
    peer = result.get("peer")
    if peer is None:
        return [_NONE] * 6
    saved = 1 - plan["cost"] / peer["cost"] if peer["cost"] else 0.0
    if not is_first:
        return ["", "", "", "", "", f"{saved:.1%}"]
    faster = peer["seconds"] / result["greedySeconds"]
    by_cpu = peer["cpuSeconds"] / result["greedyCpuSeconds"]
    times = [_seconds(peer["seconds"]), f"{faster:.1f}x", f"{by_cpu:.1f}x"]
    return [*times, f"{peer['claims']}", f"{peer['cost']:.2f}", f"{saved:.1%}"]


def _verdict(result: dict[str, Any], plan: dict[str, Any]) -> str:
    judged = [found["judged"]["count"] for found in (result["greedy"], plan) if "judged" in found]
    if not judged:
        return "no"
    return f"{max(judged)} wrong" if any(judged) else "ok"


def _remarks(result: dict[str, Any]) -> Iterable[str]:
    for key in ("skipped", "failed", "peerFailed"):
        if key in result:
            yield result[key]
    if "greedy" not in result:
        return
    for plan in (result["greedy"], *result["improved"]):
        yield from plan.get("judged", {}).get("violations", ())
    if below_bound(result):
        yield "a plan costs less than the lower bound: the proof is wrong"
    if gives_up_more(result):
        numbers = [plan["unschedulable"] for plan in (result["greedy"], *result["improved"])]
        yield f"the plans place different pods: {numbers} are left without a place"
    peer = result.get("peer")
    if peer is not None:
        runs = f"Karpenter planned {len(peer['runs'])} times" if len(peer["runs"]) > 1 else "Karpenter planned once"
        yield f"{runs}, load {peer['load']:.1f}"
        if peer["unschedulable"] != result["greedy"]["unschedulable"]:
            yield f"Karpenter left {peer['unschedulable']} pods without a place, we {result['greedy']['unschedulable']}"


def _seconds(amount: float) -> str:
    return f"{amount:.4f}" if amount < 0.1 else f"{amount:.2f}"
