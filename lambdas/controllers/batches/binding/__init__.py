"""Binds pods to the nodes that were launched for them, while kube-scheduler is kept off these nodes (docs/adr/0050)."""
