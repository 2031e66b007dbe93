"""The kube-scheduler's hard rules, written plainly and apart from the code that plans: it judges what that code plans."""
