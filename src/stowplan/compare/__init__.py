"""Configurations side by side: the same scenario, the same seeds, and what each makes of them."""
