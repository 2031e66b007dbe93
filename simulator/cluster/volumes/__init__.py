"""Persistent volumes: which nodes a pod's claims allow, how claims get their volumes, when volumes are attached."""
