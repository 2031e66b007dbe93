"""What names and values of others' objects may do to a terminal, a CI system and a page; and how much they may ask for."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main
from cli.answers.difference import markdown_text
from cli.terminal.style import ALWAYS, NEVER, choose_style, on_one_line_each, printable, style
from core.manifests.wire import resources
from core.manifests.workloads import EXPANDED_MAX, TooManyPodsError, expand
from tests.unit.manifests.test_workloads import a_workload

CONCEAL = "\x1b[8m"
SGR = [CONCEAL, "\x1b[0m", "\x1b[30;40m", "\x1b[31m", "\x9b8m", "\x1b[m"]
NAMES = [f"web{code}x" for code in SGR] + ["a\n::error file=x::injected", "b\r\n::warning::two", "c\u202ed", "e\u0085f"]
PATHS = ("plan", "validate", "explain")


def a_pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "999"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [container], **spec},
    }


def written(folder: Path, *objects: dict[str, Any]) -> str:
    path = folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)


def spoken(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    return out + err


@pytest.mark.ci
@pytest.mark.parametrize("color", ["always", "never"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", PATHS)
def test_a_name_says_nothing_to_the_terminal(
    command: str, name: str, color: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, a_pod(name))
    asked = ["shop/web"] if command == "explain" else []
    assert main([command, *asked, "-f", file, *(["--color", color] if command != "validate" else [])]) in (0, 1, 2)
    choose_style(NEVER)
    said = spoken(capsys)
    assert not any(code in said for code in (CONCEAL, "\x1b[30;40m", "\x9b", "\u202e", "\x85"))
    assert not re.search(r"^::", said, re.MULTILINE)
    if color == "never":
        assert "\x1b" not in said


@pytest.mark.parametrize("form", ["table", "wide", "name", "jsonpath={.pods}", "json", "yaml"])
def test_no_form_of_an_answer_has_a_line_of_others(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = a_pod("web", priority="x\n::warning::two")
    assert main(["plan", "-f", written(tmp_path, pod), "-o", form]) == 1
    assert main(["plan", "-f", written(tmp_path, a_pod("a\n::error::b")), "-o", form]) in (1, 2)
    assert not re.search(r"^::", spoken(capsys), re.MULTILINE)


COMMAND = "x\n::error::y"


def requiring(key: str, value: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    }


@pytest.mark.parametrize(
    "spec",
    [
        requiring("k", COMMAND),
        requiring("node.kubernetes.io/instance-type", COMMAND),
        requiring("k", r"x\n::error::y"),
        {"nodeSelector": {"topology.kubernetes.io/zone": COMMAND}},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": COMMAND}}]},
        {"containers": [{"name": "c", "image": "x", "resources": {"requests": {f"example.com/{COMMAND}": "1"}}}]},
    ],
)
def test_a_value_begins_no_line_of_a_reason(
    spec: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """GitHub obeys an indented `::error` too, and the reasons of a pod are lines below each other."""
    file = written(tmp_path, a_pod("web", **spec), *a_pool())
    for asked in (["plan", "-o", "wide"], ["explain", "shop/web"]):
        assert main([*asked, "-f", file, "--now", "2026-11-20T12:00:00Z"]) == 1
        assert not re.search(r"^\s*::", spoken(capsys), re.MULTILINE)


def test_a_workload_is_named_on_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An API server takes any text as the kind and name of an owner."""
    pod = a_pod("web")
    owner = {"apiVersion": "v1", "kind": COMMAND, "name": COMMAND, "uid": "1", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    assert main(["explain", COMMAND, "-f", written(tmp_path, pod, *a_pool())]) in (0, 1)
    assert not re.search(r"^\s*::", spoken(capsys), re.MULTILINE)


def a_pool() -> list[dict[str, Any]]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    terms = [{"tags": {"a": "b"}}]
    node_class = {
        "role": "r",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
    }
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    return [
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": node_class,
        },
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {"template": template},
        },
    ]


def test_annotations_for_github_escape_what_they_quote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = a_pod("a\n::error file=x::injected\x1b[8m", priority="x\n::warning::two\u2028::notice::y")
    assert main(["validate", "-o", "github", "-f", written(tmp_path, line)]) == 1
    lines = spoken(capsys).splitlines()
    assert all(found.startswith(("::error file=", "::warning file=")) for found in lines if found.startswith("::"))
    assert not any("injected" in found.split("::")[0] for found in lines)
    assert "\x1b" not in "".join(lines)


