"""Decides which pods to bind to the node launched for them while kube-scheduler is kept off it (docs/adr/0050).

Applies the rules of kube-scheduler's filters to pods that need nothing else; kube-scheduler places all other pods.
"""
