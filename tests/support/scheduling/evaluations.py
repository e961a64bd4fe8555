"""What an evaluation says about a pod, to compare two of them."""

from typing import Any

import numpy as np


def findings(framework, evaluation, pod):
    """All results of an evaluation for a pod, as plain data."""
    table = framework.handle.cluster.table
    outcome = evaluation.filter(pod)
    if outcome.error is not None:
        return {"error": str(outcome.error)}
    feasible = outcome.feasible
    found: dict[str, Any] = {"feasible": [table.names[row] for row in np.flatnonzero(feasible)]}
    if outcome.diagnosis is not None:
        found["message"] = outcome.diagnosis.message()
        found["plugins"] = outcome.diagnosis.unschedulable_plugins
        statuses = {name: outcome.diagnosis.status(row) for name, row in table.row_of.items()}
        found["statuses"] = {name: (s.code, sorted(s.reasons), s.plugin) for name, s in statuses.items() if s}
        return found
    scored = evaluation.score(pod, feasible)
    if scored.error is not None:
        return found | {"error": str(scored.error)}
    found["totals"] = scored.ranked[feasible].tolist()
    scores = {name: part[feasible].tolist() for name, part in scored.by_plugin().items()}
    # A plugin that skips and one that scores 0 are equivalent.
    found["scores"] = {name: part for name, part in scores.items() if any(part)}
    return found
