"""What a fragmented cluster costs once disruption has done its work, beside its proven minimum and Karpenter's own moves."""
