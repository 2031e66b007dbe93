"""What may hold this system back from outside the cluster, and what each brake stops."""
