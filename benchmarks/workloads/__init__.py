"""Workloads: seeded pods, NodePools, nodes and catalogues, as manifests that any planner can read."""
