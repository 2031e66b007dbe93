"""Methods that find nodes to remove, in Karpenter's order.

They are independent of each other; `decision` calls them in order.
"""
