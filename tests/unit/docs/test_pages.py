"""Tutorials and guides show what the program prints: each page is run in its own folder."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from cli.__main__ import COMMANDS, main, whole_parser
from core.reasons.code import DecisionKind
from core.scheduling.planner import schedule
from installation import metric_names
from tests.aws_commands import aws_call, aws_commands
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.shown import is_told

ROOT = Path(__file__).parents[3]
SAVED = re.compile(r"`([\w-]+\.yaml)`[^\n`]*:\n\n```yaml\n(.*?)```", re.DOTALL)
PLAYED = re.compile(r"```console\n\$ fleetwright ([^\n]*)\n(.*?)```", re.DOTALL)
PLAYED_PAGES = sorted(page for folder in ("tutorials", "how-to") for page in (ROOT / "docs" / folder).glob("*.md"))


@pytest.mark.ci
@pytest.mark.parametrize("page", PLAYED_PAGES, ids=lambda page: page.stem)
def test_every_output_on_the_page_is_what_the_command_prints(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer whose first output differs from the page does not know which is right."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    for name, content in SAVED.findall(text):
        (tmp_path / name).write_text(content, encoding="utf-8")
    for command, told in PLAYED.findall(text):
        code = main(shlex.split(command))
        printed = capsys.readouterr().out
        assert code in (0, 1), command
        assert is_told(told, printed), f"$ fleetwright {command}\n{printed}"


def test_the_pages_contain_outputs() -> None:
    """Otherwise, a typo in the fences makes the test above check nothing."""
    assert sum(len(PLAYED.findall(page.read_text(encoding="utf-8"))) for page in PLAYED_PAGES) >= 6


@pytest.mark.ci
def test_the_first_hour_works_as_its_script_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer stops at the first command that fails."""
    monkeypatch.chdir(ROOT)
    lines = (ROOT / "examples" / "first-hour.sh").read_text(encoding="utf-8").splitlines()
    commands = [
        line.partition(" | ")[0].removeprefix("fleetwright ") for line in lines if line.startswith("fleetwright ")
    ]
    told = {}
    for command in commands:
        code = main(shlex.split(command))
        told[command] = capsys.readouterr().out
        says_no = command.startswith("explain research/") or command == "plan -f examples/pools -f examples/workloads"
        assert code == (1 if says_no else 0), command
    assert len(commands) == 9
    assert all(told.values())
    assert "pods wait" in told["plan -f examples/pools -f examples/workloads"]


# What pages tell to type can be typed: commands with their options, and targets of make.


PAGES: Final = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(
        path
        for folder in ("tutorials", "how-to", "explanation", "reference")
        for path in (ROOT / "docs" / folder).glob("*.md")
    ),
    ROOT / "docs" / "engineering" / "command-line.md",
]
WRITTEN: Final = re.compile(
    r"(?:^|`|\$ |run: |\()\s*(?:[A-Z_]+=\S+ )?(?:\.venv/bin/)?fleetwright ((?!-)[a-z][^`\n]*)", re.MULTILINE
)
TARGETS: Final = re.compile(r"`make ([a-z0-9-]+)[ `]|^ {4}make ([a-z0-9-]+)", re.MULTILINE)
FAULTS: Final = ("unrecognized arguments", "invalid choice", "there is no")
ENDS: Final = re.compile(r" {2,}| \| | > | #|…|\.\.\.| < ")


