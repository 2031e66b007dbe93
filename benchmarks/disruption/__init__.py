"""The cost of a fragmented cluster after disruption, beside its proven minimum and the result of Karpenter's own moves."""
