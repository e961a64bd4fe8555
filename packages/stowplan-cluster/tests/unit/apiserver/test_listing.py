"""Lists with pages and resource versions."""

import pytest

from stowplan.kube.api.api_errors import BadRequest, Expired
from stowplan_cluster.apiserver.listing import ListOptions, list_page
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.selection import selection_of
from stowplan_cluster.apiserver.store import Store

CONFIG_MAPS = Catalogue(BUILT_IN).find("", "v1", "configmaps")


def put(store, name, **labels):
    return store.put("configmaps", {"metadata": {"name": name, "namespace": "n", "labels": labels}})


def page(store, namespace="", label_selector="", **options):
    selection = selection_of(CONFIG_MAPS, namespace, label_selector)
    return list_page(store, "configmaps", selection, ListOptions(**options))


def names(page):
    return [one.name for one in page.items]


@pytest.fixture
def store():
    store = Store(history_changes=16)
    for name in "abcde":
        put(store, name, color="red" if name in "ace" else "blue")
    return store


def test_pages_continue(store):
    first = page(store, limit=2)
    assert (names(first), first.remaining, first.version) == (["a", "b"], 3, 5)
    second = page(store, limit=2, continue_=first.continue_)
    third = page(store, limit=2, continue_=second.continue_)
    assert (names(second), names(third), third.continue_, third.remaining) == (["c", "d"], ["e"], "", None)


def test_all_pages_have_one_version(store):
    first = page(store, limit=2)
    store.remove(store.get("configmaps", "n", "c"))
    put(store, "b1")
    rest = page(store, continue_=first.continue_)
    assert (names(rest), rest.version) == (["c", "d", "e"], first.version)


def test_selectors_count_only_what_matches(store):
    first = page(store, limit=2, label_selector="color=red")
    assert (names(first), first.remaining) == (["a", "c"], None)
    assert names(page(store, label_selector="color=red", continue_=first.continue_)) == ["e"]


def test_an_expired_continue_token_is_refused(store):
    first = page(store, limit=2)
    for _ in range(40):
        put(store, "z")
    with pytest.raises(Expired, match="continue parameter is too old"):
        page(store, limit=2, continue_=first.continue_)


def test_an_expired_version_has_another_message(store):
    for _ in range(40):
        put(store, "z")
    with pytest.raises(Expired, match=r"^too old resource version: 3 "):
        page(store, resource_version="3", resource_version_match="Exact")


def test_a_continue_token_has_its_own_version(store):
    first = page(store, limit=2)
    with pytest.raises(BadRequest, match="specifying resource version is not allowed when using continue"):
        page(store, continue_=first.continue_, resource_version="3")
    assert names(page(store, continue_=first.continue_, resource_version="0")) == ["c", "d", "e"]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        pytest.param({"resource_version": "3", "resource_version_match": "Exact"}, ["a", "b", "c"], id="exact"),
        pytest.param({"resource_version": "3"}, list("abcde"), id="no match given: at least"),
        pytest.param({"resource_version": "3", "resource_version_match": "NotOlderThan"}, list("abcde"), id="at least"),
        pytest.param({"resource_version": "0"}, list("abcde"), id="any"),
        pytest.param({"resource_version": "3", "limit": 10}, ["a", "b", "c"], id="with a limit: exact"),
    ],
)
def test_versions(store, options, wanted):
    assert names(page(store, **options)) == wanted


@pytest.mark.parametrize(
    ("options", "error", "complaint"),
    [
        ({"continue_": "nonsense"}, BadRequest, "continue key is not valid"),
        ({"continue_": "ümlaut"}, BadRequest, "continue key is not valid"),
        ({"resource_version": "x"}, BadRequest, "must be a whole number"),
        ({"resource_version": "²"}, BadRequest, "must be a whole number"),
        ({"resource_version": "99"}, Expired, "too large"),
        ({"resource_version": "1", "resource_version_match": "Near"}, BadRequest, "Unsupported value"),
        ({"resource_version_match": "Exact"}, BadRequest, "forbidden unless"),
        ({"resource_version": "0", "resource_version_match": "Exact"}, BadRequest, "forbidden for"),
        ({"limit": -1}, BadRequest, "limit"),
    ],
)
def test_invalid_options(store, options, error, complaint):
    with pytest.raises(error, match=complaint):
        page(store, **options)
