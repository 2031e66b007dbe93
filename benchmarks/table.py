"""Formats the results as a table: a row for each plan, with its speed and its cost beside Karpenter's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

HEADINGS: Final = (
    "case", "pods", "types", "plan", "seconds", "runs", "pods/s", "nodes", "$/h", "bound", "gap", "flexible",
    "Karpenter s", "nodes", "$/h", "faster", "by cpu", "saved", "checked",
)  # fmt: skip
READING: Final = ("case", "pages s", "files s", "cold s", "prepare s", "solve s", "peak MB")
NOTES: Final = """\
plan: greedy, or improved under a time budget; every figure of a row is that plan's. seconds: median of the warm runs, preparing
the snapshot included; runs: the fastest and the slowest. gap: cost over the best bound that any plan of the case proves.
flexible: claims of c, m and r types that keep 15 types or more within 1.6 times their cheapest.
faster: Karpenter's time in its scheduler, without its preparation, over this plan's with ours.
by cpu: the same in processor seconds, which a busy machine distorts less; Karpenter uses several processors at a time.
saved: how much less this plan costs than Karpenter's. checked: this plan, by the naive judge.
pages, files: reading API pages, or manifests, into a snapshot. cold: the first greedy plan of a process.
prepare, solve: the two parts of a warm greedy plan."""
NONE: Final = "-"
GREEDY: Final = "greedy"
_ROUNDING: Final = 1e-9


def table(results: Sequence[dict[str, Any]], why_no_peer: str) -> str:
    """Format right-aligned columns for a terminal, and their meaning."""
    notes = [NOTES, *([f"Karpenter: {why_no_peer}"] if why_no_peer else [])]
    notes += [f"{result['name']}: {note}" for result in results for note in remarks(result)]
    parts = (_aligned([HEADINGS, *plan_rows(results)]), _aligned([READING, *reading_rows(results)]), notes)
    return "\n\n".join("\n".join(part) for part in parts)


def plan_rows(results: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A row for each plan of each case, in the order of `HEADINGS`."""
    return [row for result in results for row in _rows(result)]


def reading_rows(results: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A row for each case that was measured, in the order of `READING`."""
    return [
        (
            result["name"],
            _seconds(result["decodeSeconds"]),
            _seconds(result["manifestsSeconds"]) if "manifestsSeconds" in result else NONE,
            _seconds(result["coldSeconds"]),
            _seconds(result["greedy"]["prepareSeconds"]),
            _seconds(result["greedy"]["solveSeconds"]),
            f"{result['peakBytes'] / 1e6:.0f}",
        )
        for result in results
        if "greedy" in result
    ]


def below_bound(result: dict[str, Any]) -> bool:
    """Whether a complete plan costs less than a lower bound, which refutes the bound."""
    plans = [result[key] for key in ("greedy", "peer") if key in result] + result.get("improved", [])
    complete = [plan["cost"] for plan in plans if not plan["unschedulable"]]
    bounds = [plan["lowerBound"] for plan in plans if plan.get("lowerBound") is not None]
    return bool(complete and bounds) and min(complete) < max(bounds) * (1 - _ROUNDING)


def gives_up_more(result: dict[str, Any]) -> bool:
    """Whether an improved plan places other pods than the greedy plan, or our plan fewer pods than Karpenter's.

    The costs of such plans cannot be compared.
    """
    greedy = result["greedy"]["unschedulable"] if "greedy" in result else 0
    improved = [plan["unschedulable"] for plan in result.get("improved", [])]
    peer = result.get("peer", {}).get("unschedulable", greedy)
    return any(number != greedy for number in improved) or greedy > peer


def remarks(result: dict[str, Any]) -> Iterable[str]:
    """Notes on one case: why it failed or was skipped, broken rules, different pods, and how Karpenter was run."""
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


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            _cell(text, width, column) for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _cell(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column == 0 else text.rjust(width)


def _rows(result: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    if "greedy" not in result:
        yield (result["name"], *("skipped" if "skipped" in result else "failed", *[""] * (len(HEADINGS) - 2)))
        return
    plans = (result["greedy"], *result["improved"])
    bound = max((plan["lowerBound"] for plan in plans if plan["lowerBound"] is not None), default=None)
    for plan in plans:
        yield (
            result["name"],
            f"{result['pods']}",
            f"{result['types']}",
            *_plan_cells(plan, result["pods"], bound),
            *_peer_cells(result.get("peer"), plan),
            _verdict(plan),
        )


def _plan_cells(plan: dict[str, Any], pods: int, bound: float | None) -> list[str]:
    cost, flexible = plan["cost"], plan["flexibility"]
    return [
        f"{plan['budgetSeconds']:g} s" if "budgetSeconds" in plan else GREEDY,
        _seconds(plan["seconds"]),
        _spread(plan["runs"]),
        f"{pods / plan['seconds']:,.0f}",
        f"{plan['claims']}",
        f"{cost:.2f}",
        NONE if bound is None else f"{bound:.2f}",
        f"{cost / bound - 1:.1%}" if bound else NONE,
        NONE if flexible is None else f"{flexible['share']:.0%}",
    ]


def _spread(runs: Sequence[float]) -> str:
    return NONE if len(runs) < 2 else f"{_seconds(min(runs))} to {_seconds(max(runs))}"


def _peer_cells(peer: dict[str, Any] | None, plan: dict[str, Any]) -> list[str]:
    if peer is None:
        return [NONE] * 6
    faster, by_cpu = peer["seconds"] / plan["seconds"], peer["cpuSeconds"] / plan["cpuSeconds"]
    saved = 1 - plan["cost"] / peer["cost"] if peer["cost"] else 0.0
    cells = [_seconds(peer["seconds"]), f"{peer['claims']}", f"{peer['cost']:.2f}"]
    return [*cells, f"{faster:.1f}x", f"{by_cpu:.1f}x", f"{saved:.1%}"]


def _verdict(plan: dict[str, Any]) -> str:
    if "judged" not in plan:
        return "no"
    return f"{plan['judged']['count']} wrong" if plan["judged"]["count"] else "ok"


def _seconds(amount: float) -> str:
    return f"{amount:.4f}" if amount < 0.1 else f"{amount:.2f}"
