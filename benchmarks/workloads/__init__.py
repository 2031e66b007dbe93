"""What is planned for: seeded pods, NodePools, nodes and catalogues, as manifests that any planner can read."""
