"""Packs the pods of a plan's new nodes anew, with every rule that the greedy planner kept."""
