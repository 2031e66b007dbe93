"""AMI families: everything that differs between types of machine images; one module per family and one line in `registry`."""
