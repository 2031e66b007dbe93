"""What an installation pays besides, or in place of, EC2's list prices."""
