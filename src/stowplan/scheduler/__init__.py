"""The scheduling cycle: filter, score, select, preempt."""
