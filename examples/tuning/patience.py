"""An objective of your own: money, and waits only where somebody would notice them.

stowplan tune batch.yaml --objective patience:patience
"""

#: Seconds that nobody minds.
FREE = 60.0


def patience(measures: dict[str, float]) -> float:
    """Less is better; `measures` has what the reports of `stowplan tune` show."""
    noticed = max(0.0, measures["waits.p95"] - FREE)
    return measures["cost"] + 0.01 * noticed
