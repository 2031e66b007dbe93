"""The input: manifests read from files or standard input, their objects by kind, and what a command's input lacks."""

from __future__ import annotations

from typing import Final

KUBECTL: Final = "kubectl get nodepools,ec2nodeclasses,nodeclaims,nodes,csinodes,pv,pvc,sc,pdb,ns,ds,pods -A -o yaml"
"""A command that prints everything that a decision reads from a cluster. The help shows it, and loads nothing else."""

PUBLIC = ("documents", "inventory", "reading")
"""Files that the rest of the project may import; the others are this package's inside."""
