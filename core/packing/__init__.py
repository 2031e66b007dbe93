"""Which machines to buy for a heap of pods, at the least cost: vectors, prices and masks, nothing of Kubernetes.

A fluid linear program says what mix of types the optimum buys and proves a lower bound; a guided fill turns it into whole
machines. Where machines hold few pods, a configuration program buys whole loads instead. Ruin and recreate mends what rounding
cost. Results are rechecked in integers and never dearer than the incumbent.
numpy and the solver take a while to load: import the modules where there is something to improve, not before.
"""
