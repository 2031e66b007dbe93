"""Building blocks of the provisioner stack, one concern each."""
