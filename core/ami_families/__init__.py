"""AMI families: what each kind of machine image means for sizing, launching and validating, one module a family."""
