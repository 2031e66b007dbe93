"""The controllers that make pods: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs."""
