"""From pending pods to instances, and what users read about pods that get none."""
