"""The default image pull policy.

Upstream: pkg/util/parsers (ParseImageName), SetDefaults_Container in pkg/apis/core/v1.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def pull_policy(image: str) -> str:
    """Always if the tag is latest, explicitly or by default."""
    name, at, _digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    moves = tag == "latest" or bool(name and not tag and not at)
    return "Always" if moves else "IfNotPresent"
