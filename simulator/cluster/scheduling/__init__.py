"""Implements kube-scheduler's hard rules plainly and independently of the code that plans, which it judges."""
