"""`fleetwright crds`: prints the CustomResourceDefinitions of the users' objects, as YAML for `kubectl apply`."""

from __future__ import annotations

import argparse
import sys

import yaml

from cli.errors import DONE
from core.api.crds import definitions
from core.api.objects import JsonObject

LINE_WIDTH = 128

_EPILOG = """examples:
  fleetwright crds | kubectl apply --server-side -f -
  kubectl get crd nodepools.karpenter.sh
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""
    parser.epilog = _EPILOG


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - every command has it
    """Print all definitions, one document each."""
    sys.stdout.write("---\n".join(as_yaml(definition) for definition in definitions()))
    return DONE


def as_yaml(definition: JsonObject) -> str:
    """Return one definition as a YAML document, always with the same text."""
    return yaml.dump(
        definition,
        Dumper=_WithoutAliases,
        sort_keys=False,
        allow_unicode=True,
        width=LINE_WIDTH,
        default_flow_style=False,
    )


class _WithoutAliases(yaml.SafeDumper):
    """Writes repeated parts in full: anchors are hard to follow in a definition."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - of none
        """Return True: no object gets an anchor."""
        return True
