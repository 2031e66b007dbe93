"""The one top-level package of the wheel: the repository's folders lie under `fleetwright_eks/app` and collide with nothing."""
