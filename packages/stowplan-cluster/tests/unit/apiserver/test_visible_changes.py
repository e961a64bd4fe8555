"""Watch events for a reader with selectors, compared with the plain rule."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.selection import selection_of, visible
from stowplan_cluster.apiserver.store import Store

CONFIG_MAPS = Catalogue(BUILT_IN).find("", "v1", "configmaps")

steps = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([None, "red", "blue", "red"])), max_size=20)


@given(steps)
def test_following_visible_changes_gives_what_a_list_shows(steps):
    store, view = Store(), {}
    selection = selection_of(CONFIG_MAPS, "n", "color=red")
    cursor = store.watch("configmaps", since=0)
    for name, color in steps:
        live = store.get("configmaps", "n", name)
        if color is not None:
            labels = {"color": color}
            store.put("configmaps", {"metadata": {"name": name, "namespace": "n", "labels": labels}})
        elif live is not None:
            store.remove(live)
        for event in cursor.take():
            seen = visible(event, selection)
            if seen is None:
                continue
            type_, stored = seen
            assert (type_ == "ADDED") == (stored.name not in view)
            assert stored.version == event.stored.version
            assert stored.labels == {"color": "red"}, "a DELETED event has the object as it last matched"
            if type_ == "DELETED":
                del view[stored.name]
            else:
                view[stored.name] = stored.data
        listed = {one.name: one.data for one in store.list("configmaps") if selection.matches(one)}
        assert view == listed
