"""Strategic merge patch: a merge patch that merges lists by key.

The type determines how a field merges: lists with a merge key element by element, other lists of scalars as sets if
declared so; all other lists are replaced, and so are fields whose JSON type changes. Directives in the patch (`$patch`,
`$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`) express what a merge cannot. Parity: directives
inside new values are not applied; they stay as unknown fields. The merge modifies its own copies of original and patch.

Upstream: k8s.io/apimachinery/pkg/util/strategicpatch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stowplan.kube.api.api_errors import ApiError, BadRequest, Invalid, StatusDetails
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.merge_patches import copy_of
from stowplan_cluster.apiserver.objects import JsonObject, go_string_verb, go_text, go_type, identity, json_type, same
from stowplan_cluster.apiserver.patches.nesting import bounded
from stowplan_cluster.apiserver.schema.type_model import UNTYPED, ListType, MapType, Scalar, Struct, Type

# Order of a merged list: the patch's order, with the server's own elements in between.
#
# A merged list is split into elements that the patch (or its `$setElementOrder`) names and elements that only the
# server has. Each part is sorted, then the two are interleaved: a server-only element goes before the next patch
# element if it preceded it in the live list.
#
# Upstream: normalizeElementOrder in k8s.io/apimachinery/pkg/util/strategicpatch/patch.go.

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


PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"
SET_ELEMENT_ORDER = "$setElementOrder"
DELETE_FROM_LIST = "$deleteFromPrimitiveList"

#: Objects that are replaced instead of merged, as (type, field).
_REPLACED = frozenset({("PodDisruptionBudgetSpec", "selector")})

#: Lists in what is stored without a schema.
_REPLACED_LIST = ListType(UNTYPED)

_BAD_RETAIN_KEYS = "invalid patch format of retainKeys"
_BAD_ORDER = "invalid patch format of setElementOrder list"
_BAD_DELETIONS = "invalid patch format of primitive list"
_REFUSED = "the server rejected our request due to an error in our request"


@bounded
def apply_strategic_merge_patch(obj: JsonObject, patch: object, type: Struct) -> JsonObject:
    if patch is None:
        return copy_of(obj)  # type: ignore[no-any-return]
    if not isinstance(patch, dict):
        why = f"json: cannot unmarshal {json_type(patch)} into Go value of type map[string]interface {{}}"
        raise BadRequest(why)
    return _merge_maps(copy_of(obj), copy_of(patch), type)


def _merge_maps(original: JsonObject, patch: JsonObject, type: Type) -> JsonObject:
    if PATCH in patch:
        return _obey(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, type)
    for name, value in patch.items():
        if name.startswith(DELETE_FROM_LIST):
            _delete_from_list(original, _directed(name, DELETE_FROM_LIST), value, type)
        elif value is None:
            original.pop(name, None)
        elif name in original and original[name].__class__ is value.__class__:
            _merge_value(original, name, value, type)
        else:
            _drop_nulls(value)
            _set(original, name, value)
    return original


def _obey(patch: JsonObject) -> JsonObject:
    """Apply `$patch` of an object: return what replaces the original."""
    directive = patch[PATCH]
    if directive == "replace":
        del patch[PATCH]
        return patch
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _unknown_directive(directive: object, patch: JsonObject) -> ApiError:
    text = directive if isinstance(directive, str) else go_string_verb(directive)
    return ApiError(f"unknown patch type: {text} in map: {go_text(patch)}")


def _directed(name: str, directive: str) -> str:
    """The field that a `$directive/field` refers to."""
    prefix, slash, field = name.partition("/")
    if not slash or prefix != directive:
        raise BadRequest(_BAD_ORDER if directive == SET_ELEMENT_ORDER else _BAD_DELETIONS)
    return field


def _retain_keys(original: JsonObject, patch: JsonObject) -> None:
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    if not isinstance(retained, list):
        raise BadRequest(_BAD_RETAIN_KEYS)
    names = {name for name in retained if isinstance(name, str)}
    for name, value in patch.items():
        if value is not None and name not in names and not name.startswith((DELETE_FROM_LIST, SET_ELEMENT_ORDER)):
            raise BadRequest(_BAD_RETAIN_KEYS)
    for name in original.keys() - names:
        del original[name]


def _merge_value(original: JsonObject, name: str, value: Any, type: Type) -> None:
    """Merge two values of one JSON type."""
    if isinstance(value, dict):
        field = _field(type, name)
        replaced = isinstance(type, Struct) and (type.name.rpartition(".")[2], name) in _REPLACED
        original[name] = value if replaced else _merge_maps(original[name], value, field)
    elif isinstance(value, list):
        original[name] = _merge_lists(original[name], value, _list_field(type, name))
    else:
        original[name] = value


def _set(original: JsonObject, name: str, value: Any) -> None:
    kept, value = _without_directives(value)
    if kept:
        original[name] = value
    else:
        original.pop(name, None)


def _drop_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for name in [name for name, child in value.items() if child is None]:
            del value[name]
        for child in value.values():
            _drop_nulls(child)
    elif isinstance(value, list):
        for child in value:
            _drop_nulls(child)


def _without_directives(value: Any) -> tuple[bool, Any]:
    """(whether the value remains, the value without objects that have `$patch`)."""
    if isinstance(value, dict):
        if PATCH in value:
            return False, None
        cleaned = ((name, _without_directives(child)) for name, child in value.items())
        return True, {name: child for name, (kept, child) in cleaned if kept}
    if isinstance(value, list):
        return True, [child for kept, child in map(_without_directives, value) if kept]
    return True, value


def _field(type: Type, name: str) -> Type:
    if isinstance(type, Struct):
        found = type.fields.get(name, UNTYPED if type.preserve_unknown else None)
        if found is not None:
            return found
        struct = type.name.rpartition(".")[2]
        raise ApiError(f"unable to find api field in struct {struct} for the json field {go_quote(name)}")
    if type is Scalar.ANY:
        raise ApiError(f"unable to find api field in struct RawExtension for the json field {go_quote(name)}")
    raise ApiError(f"merging an object in json but data type is not struct, instead is: {_go_kind(type)}")


def _list_field(type: Type, name: str) -> ListType:
    field = _field(type, name)
    if field is UNTYPED:
        return _REPLACED_LIST
    if isinstance(field, ListType):
        return field
    raise ApiError(f"expected slice or array type, but got: {_go_kind(type)}")


def _go_kind(type: Type) -> str:
    if isinstance(type, Struct):
        return "struct"
    if isinstance(type, MapType):
        return "map"
    return "slice" if isinstance(type, ListType) else "string"


def _merge_ordered_lists(original: JsonObject, patch: JsonObject, type: Type) -> None:
    """Merge the lists that have `$setElementOrder`, and remove them from the patch."""
    for directive in [name for name in patch if name.startswith(SET_ELEMENT_ORDER)]:
        order = patch.pop(directive)
        if not isinstance(order, list):
            raise _bad_argument(order)
        name = _directed(directive, SET_ELEMENT_ORDER)
        live, changes = original.get(name, []), patch.get(name, [])
        for value in (live, changes):
            if not isinstance(value, list):
                raise _bad_argument(value)
        field = _list_field(type, name)
        _check_order(changes, order, field.merge_key)
        if name not in original and name not in patch:
            continue
        original[name] = _merge_in_order(name in original, live, patch.pop(name, None), order, field)


def _merge_in_order(
    exists: bool, live: list[Any], changes: list[Any] | None, order: list[Any], field: ListType
) -> list[Any]:
    live_order = live
    if changes is None:
        merged = live
    elif exists:
        merged = _merge_lists(live, changes, field)
        live_order = _live_order(live, changes, field.merge_key)
    else:
        merged = _without_directives(changes)[1]
    _require_keys(field.merge_key, merged, order, live_order)
    _element_class(live_order, changes or [])
    return arrange(merged, patch_order=order, live_order=live_order, merge_key=field.merge_key)


def _live_order(live: list[Any], changes: list[Any], merge_key: str) -> list[Any]:
    """The live order that upstream uses: the list after its merge modified it in place."""
    if not merge_key:
        return live
    gone = {identity(element.get(merge_key)) for element in changes if element.get(PATCH) == "delete"}
    if not gone:
        return live
    kept = [element for element in live if identity(element.get(merge_key)) not in gone]
    if any(element.get(PATCH) == "replace" for element in changes):
        return kept
    # Parity: upstream's added elements overwrite the deleted ones in the same array.
    known = {identity(element.get(merge_key)) for element in kept}
    added = [e for e in changes if PATCH not in e and identity(e.get(merge_key)) not in known]
    return (kept + added)[: len(live)]


def _check_order(changes: list[Any], order: list[Any], merge_key: str) -> None:
    """Raise BadRequest if the order contradicts the order of the patch's own elements."""
    if not order or not changes:
        return
    staying = changes
    if merge_key:
        _require_objects(changes)
        staying = [element for element in changes if element.get(PATCH) != "delete"]
    at = seen = 0
    while at < len(staying) and seen < len(order):
        if isinstance(staying[at], dict) and PATCH in staying[at]:
            at += 1
            continue
        at += _same_element(staying[at], order[seen], merge_key)
        seen += 1
    if at < len(staying) and seen >= len(order):
        listed = f"{go_text(changes)}\n doesn't match {SET_ELEMENT_ORDER} list:\n{go_text(order)}\n"
        raise ApiError(f"The order in patch list:\n{listed}")


