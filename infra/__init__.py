"""The AWS resources as code: stacks that are synthesized from the commit alone, without look-ups or network."""
