"""What scheduler-plugins' own code answered on random clusters, compared with what Stowplan answers.

    python -m stowplan_scheduler_plugins.golden --dir FOLDER [--category NAME ...]

The folder has a file of gzipped JSON lines per category, a scenario a line. Compared is everything that was recorded,
but for the order of reasons, scores that are 0 or absent, and which of several equally good nodes preemption selects.
"""
