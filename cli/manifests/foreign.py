"""Recognizes what a folder of manifests holds beside objects: templates, placeholders, and the files of other tools."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
CHART: Final = "Chart.yaml"

_TEMPLATE: Final = re.compile(r"\{\{|\{%|<%")
"""How Go, Helm, Jinja and ERB begin an action."""
_PLACEHOLDER: Final = re.compile(
    r"\$\{[^{}\s]+\}|<<[A-Za-z][\w .-]*>>|<[A-Z][A-Z0-9_-]+>|%\{[^{}]*\}|@@?[A-Z][A-Z0-9_]+@@?|\$\([A-Z][A-Z0-9_]*\)"
    r"|__[A-Z][A-Z0-9_]+__|\$[A-Z][A-Z0-9_]{2,}\b"
)
_FILL: Final = "envsubst < FILE"


def action_in(text: str) -> str:
    """Return the first action of a template in a text, empty if there is none."""
    action = _TEMPLATE.search(text)
    if action is None:
        return ""
    start = action.start()
    end = min((at for at in map(text.find, ("}}", "%}", "%>"), 3 * [start]) if at >= 0), default=-1)
    return text[start : end + 2] if 0 <= end < start + 60 else action[0]


def placeholder_in(value: Any) -> str:
    """Return the first placeholder in a text or in the texts of an object, empty if there is none."""
    if isinstance(value, str):
        match = _PLACEHOLDER.search(value)
        return match[0] if match else ""
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        inner = (part for pair in value.items() for part in pair)
    elif isinstance(value, list):
        inner = value
    return next((placeholder for part in inner if (placeholder := placeholder_in(part))), "")


def template_in(value: Any) -> str:
    """Return the first action of a template or placeholder in an object that is YAML all the same."""
    if isinstance(value, dict):
        return next((template for pair in value.items() for part in pair if (template := template_in(part))), "")
    if isinstance(value, list):
        return next((template for part in value if (template := template_in(part))), "")
    return (action_in(value) or placeholder_in(value)) if isinstance(value, str) else ""


def rendering_hint(source: str, mark: str) -> str:
    """Return the command that renders a template, or fills in a placeholder, before it is read."""
    if _TEMPLATE.match(mark):
        chart = chart_of(Path(source))
        of_helm = chart is not None or re.search(r"\.Values|\.Release|\.Chart|include ", mark)
        if of_helm or "templates" in Path(source).parts:
            return f"`helm template {shlex.quote(str(chart or 'CHART'))} | fleetwright validate -f -` reads what it renders"
        return "render it first, and give the result with -f - (for a Helm chart: `helm template CHART`)"
    if mark.startswith("%{"):
        return "Terraform's templatefile renders it: read what it renders"
    file = "FILE" if source == "-" else shlex.quote(source)
    return f"fill it in first: `{_FILL.replace('FILE', file)} | fleetwright validate -f -` (or what Terraform, Flux render)"


def chart_of(file: Path) -> Path | None:
    """Return the folder of the Helm chart that a file belongs to."""
    return next((folder for folder in file.parents if (folder / CHART).is_file()), None)


def syntax_problem(problem: str, line: str, text: str) -> tuple[str, str]:
    """Return what is wrong with text that is not YAML, and the template's mark if it is one.

    Args:
        problem: The parser's own words.
        line: The line where it stopped.
        text: The document.
    """
    for part in (line, text):
        for name, mark in (("a template", action_in(part)), ("a placeholder", placeholder_in(part))):
            if mark and (part is line or name == "a template"):
                if name == "a template":
                    return f"is a template, not YAML: it has {mark}", mark
                return f"is not YAML before {name} is filled in: {mark}", mark
    if line[: len(line) - len(line.lstrip())].count("\t"):
        return "is not YAML: the line begins with a tab; YAML allows only spaces there", ""
    if (mark := placeholder_in(text)) and "flow" in problem:
        return f"is not YAML before a placeholder is filled in: {mark}", mark
    return f"is not YAML: {problem}", ""


def is_object(value: Mapping[str, Any], source: str) -> bool:
    """Whether a document of a folder is meant as an object of Kubernetes: other tools' YAML has no kind and apiVersion."""
    if Path(source).name in (*KUSTOMIZATIONS, CHART):
        return False
    has_kind, has_version = value.get("kind"), value.get("apiVersion")
    if has_kind and has_version:
        return not _is_of_a_tool(value)
    return bool(has_kind or has_version) and isinstance(value.get("metadata"), dict)


def _is_of_a_tool(value: Mapping[str, Any]) -> bool:
    """Whether it is a tool's configuration, which no API server stores: it has no `metadata.name`, and no group of ours."""
    metadata = value.get("metadata")
    group = str(value.get("apiVersion")).partition("/")[0]
    is_list = isinstance(value.get("items"), list)
    is_named = isinstance(metadata, dict) and (metadata.get("name") or metadata.get("generateName"))
    return group.startswith(("kustomize.config", "kind.x-k8s", "skaffold", "eksctl.", "k3d.")) and (
        not is_list and (not is_named or group.startswith(("kustomize", "eksctl.")))
    )
