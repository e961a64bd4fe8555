"""What carries decisions out: on a real cluster, or in virtual time."""
