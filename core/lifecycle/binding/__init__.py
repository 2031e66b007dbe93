"""Which pods may be bound to the node that was launched for them, while kube-scheduler is kept off it (docs/adr/0050).

The rules are those of kube-scheduler's filters, for pods that ask for nothing else; all other pods are left to it.
"""
