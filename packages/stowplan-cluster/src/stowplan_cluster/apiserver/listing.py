"""List requests: resource versions and pagination.

All pages of one list show the same version. A continue token holds that version and the last returned key; the store
reverts later changes for as long as it remembers them, then the token gets 410.

Upstream: k8s.io/apiserver/pkg/storage/continue.go, etcd3/store.go (GetList).
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice

import msgspec

from stowplan.kube.api.api_errors import BadRequest, Expired
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.selection import Selection
from stowplan_cluster.apiserver.store import Store, Stored

EXACT = "Exact"
NOT_OLDER_THAN = "NotOlderThan"

_TOKEN_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter."
)


class _Token(msgspec.Struct, frozen=True, rename={"version": "rv", "last": "start", "form": "v"}):
    version: int
    #: Key of the last object returned.
    last: str
    form: str = "meta.k8s.io/v1"


class Page(PlainStruct, frozen=True):
    items: Sequence[Stored]
    #: The resourceVersion of the list.
    version: int
    continue_: str = ""
    #: Number of remaining objects; None if selectors make that unknown.
    remaining: int | None = None


class ListOptions(PlainStruct, frozen=True, kw_only=True):
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_: str = ""
    resource_version: str = ""
    resource_version_match: str = ""


def list_page(store: Store, storage: str, selection: Selection, options: ListOptions) -> Page:
    version, last = _from_where(store, options)
    if version == store.version:
        found = store.list(storage, selection.namespace)
    else:
        found = _at(store, storage, selection.namespace, version, continued=bool(options.continue_))
    if last:
        found = found[bisect_right(found, last, key=lambda stored: stored.key) :]
    if not selection.everything:
        # One more than the page, to see whether others follow: counting them all would make each page linear.
        matching = (stored for stored in found if selection.matches(stored))
        found = list(islice(matching, options.limit + 1 if options.limit else None))
    if not options.limit or len(found) <= options.limit:
        return Page(found, version)
    items = found[: options.limit]
    remaining = len(found) - len(items) if selection.everything else None
    return Page(items, version, _encode(_Token(version, items[-1].key)), remaining)


def _at(store: Store, storage: str, namespace: str, version: int, *, continued: bool) -> Sequence[Stored]:
    try:
        return store.list_at(storage, namespace, version)
    except Expired:
        if continued:
            raise Expired(_TOKEN_EXPIRED) from None
        raise


def _from_where(store: Store, options: ListOptions) -> tuple[int, str]:
    """The version to list, and the key after which to start."""
    if options.limit < 0:
        raise BadRequest(f"limit: {options.limit} is less than 0")
    if options.continue_:
        if options.resource_version not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        token = _decode(options.continue_)
        return (token.version if token.version > 0 else store.version), token.last
    requested = parse_version(options.resource_version)
    match = options.resource_version_match
    if match not in ("", EXACT, NOT_OLDER_THAN):
        raise BadRequest(
            f'resourceVersionMatch: Unsupported value: "{match}": supported values: "{EXACT}", "{NOT_OLDER_THAN}"'
        )
    if match and not options.resource_version:
        raise BadRequest("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match == EXACT and not requested:
        raise BadRequest('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
    if requested > store.version:
        raise Expired(f"too large resource version: {requested}, current: {store.version}")
    # Parity: limit and resourceVersion without resourceVersionMatch mean Exact.
    exact = match == EXACT or (requested and options.limit and not match)
    return (requested if exact else store.version), ""


def parse_version(text: str) -> int:
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise BadRequest(f"resourceVersion: Invalid value: {text[:64]!r}: must be a whole number")
    return int(text)


def _encode(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def _decode(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded.encode("ascii")), type=_Token)
    except (ValueError, msgspec.MsgspecError):
        raise BadRequest("continue key is not valid: it was not issued by this server") from None
