"""Plans, judged by the plugins of the real kube-scheduler."""
