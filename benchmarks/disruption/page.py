"""The figures of a run of `make bench-disruption` as Markdown, for the terminal and for the page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks.page import markdown_table

_CLUSTERS: Final = ("cluster", "before $/h", "bound $/h", "of it untouchable")
_WAYS: Final = (
    "cluster", "way", "$/h", "x bound", "program x bound", "x Karpenter's $/h", "moves", "x Karpenter's moves",
    "most moves of a pod", "waves", "first decision s", "next decision s",
)  # fmt: skip


def figures(run: Mapping[str, Any]) -> str:
    """Both tables of a run (`build/bench-disruption.json`)."""
    loads = [cluster["load"] for cluster in run["clusters"]]
    head = (
        f"`{run['command']}` at commit {run['commit'][:12]} on {run['cpus']} processors; the machine's load at the "
        f"start of a cluster was {min(loads):.1f} to {max(loads):.1f}. Karpenter: {run['peer']}."
    )
    clusters = markdown_table(_CLUSTERS, [_cluster(cluster) for cluster in run["clusters"]])
    ways = markdown_table(_WAYS, [row for cluster in run["clusters"] for row in _rows(cluster)])
    return f"{head}\n\n{clusters}\n\n{ways}"


def _cluster(cluster: Mapping[str, Any]) -> list[str]:
    untouchable = next((way["untouchable"] for way in cluster["ways"].values() if "untouchable" in way), None)
    share = "" if untouchable is None else f"{untouchable:.2f} ({untouchable / cluster['bound']:.0%})"
    return [f"`{cluster['cluster']}`", f"{cluster['before']:.2f}", f"{cluster['bound']:.2f}", share]


def _rows(cluster: Mapping[str, Any]) -> Iterator[list[str]]:
    name, bound = f"`{cluster['cluster']}`", cluster["bound"]
    peers = cluster.get("karpenter", {})
    for way, measured in cluster["ways"].items():
        peer = peers.get("strict" if way == "strict" else "open")
        program = f"{measured['program'] / bound:.3f}" if "program" in measured else ""
        yield [
            name,
            way,
            f"{measured['after']:.2f}",
            f"{measured['after'] / bound:.3f}",
            program,
            _ratio(measured, peer, "after"),
            str(measured["moves"]),
            _ratio(measured, peer, "moves"),
            str(measured["mostMovesOfAPod"]),
            str(measured["waves"]),
            *(f"{measured[key]:.1f}" if key in measured else "" for key in ("firstLookSeconds", "nextLookSeconds")),
        ]
    for gate, peer in peers.items():
        if gate == "failed":
            yield [name, f"Karpenter: {peer}", *[""] * (len(_WAYS) - 2)]
            continue
        price, moves = f"{peer['after']:.2f}", str(peer["moves"])
        ratio, most = f"{peer['after'] / bound:.3f}", str(peer["mostMovesOfAPod"])
        end = "" if peer["ended"] else ", stopped"
        label = f"Karpenter, {gate} ({peer['cpuSeconds']:.0f} s{end})"
        yield [name, label, price, ratio, "", "1", moves, "1", most, str(peer["rounds"]), "", ""]


def _ratio(measured: Mapping[str, Any], peer: Mapping[str, Any] | None, key: str) -> str:
    return f"{measured[key] / peer[key]:.3f}" if peer and peer[key] else ""
