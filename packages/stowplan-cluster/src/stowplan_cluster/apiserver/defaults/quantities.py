"""Round resource quantities up to milli-units.

Expects canonical quantities, as `schema.conform` produces them.

Upstream: SetDefaults_ResourceList in pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from functools import lru_cache

from stowplan.kube.api.quantity import format_quantity, read_quantity

_NANO_PER_MILLI = 10**6


@lru_cache(maxsize=16384)
def whole_millis(text: str) -> str:
    """The quantity, rounded away from zero."""
    quantity = read_quantity(text)
    rest = abs(quantity.nano) % _NANO_PER_MILLI
    if not rest:
        return text
    more = _NANO_PER_MILLI - rest
    return format_quantity(quantity.nano + (more if quantity.nano > 0 else -more), quantity.format)


def round_amounts(resources: dict[str, str] | None) -> None:
    """Round a list of resources in place."""
    if resources:
        for name, text in resources.items():
            resources[name] = whole_millis(text)
