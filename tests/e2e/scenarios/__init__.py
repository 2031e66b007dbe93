"""What the suite plays: objects, and the workloads of the larger scenarios."""
