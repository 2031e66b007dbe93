"""The command that prints a cluster for ours; a module of its own, since the help shows it and needs nothing else."""

from __future__ import annotations

from typing import Final

KUBECTL: Final = "kubectl get nodepools,ec2nodeclasses,nodeclaims,nodes,csinodes,pv,pvc,sc,pdb,ns,ds,pods -A -o yaml"
"""A command that prints everything that a decision reads from a cluster."""
