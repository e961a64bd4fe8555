"""Order of a merged list: the patch's order, with the server's own elements in between.

A merged list is split into elements that the patch (or its `$setElementOrder`) names and elements that only the server
has. Each part is sorted, then the two are interleaved: a server-only element goes before the next patch element if it
preceded it in the live list.

Upstream: normalizeElementOrder in k8s.io/apimachinery/pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan_cluster.apiserver.json_values import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Go sorts shorter lists by insertion, which is observable as the comparison is not a strict order.
_INSERTION_SORTED = 20


def _key_by(merge_key: str) -> Callable[[Any], object]:
    """The identity of elements: the merge key's value, or the element itself."""
    if not merge_key:
        return identity
    return lambda element: identity(element.get(merge_key))


def arrange(
    merged: Sequence[Any], *, patch_order: Sequence[Any], live_order: Sequence[Any], merge_key: str
) -> list[Any]:
    """Sort the elements of a merged list into their final order."""
    key_of = _key_by(merge_key)
    wanted, live = _places(patch_order, key_of), _places(live_order, key_of)
    from_patch = [element for element in merged if key_of(element) in wanted]
    server_only = [element for element in merged if key_of(element) not in wanted]
    return _interleave(_sorted_by(server_only, live, key_of), _sorted_by(from_patch, wanted, key_of), live, key_of)


def _places(order: Sequence[Any], key_of: Callable[[Any], object]) -> dict[object, int]:
    places: dict[object, int] = {}
    for place, element in enumerate(order):
        places.setdefault(key_of(element), place)
    return places


def _sorted_by(elements: list[Any], places: dict[object, int], key_of: Callable[[Any], object]) -> list[Any]:
    at = [places.get(key_of(element)) for element in elements]
    if None not in at or len(elements) > _INSERTION_SORTED:
        order = sorted(range(len(elements)), key=lambda i: -1 if (place := at[i]) is None else place)
    else:
        order = _insertion_sorted(at)
    return [elements[i] for i in order]


def _insertion_sorted(at: list[int | None]) -> list[int]:
    # Parity: an element without a position compares as less than its neighbour in both directions.
    order: list[int] = []
    for i in range(len(at)):
        spot = len(order)
        while spot and _less(at[i], at[order[spot - 1]]):
            spot -= 1
        order.insert(spot, i)
    return order


def _less(left: int | None, right: int | None) -> bool:
    return left is None or right is None or left < right


def _interleave(
    server: list[Any], patch: list[Any], live: dict[object, int], key_of: Callable[[Any], object]
) -> list[Any]:
    result: list[Any] = []
    waiting = iter(server)
    mine = next(waiting, None)
    left = len(server)
    for element in patch:
        place = live.get(key_of(element))
        while left and place is not None and (own := live.get(key_of(mine))) is not None and own < place:
            result.append(mine)
            mine = next(waiting, None)
            left -= 1
        result.append(element)
    return result + (server[-left:] if left else [])
