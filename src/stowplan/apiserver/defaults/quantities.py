"""Quantities in JSON objects: what they amount to, and the one text that the API keeps of them.

Upstream: k8s.io/apimachinery/pkg/api/resource, SetDefaults_ResourceList in pkg/apis/core/v1.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from stowplan.api.api_errors import BadRequest
from stowplan.api.quantity import QuantityError, format_quantity, parse_quantity, read_quantity

if TYPE_CHECKING:
    from stowplan.api.meta import QuantityValue

_NANO_PER_MILLI = 10**6


def nano_of(value: QuantityValue) -> int:
    try:
        return parse_quantity(value)
    except QuantityError as error:
        raise BadRequest(str(error)) from error


def text_of(value: QuantityValue) -> str:
    """As the API prints it."""
    try:
        return str(read_quantity(value))
    except QuantityError as error:
        raise BadRequest(str(error)) from error


@lru_cache(maxsize=16384)
def canonical(value: QuantityValue) -> str:
    """As the API keeps it in a list of resources: printed, and nothing finer than a milli-unit."""
    text = text_of(value)
    nano = nano_of(value)
    if nano % _NANO_PER_MILLI == 0:
        return text
    magnitude = -(-abs(nano) // _NANO_PER_MILLI) * _NANO_PER_MILLI
    return format_quantity(-magnitude if nano < 0 else magnitude, read_quantity(value).format)


def canonicalise(resources: dict[str, QuantityValue] | None) -> None:
    """Rewrite a list of resources in place."""
    if resources:
        for name, value in resources.items():
            resources[name] = canonical(value)