def _same_element(left: Any, right: Any, merge_key: str) -> bool:
    if not merge_key:
        return same(left, right)
    _require_keys(merge_key, [left, right])
    return same(left[merge_key], right[merge_key])


def _require_objects(elements: Sequence[Any]) -> None:
    for element in elements:
        if not isinstance(element, dict):
            raise _bad_argument(element, expected="map[string]interface {}")


def _require_keys(merge_key: str, *lists: Sequence[Any]) -> None:
    if not merge_key:
        return
    for elements in lists:
        _require_objects(elements)
        for element in elements:
            if merge_key not in element:
                raise _no_merge_key(element, merge_key)


def _no_merge_key(element: JsonObject, merge_key: str) -> ApiError:
    return ApiError(f"map: {go_text(element)} does not contain declared merge key: {merge_key}")


def _bad_argument(actual: object, *, expected: str = "[]interface {}") -> ApiError:
    return ApiError(f"expected a {expected}, but received a {go_type(actual)}")


def _delete_from_list(original: JsonObject, name: str, unwanted: Any, type: Type) -> None:
    if name not in original:
        return
    if unwanted is None:
        del original[name]
        return
    if original[name].__class__ is not unwanted.__class__:
        return
    if not isinstance(unwanted, list):
        _merge_value(original, name, unwanted, type)
        return
    field = _list_field(type, name)
    if not original[name] and not unwanted:
        return
    if _element_class(original[name], unwanted) is dict:
        original[name] = _merge_named(original[name], unwanted, field)
        return
    gone = set(map(identity, unwanted))
    original[name] = [element for element in original[name] if identity(element) not in gone]


