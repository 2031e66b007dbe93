"""Behaviour at the edges: closed pipes, Ctrl-C, typos, narrow terminals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main
from cli.answers.plan_table import plan_table
from cli.terminal import output
from cli.terminal.style import Style

ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]


def pods(count: int) -> str:
    return yaml.safe_dump_all(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number}", "namespace": "shop"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "99"}}}]},
        }
        for number in range(count)
    )


@pytest.mark.parametrize("form", ["json", "table"])
def test_a_closed_pipe_is_not_an_error(form: str, tmp_path: Path) -> None:
    """`| head` is common with long output; a traceback would follow each time."""
    (tmp_path / "pods.yaml").write_text(pods(2000))
    command = [sys.executable, "-m", "cli", "plan", "-f", str(tmp_path / "pods.yaml"), "-o", form]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read().decode()
    assert process.returncode in (0, 1)
    assert told == ""


def test_ctrl_c_ends_quietly_with_130(tmp_path: Path) -> None:
    """By the exit code, shells distinguish an interrupted command from a failed one."""
    fifo = tmp_path / "pods.yaml"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "cli", "validate", "-f", str(fifo)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603
    with process, fifo.open("w"):
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert process.returncode == 130
    assert told.decode() == "fleetwright: interrupted\n"


def test_an_empty_input_is_reported_as_empty(tmp_path: Path, capsys: Capture) -> None:
    """Zero new nodes for zero pods looks like an answer; usually the command before the pipe failed."""
    (tmp_path / "empty.yaml").write_text("---\n")
    for command in ("plan", "consolidate", "validate", "convert"):
        assert main([command, "-f", str(tmp_path / "empty.yaml")]) == 2
        assert "has no object" in capsys.readouterr().err, command
        assert main([command, "-f", str(tmp_path / "empty.yaml"), "--allow-empty"]) == 0


def test_a_typo_in_a_name_gets_similar_names(cluster: list[str], capsys: Capture) -> None:
    """Users guess the names of a workload's pods."""
    assert main(["explain", "shop/cart-O", *cluster]) == 2
    assert "hint: near it there is shop/cart-" in capsys.readouterr().err
    assert main(["explain", "zzz", *cluster]) == 2
    assert "<workload>-<n>" in capsys.readouterr().err


def test_a_bad_object_is_reported_with_the_next_step(tmp_path: Path, capsys: Capture) -> None:
    """`plan` stops at the first problem; `validate` lists all of them."""
    file = tmp_path / "my pool.yaml"
    file.write_text("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {template: {spec: {}}}")
    assert main(["plan", "-f", str(file)]) == 2
    told = capsys.readouterr().err
    assert "document 1: NodePool a: spec.template.spec." in told
    assert f"hint: `fleetwright validate -f '{file}'` lists every problem" in told


def test_a_workloads_field_is_named_by_its_path_in_the_workload(tmp_path: Path, capsys: Capture) -> None:
    """Users look for the field in the file that they wrote, not in the pod created from it."""
    workload: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "-1"}}}]}}},
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(workload))
    path = "Deployment shop/cart: spec.template.spec.containers[0].resources.requests.cpu: '-1' is negative"
    assert main(["plan", "-f", str(tmp_path)]) == 2
    assert path in capsys.readouterr().err
    assert main(["validate", "-f", str(tmp_path)]) == 1
    assert f"{tmp_path / 'a.yaml'}:13:13: document 1: {path}\n" in capsys.readouterr().out


def test_validate_checks_pods_too(tmp_path: Path, capsys: Capture) -> None:
    """Otherwise, `validate` accepts a manifest that stops `plan`."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"tolerations": [{"operator": "Like"}]},
    }
    other = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "a"}, "spec": 1}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([pod, other]))
    assert main(["validate", "-f", str(tmp_path)]) == 1
    assert "Pod a: spec.tolerations[0].operator" in capsys.readouterr().out


def test_wide_tables_are_folded() -> None:
    """Without folding, the terminal breaks lines anywhere and columns are lost."""
    rows = [("node-1", "PodDisruptionBudget", "word " * 30), ("node-2", "Budget", "short")]
    lines = output.table(("NODE THAT STAYS", "REASON", "WHY"), rows).splitlines()
    assert max(len(line) for line in lines) <= output.WIDTH_MAX
    assert {line.index("word") for line in lines if "word" in line} == {lines[0].index("WHY")}
    assert lines[-1].split() == ["node-2", "Budget", "short"]


def test_a_table_that_cannot_be_folded_stays_wide() -> None:
    """Names must stay whole so that they can be copied, and folding must end."""
    names = tuple(f"COLUMN-{number}-OF-EIGHT" for number in range(8))
    assert output.table(names, []).split() == list(names)


def test_continuation_lines_are_indented() -> None:
    """Otherwise, the second line of a NodePool's entry looks like an entry of its own."""
    lines = output.wrapped(f"  NodePool a  {'word ' * 40}\nnext").splitlines()
    assert all(line.startswith("      word") for line in lines[1:-1])
    assert lines[-1] == "next"


def test_pods_with_the_same_verdict_share_an_entry() -> None:
    """A thousand unschedulable pods of one Deployment are one problem."""
    lost = [
        {"pod": f"shop/p{n}", "reason": "NoOfferingFits", "message": "NodePool a: full\nNodePool b: full"}
        for n in range(5)
    ]
    cost = {"hourly": 0.0, "lowerBound": None, "gap": None}
    document = {"nodeClaims": [], "bindings": [], "unschedulable": lost, "cost": cost}
    lines = plan_table(document).splitlines()
    assert lines[:4] == [
        "5 pods wait: 5 have no place",
        "",
        "no place for 5 pods (shop/p0, shop/p1, shop/p2 +2) [NoOfferingFits]",
        "  NodePool a: full",
    ]
    assert "NodePool b" not in plan_table(document)
    assert "  NodePool b: full" in plan_table(document, shows_all=True)


def test_nodes_with_equal_columns_share_a_row() -> None:
    """Forty rows that differ in a number hide the one with another price."""
    claim = {"nodePool": "a", "instanceTypes": ["m.s", "m.l"], "capacityTypes": ["spot"], "zones": ["z1"], "price": 0.1}
    claims = [{**claim, "name": f"a-{n}", "pods": [f"p{n}"] * (n + 1)} for n in range(3)]
    cost = {"hourly": 0.3, "lowerBound": 0.2, "gap": 1 / 3}
    text = plan_table({"nodeClaims": claims, "bindings": [], "unschedulable": [], "cost": cost})
    assert text.startswith(
        "6 pods wait: 6 get 3 new nodes\n$0.3000 an hour, $219 a month; 50.0% above the proven minimum of $0.2000 an hour"
    )
    assert [line.split() for line in text.splitlines()[4:]] == [
        ["3", "x", "a", "m.s", "(or", "1", "other)", "z1", "spot", "1", "to", "3", "0.1000"]
    ]


@pytest.mark.parametrize(
    ("when", "environment", "is_terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {}, True, False),
    ],
)
def test_colour_is_for_terminals_only(
    when: str, environment: dict[str, str], is_terminal: bool, expected: bool
) -> None:
    found = Style()
    found.choose(when, environment, is_terminal=is_terminal)
    assert found.is_on is expected
    assert found.styled("x", "red") == ("\x1b[31mx\x1b[0m" if expected else "x")