def commands_in(text: str) -> list[str]:
    """Each command line without its comment, pipe or redirection."""
    return [ENDS.split(found)[0].strip() for found in WRITTEN.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_and_option_on_a_page_is_known(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that was renamed lives on in a guide, and its reader gives up. What a sentence leaves out may be missing."""
    parser = whole_parser()
    for command in commands_in(page.read_text(encoding="utf-8")):
        words = shlex.split(command.rstrip(")"))
        if len(words) == 1 or "|" in command:
            assert words[0].partition("|")[0] in COMMANDS, command
            continue
        with contextlib.suppress(SystemExit):
            parser.parse_args(words)
        problem = capsys.readouterr().err
        assert not any(fault in problem for fault in FAULTS), f"fleetwright {command}\n{problem}"


def test_every_target_on_a_page_is_one_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.MULTILINE))
    told = {first or second for page in PAGES for first, second in TARGETS.findall(page.read_text(encoding="utf-8"))}
    assert sorted(told - known) == []


def test_every_call_of_aws_on_a_page_is_one_that_aws_knows() -> None:
    """Nothing here was tried on AWS: an operation or an option that it does not have would end a reader's removal halfway."""
    written = [command for page in PAGES for command in aws_commands(page.read_text(encoding="utf-8"))]
    assert len(written) > 30
    for command in written:
        aws_call(command)


@pytest.mark.parametrize(
    "command", ["ec2 describe-templates", "dynamodb delete-table --table T", "nothing list", "eks wait cluster-ready"]
)
def test_a_call_that_aws_does_not_know_is_noticed(command: str) -> None:
    with pytest.raises(ValueError, match=re.escape(command)):
        aws_call(command)


# A promise names the test that would fail if it were not true.


MODELS: Final = [ROOT / "docs" / "explanation" / f"{name}-model.md" for name in ("failure", "threat")]
NAMED_FILE: Final = re.compile(r"`(tests/[\w/]+\.py)`")
NAMED_TEST: Final = re.compile(r"`(test_\w+)`")
A_TARGET: Final = re.compile(r"`make \w[\w-]*`")
DEFINED: Final = re.compile(r"^ *def (test_\w+)", re.MULTILINE)


def test_every_test_that_a_page_names_is_there() -> None:
    files = [*(ROOT / "tests").rglob("test_*.py")]
    known = {name for file in files for name in DEFINED.findall(file.read_text(encoding="utf-8"))}
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        missing = [name for name in NAMED_FILE.findall(text) if not (ROOT / name).is_file()]
        assert missing + [name for name in NAMED_TEST.findall(text) if name not in known] == [], page.name


@pytest.mark.parametrize("page", MODELS, ids=lambda page: page.stem)
def test_every_promise_about_failures_and_attackers_names_a_test(page: Path) -> None:
    heading, rows = ("| what fails |", 25) if page.stem == "failure-model" else ("| attacker |", 15)
    _, _, table = page.read_text(encoding="utf-8").partition(heading)
    promises = table.partition("\n\n")[0].splitlines()[2:]
    assert len(promises) >= rows
    named = (NAMED_FILE, NAMED_TEST, A_TARGET)
    assert [row for row in promises if not any(pattern.search(row) for pattern in named)] == []


# Whoever comes from Karpenter finds each of its metrics on the page, and what the page names here exists.


PAGE: Final = (ROOT / "docs" / "reference" / "karpenter-metrics.md").read_text(encoding="utf-8")

KARPENTER: Final = """
nodes: created_total terminated_total drained_total termination_duration_seconds lifetime_duration_seconds
nodes: current_lifetime_seconds allocatable total_pod_requests total_pod_limits total_daemon_requests total_daemon_limits
nodes: system_overhead reboots_total reboot_duration_seconds reboot_recovery_duration_seconds
cluster: utilization_percent
build: info
pods: state startup_duration_seconds unstarted_time_seconds bound_duration_seconds unbound_time_seconds
pods: provisioning_bound_duration_seconds provisioning_unbound_time_seconds provisioning_startup_duration_seconds
pods: provisioning_unstarted_time_seconds provisioning_scheduling_undecided_time_seconds
pods: scheduling_decision_duration_seconds disruption_initiated_total eviction_requests_total drained_total
nodeclaims: created_total terminated_total disrupted_total unhealthy_disrupted_total termination_duration_seconds
nodeclaims: instance_termination_duration_seconds
nodepools: limit usage cost_total cost_tracker_errors_total allowed_disruptions nodes_consuming_budgets
voluntary_disruption: decision_evaluation_duration_seconds decisions_total decisions_by_nodepool_total eligible_nodes
voluntary_disruption: consolidation_timeouts_total failed_validations_total queue_failures_total
voluntary_disruption: terminate_first_decisions_total
pod_deletion_cost: nodes_with_pending_annotation_writes pod_annotation_writes_total
consolidation: score moves_total
cluster_state: node_count synced unsynced_time_seconds
scheduler: scheduling_duration_seconds queue_depth unfinished_work_seconds ignored_pods_count unschedulable_pods_count
scheduler: pending_pods_by_effective_zone_count
cloudprovider: duration_seconds errors_total instance_type_offering_available instance_type_offering_price_estimate
cloudprovider: instance_type_cpu_cores instance_type_memory_bytes instance_launch_failures_total
cloudprovider: instance_termination_failures_total batcher_batch_size batcher_batch_time_seconds
interruption: received_messages_total deleted_messages_total message_queue_duration_seconds instance_status_unhealthy_total
ec2nodeclasses: userdata_bytes
operator: status_condition_transition_seconds status_condition_count status_condition_current_status_seconds
operator: status_condition_transitions_total termination_current_time_seconds termination_duration_seconds
"""
"""Subsystem and names, from Karpenter's own sources (1.15)."""


def names() -> list[str]:
    rows = (line.split(": ") for line in KARPENTER.strip().splitlines())
    return [f"{subsystem}_{name}" for subsystem, listed in rows for name in listed.split()]


@pytest.mark.parametrize("name", names())
def test_each_metric_of_karpenters_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_each_metric_and_count_that_the_page_names_is_written() -> None:
    metrics = set(map(metric_names.in_cloudwatch, metric_names.METRICS))
    of_lambda = {"Duration", "Errors", "Throttles", "Invocations", "ConcurrentExecutions", "AsyncEventAge"}
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", PAGE)) - {"ValidationSucceeded"}
    assert named - of_lambda <= metrics
    source = "".join(
        path.read_text(encoding="utf-8") for name in ("adapters", "lambdas") for path in (ROOT / name).rglob("*.py")
    )
    counts = {f"decisions{kind.capitalize()}" for kind in DecisionKind}
    counts |= {name for name in re.findall(r"`([a-z]+[A-Z][A-Za-z]+)`", PAGE) if f'"{name}"' in source}
    assert set(re.findall(r"`([a-z]+[A-Z][A-Za-z]+)`", PAGE)) <= counts


# The page of the structure lists the files of a constraint, and the modules that place a pod.


STRUCTURE = ROOT / "docs/engineering/structure.md"
FOLDER = f"{ROOT}/core/scheduling/"


def listed(heading: str) -> list[str]:
    section = STRUCTURE.read_text().partition(f"## {heading}")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([a-z_/-]+\.(?:py|md))` \|", section, re.MULTILINE)


def test_a_constraint_is_as_few_files_as_the_page_says() -> None:
    """A constraint that the queue, the search and the tests each know is one that nobody dares to add."""
    named = re.compile(r"ReadWriteOncePod|READ_WRITE_ONCE_POD|\.exclusive\b|is_exclusive|VOLUME_IN_USE|ExclusiveClaims")
    on_top = {STRUCTURE, Path(__file__), ROOT / "docs/reference/reason-codes.md"}
    folders = ("core", "adapters", "lambdas", "cli", "simulator", "tests", "docs")
    files = [path for folder in folders for kind in ("*.py", "*.md") for path in (ROOT / folder).rglob(kind)]
    touched = {
        str(path.relative_to(ROOT))
        for path in files
        if path not in on_top and named.search(path.read_text(encoding="utf-8"))
    }
    assert touched == set(listed("What a change touches"))
    assert len(touched) <= 6


def test_a_pod_takes_the_way_that_the_page_lists() -> None:
    """Otherwise, a newcomer reads modules that decide nothing about the pod, or misses one."""
    claim, node = a_node_of(a_type("m"), "full")
    running = a_pod("running", cpu="100", node_name="full", phase="Running")
    pods = (running, a_pod("a"), a_pod("b"))
    snapshot = a_snapshot(pods=pods, nodes=(node,), node_claims=(claim,), node_pools=(a_pool(),), types=(a_type("m"),))
    ways = listed("The way of a pod")
    first: dict[str, int] = {}

    def see(frame: FrameType, event: str, _: Any) -> None:
        where = frame.f_code.co_filename.removeprefix(FOLDER)
        if event == "call" and where in ways and frame.f_code.co_name not in ("__init__", "__post_init__"):
            first.setdefault(where, len(first))

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        plan = schedule(snapshot)
    finally:
        sys.setprofile(before)
    assert plan.claims
    assert len(ways) == 5
    assert sorted(first, key=first.__getitem__) == ways


def test_the_picture_of_the_readme_is_there_light_and_dark() -> None:
    """`make page` takes it; GitHub chooses by the reader's scheme."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    dark, light = re.search(r'scheme: dark\)" srcset="([^"]+)">\s*<img alt="[^"]+" src="([^"]+)"', text).groups()  # type: ignore[union-attr]
    pictures = [(ROOT / path).read_bytes() for path in (dark, light)]
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    assert pictures[0] != pictures[1]