def test_only_our_own_colours_are_put_in() -> None:
    choose_style(ALWAYS)
    try:
        text = style.styled(f"a{CONCEAL}b\x1b[31mc", "bold")
    finally:
        choose_style(NEVER)
    assert printable(text) == "\x1b[1ma\\u001b[8mb\\u001b[31mc\x1b[0m"


def test_an_answer_is_kept_on_its_lines() -> None:
    assert on_one_line_each({"a\nb": ["c\r\nd", ("e\rf", 1, None)]}) == {"a\\nb": ["c\\nd", ("e\\nf", 1, None)]}


@pytest.mark.parametrize("text", ["# Approved", "> quoted", "- item", "* item", "---", "=== x"])
def test_a_cell_of_markdown_begins_no_block(text: str) -> None:
    assert markdown_text(text) == f"\\{text}"


def test_a_markdown_answer_has_no_heading_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = written(tmp_path, a_pod("other"))
    after = tmp_path / "after.json"
    after.write_text(json.dumps(a_pod("x\n\n# Approved by security\n\n")))
    main(["diff", "--from", before, "--to", str(after), "-o", "markdown"])
    assert not re.search(r"^# ", spoken(capsys), re.MULTILINE)


def test_the_sum_of_all_pods_is_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = {"metadata": {"labels": {"app": "m"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 200_000, "selector": {"matchLabels": {"app": "m"}}, "template": template}
    many = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"m{n}"}, "spec": spec} for n in range(12)
    ]
    assert main(["plan", "-f", written(tmp_path, *many)]) == 2
    assert "2400000 pods" in (said := spoken(capsys))
    assert "--max-pods" in said
    few = [{**many[0], "spec": {**spec, "replicas": 3}}]
    assert main(["plan", "-f", written(tmp_path, *few), "--max-pods", "2"]) == 2
    assert main(["plan", "-f", written(tmp_path, *few), "--max-pods", "3"]) in (0, 1)


def test_volume_claims_count_and_nothing_is_expanded_beyond_the_bound() -> None:
    templates = [{"metadata": {"name": f"v{n}"}, "spec": {}} for n in range(99)]
    sets = [
        a_workload(resources.STATEFUL_SETS, replicas=EXPANDED_MAX // 100, volumeClaimTemplates=templates)
        for _ in range(2)
    ]
    with pytest.raises(TooManyPodsError):
        expand({resources.STATEFUL_SETS: sets})
    assert len(expand({resources.STATEFUL_SETS: sets[:1]}, most_per_workload=1)[0].pods) == 1


@pytest.mark.ci
@pytest.mark.parametrize("suffix", ["yaml", "json"])
@pytest.mark.parametrize("command", ["plan", "validate", "simulate"])
def test_deep_nesting_is_bad_input(
    command: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = f'{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "a"}}, "x": {"[" * 1500}{"]" * 1500}}}'
    file = tmp_path / f"deep.{suffix}"
    file.write_text(deep)
    assert main([command, *([] if command == "simulate" else ["-f"]), str(file)]) in (1, 2)
    assert "internal error" not in spoken(capsys)


@pytest.mark.parametrize("command", ["plan", "validate", "simulate"])
def test_aliases_expand_within_bounds(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["apiVersion: v1", "kind: Pod", "metadata: {name: a}", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    file = tmp_path / "laughs.yaml"
    file.write_text("\n".join(lines))
    assert main([command, *([] if command == "simulate" else ["-f"]), str(file)]) == 2
    assert "aliases" in spoken(capsys)


@pytest.mark.parametrize("command", [["convert"], ["plan", "-o", "yaml"]])
def test_yaml_is_no_other_text_than_it_seems(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """People read what they pipe into kubectl, which reads the same characters as were given."""
    pod = a_pod("web", nodeSelector={"team": "a\u202eb\u2066c\x9b8m"})
    main([*command, "-f", written(tmp_path, pod)])
    choose_style(NEVER)
    out = capsys.readouterr().out
    assert not set(out) & set("\u202e\u2066\x9b")
    (document,) = yaml.safe_load_all(out)
    if command == ["convert"]:
        assert document["spec"]["nodeSelector"] == pod["spec"]["nodeSelector"]
