"""Decides whether fewer or cheaper nodes can hold the same pods: eligibility and Karpenter's price rules."""
