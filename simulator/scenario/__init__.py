"""How a cluster begins and what is done to it: scenario files, their steps, the traces and manifests that they name."""
