"""Set the weight of a score plugin in a profile whose defaults are written out.

It is set where the profile enables the plugin: at `score` if that names it, else at `multiPoint`, else it is added to
`score`. kube-scheduler treats a weight of 0 as the default, so 0 disables the plugin at `score`.
"""

from __future__ import annotations

from typing import Any


def set_score_weight(plugins: dict[str, Any], name: str, weight: int) -> None:
    """`plugins` of a profile, which are changed."""
    score = plugins["score"] = dict(plugins.get("score") or {})
    enabled, disabled = list(score.get("enabled") or ()), list(score.get("disabled") or ())
    every = any(one["name"] == "*" for one in disabled)
    if weight == 0:
        enabled = [one for one in enabled if one["name"] != name]
        if not every and all(one["name"] != name for one in disabled):
            disabled.append({"name": name})
    else:
        everywhere = (plugins.get("multiPoint") or {}).get("enabled") or ()
        of_score = [one for one in enabled if one["name"] == name]
        off = every or any(one["name"] == name for one in disabled)
        of_all = [] if off else [one for one in everywhere if one["name"] == name]
        for entry in of_score or of_all:
            entry["weight"] = weight
        if not of_score and not of_all:
            enabled.append({"name": name, "weight": weight})
    plugins["score"] = {key: found for key, found in (("disabled", disabled), ("enabled", enabled)) if found}