def _merge_lists(original: list[Any], patch: list[Any], field: ListType) -> list[Any]:
    if not (field.merge_key or field.merge_values):
        return patch
    if not original and not patch:
        return original
    if _element_class(original, patch) is dict:
        return _merge_named(original, patch, field)
    if field.merge_key:
        _require_objects(original + patch)
    merged = list({identity(element): element for element in original + patch}.values())
    return arrange(merged, patch_order=patch, live_order=original, merge_key="")


def _merge_named(original: list[Any], patch: list[Any], field: ListType) -> list[Any]:
    """Merge lists of objects, element by element."""
    if not field.merge_key:
        raise ApiError(f"cannot merge lists without merge key for {_go_kind(field.element)}")
    original, patch = _obey_elements(original, patch, field.merge_key)
    merged = _merge_elements(original, patch, field)
    _require_keys(field.merge_key, merged)
    return arrange(merged, patch_order=patch, live_order=original, merge_key=field.merge_key)


def _element_class(*lists: Sequence[Any]) -> type:
    """The common type of the elements; lists of lists cannot be merged."""
    elements = [element for elements in lists for element in elements]
    if not elements:
        raise ApiError("no elements in any of the given slices")
    found: type = elements[0].__class__
    if found is list:
        raise Invalid(_REFUSED, details=StatusDetails())
    if found is type(None) or any(element.__class__ is not found for element in elements):
        raise ApiError(f"list element types are not identical: {go_text(list(lists))}")
    return found


def _obey_elements(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Apply `$patch` of list elements: return what remains of the original and of the patch."""
    replace, kept = False, []
    unwanted: set[object] = set()
    for element in patch:
        directive = element.get(PATCH)
        if PATCH not in element:
            kept.append(element)
        elif directive == "delete":
            if merge_key not in element:
                raise _no_merge_key(element, merge_key)
            unwanted.add(identity(element[merge_key]))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise ApiError("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(directive, element)
    if replace:
        return kept, []
    if unwanted:
        original = [e for e in original if merge_key not in e or identity(e[merge_key]) not in unwanted]
    return original, kept


def _merge_elements(original: list[Any], patch: list[Any], field: ListType) -> list[Any]:
    merge_key = field.merge_key
    merged = list(original)
    places: dict[object, int] = {}
    for place, element in enumerate(merged):
        if merge_key in element:
            places.setdefault(identity(element[merge_key]), place)
    for element in patch:
        if merge_key not in element:
            raise _no_merge_key(element, merge_key)
        key = identity(element[merge_key])
        place = places.setdefault(key, len(merged))
        if place == len(merged):
            merged.append(element)
        else:
            merged[place] = _merge_maps(merged[place], element, field.element)
    return merged
