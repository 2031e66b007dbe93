"""Two Helm charts: what the functions may do in the cluster, and Karpenter's definitions.

Helm installs a chart's folder `crds` once and never updates it, so the definitions are templates of a chart of their own.
Beside Karpenter, whose chart owns the same definitions, leave that chart out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import yaml

from infra.packaging.dependencies import ROOT
from infra.release.version import Version
from installation.cluster_roles import manifests

ACCESS, DEFINITIONS = "fleetwright-access", "fleetwright-crd"
KUBERNETES: Final = ">=1.31.0-0"
"""The versions that Helm accepts: from the oldest that tests have run on.

The suffix lets EKS's own (`v1.33.1-eks-1`) pass: SemVer takes it for a prerelease."""

FLAGS: Final[Mapping[str, tuple[str, str]]] = {
    "surgeRestarts": ("surge", "true if the setting surgeRestarts is on: execute may restart Deployments"),
    "approval": ("approval", "true for the template fleetwright-approve: disrupt may write events"),
    "steerScaleIn": ("steering", "true if the setting steerScaleIn is on: disrupt may set pods' deletion costs"),
}
"""Value of the chart → argument of `manifests`, and what it is for; in the order in which `manifests` adds their rules."""

SHADOW: Final = "shadow"


def access(version: Version) -> dict[str, str]:
    """Return path → text of the chart with ClusterRoles and bindings, from the list that the functions' tests check."""
    says = "What Fleetwright's functions may do in the cluster: ClusterRoles for the groups of their access entries"
    comments = {
        **{name: stated for name, (_, stated) in FLAGS.items()},
        SHADOW: "true for the template fleetwright-shadow: lists only",
    }
    values = "".join(f"# {stated}\n{name}: false\n" for name, stated in comments.items())
    schema = {
        "$schema": "https://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {**{name: {"type": "boolean"} for name in comments}, "global": {"type": "object"}},
    }
    parts = {
        "Chart.yaml": _chart(ACCESS, says, version),
        "values.yaml": values,
        "values.schema.json": json.dumps(schema, indent=1) + "\n",
        "templates/access.yaml": access_template(),
    }
    return {f"{ACCESS}/{name}": text for name, text in parts.items()}


def definitions(version: Version) -> dict[str, str]:
    """Return path → text of the chart with the CustomResourceDefinitions.

    Raises:
        ValueError: If a definition has what Helm would take for a template.
    """
    says = "CustomResourceDefinitions of NodePools, NodeClaims, NodeOverlays and EC2NodeClasses; not beside Karpenter's chart"
    parts = {"Chart.yaml": _chart(DEFINITIONS, says, version), "values.yaml": "# This chart has no values.\n"}
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if "{{" in text:
            raise ValueError(f"{path.name} has two braces, which Helm would read as a template")
        parts[f"templates/{path.name}"] = text
    return {f"{DEFINITIONS}/{name}": text for name, text in parts.items()}


def access_template() -> str:
    """Return the one template: objects for `shadow`, or all others with the rules that values add."""
    lines = [f"{{{{- if .Values.{SHADOW} }}}}", _documents(manifests(shadow=True)), "{{- else }}"]
    extended = {name: manifests(**{argument: True}) for name, (argument, _) in FLAGS.items()}
    for number, plain in enumerate(manifests()):
        lines.append(_documents([plain]))
        for name, more in extended.items():
            added = more[number].get("rules", [])[len(plain.get("rules", [])) :]
            if added:
                lines += [f"{{{{- if .Values.{name} }}}}", _dumped(added), "{{- end }}"]
    return "\n".join([*lines, "{{- end }}", ""])


def _documents(documents: Any) -> str:
    return "\n".join(f"---\n{_dumped(_rules_last(document))}" for document in documents)


def _rules_last(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with its rules at the end, where the template adds others."""
    return {key: document[key] for key in sorted(document, key=lambda key: key == "rules")}


def _dumped(part: Any) -> str:
    return str(yaml.safe_dump(part, sort_keys=False)).rstrip("\n")


def _chart(name: str, says: str, version: Version) -> str:
    stated = {
        "apiVersion": "v2",
        "name": name,
        "description": says,
        "type": "application",
        "version": version.text,
        "appVersion": version.text,
        "kubeVersion": KUBERNETES,
        "keywords": ["eks", "karpenter", "autoscaling"],
        "annotations": {"artifacthub.io/license": "Apache-2.0"},
    }
    return _dumped(stated) + "\n"
