"""AMI families: all that differs from one kind of machine image to the next, one module a family and one line in `registry`."""
