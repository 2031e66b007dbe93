"""`spec.kubelet` of an EC2NodeClass: an open object, its fields as the kubelet knows them, and the rules over them."""
