"""The incrementally updated index of free volumes, compared with a new one."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api import types as t
from stowplan.kube.api.label_selectors import compile_label_selector
from stowplan.kube.claims.claim_terms import ClaimRequirements
from stowplan.scheduler.in_tree.volume_binding import volumes as module
from stowplan.scheduler.in_tree.volume_binding.node_sets import NodeSets
from stowplan.scheduler.in_tree.volume_binding.plugin import VolumeBinding
from stowplan.scheduler.in_tree.volume_binding.volumes import NONE, Volumes
from stowplan.testing import a_node
from support.examples import examples
from support.plugins.claims import HOST, ZONE, a_class, volume

NODES = [f"n{i}" for i in range(6)]
SELECTOR = compile_label_selector(t.LabelSelector(match_labels={"x": "y"}))
WANTED = [
    ClaimRequirements("local", size, frozenset({"ReadWriteOnce"}), "Filesystem", "", selector)
    for size, selector in ((None, None), (2 * 10**9 * 2**30, None), (10**9 * 2**30, SELECTOR))
]


def host(name, zone):
    return a_node(name).labels({HOST: name, ZONE: zone}).obj()


places = st.one_of(
    st.sampled_from(NODES).map(lambda name: {HOST: [name]}),
    st.sampled_from(NODES).map(lambda name: {HOST: [name]}),
    st.lists(st.sampled_from(NODES), min_size=2, max_size=3, unique=True).map(lambda names: {HOST: sorted(names)}),
    st.sampled_from([{ZONE: ["a"]}, None]),
)


@st.composite
def volumes(draw):
    return volume(
        f"v{draw(st.integers(0, 9))}",
        class_name=draw(st.sampled_from(["local", "local", "local", "other"])),
        size=draw(st.sampled_from(["1Gi", "2Gi", "3Gi"])),
        modes=["ReadWriteOnce"],
        on=draw(places),
        phase=draw(st.sampled_from(["Available", "Available", "Available", "Bound"])),
        metadata={"labels": draw(st.sampled_from([{}, {"x": "y"}]))},
    )


changes = st.one_of(
    volumes(),
    volumes(),
    volumes(),
    st.integers(0, 9).map(lambda i: f"v{i}"),
    st.tuples(st.sampled_from(NODES), st.sampled_from("ab")).map(lambda pair: host(*pair)),
)


def apply(world, change):
    if not isinstance(change, str):
        world.put(change)
    elif (gone := world.state.objects.get(t.PersistentVolume, change)) is not None:
        world.state.remove_object(gone)


def names(index, wanted, number):
    found = index.best(wanted, number)
    return [["" if id == NONE else index.known[int(id)].name for id in row] for row in found.tolist()]


def refreshed(index):
    index.refresh()
    index._node_sets.refresh()
    return index


def world_of(bench, *objects):
    return bench(VolumeBinding, *(host(name, "ab"[i % 2]) for i, name in enumerate(NODES)), a_class("local"), *objects)


@given(st.data())
@examples(150)
def test_the_updated_index_equals_a_new_one(bench, data):
    world = world_of(bench, *data.draw(st.lists(volumes(), max_size=6)))
    kept = world.plugin.volumes
    for _ in range(data.draw(st.integers(1, 8))):
        for change in data.draw(st.lists(changes, max_size=3)):
            apply(world, change)
        fresh = refreshed(Volumes(world.state, NodeSets(world.state.table)))
        refreshed(kept)
        for wanted in WANTED:
            for number in (1, 2):
                assert names(kept, wanted, number) == names(fresh, wanted, number)


def test_a_change_updates_only_its_rows(bench, monkeypatch):
    world = world_of(bench, *(volume(f"v-{name}", class_name="local", size="1Gi", on={HOST: [name]}) for name in NODES))
    kept, asked = world.plugin.volumes, []
    real = Volumes._fitting
    monkeypatch.setattr(Volumes, "_fitting", lambda self, queue, wanted: asked.append(1) or real(self, queue, wanted))
    names(refreshed(kept), WANTED[0], 1)
    assert len(asked) == len(NODES)
    for i in range(2 * module._MAX_CHANGES):
        asked.clear()
        name = NODES[i % 3]
        if i % 2:
            apply(world, volume(f"v-{name}", class_name="local", size="1Gi", on={HOST: [name]}))
        else:
            apply(world, f"v-{name}")
        names(refreshed(kept), WANTED[0], 1)
        assert len(asked) <= 1
