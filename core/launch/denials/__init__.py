"""What EC2 does not launch: what each of its codes means for the next launches, and for how long they keep away from it."""
