from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.apiserver.store import stored_of
from stowplan_cluster.controllers.volumes.volume_matching import ClaimKey, Volumes, fits, offered_of, wanted_of
from support.api.storage_objects import claim, reserved_for, volume

classes = st.sampled_from(["", "fast"])
modes = st.sampled_from([("ReadWriteOnce",), ("ReadOnlyMany",), ("ReadWriteOnce", "ReadOnlyMany")])
sizes = st.sampled_from(["1Gi", "2Gi", "1500Mi", "3Gi"])
labels = st.sampled_from([{}, {"disk": "ssd"}])
phases = st.sampled_from(["Available", "Available", "Released", "Pending"])


@st.composite
def volumes(draw):
    names = draw(st.lists(st.sampled_from("abcdefgh"), max_size=8))
    found = []
    for name in names:
        manifest = volume(name, draw(sizes), modes=draw(modes), class_=draw(classes), labels=draw(labels))
        if draw(st.integers(0, 5)) == 0:
            manifest["spec"].update(reserved_for(draw(st.sampled_from(["data", "other"]))))
        manifest["status"] = {"phase": draw(phases)}
        found.append(offered_of(stored_of("persistentvolumes", manifest, version=1)))
    return found


@st.composite
def claims(draw):
    selector = draw(st.sampled_from([None, {"matchLabels": {"disk": "ssd"}}]))
    rest = {"selector": selector} if selector else {}
    manifest = claim("data", draw(sizes), modes=draw(modes), class_=draw(classes), **rest)
    return wanted_of(stored_of("persistentvolumeclaims", manifest, version=1))


def plain_best(known, wanted):
    """Of all that fit: the fewest access modes, then the smallest, then the first name."""
    suitable = [one for one in known if fits(one, wanted)]
    order = lambda one: (len(one.kind.access_modes), sorted(one.kind.access_modes), one.size, one.name)  # noqa: E731
    return min(suitable, key=order, default=None)


@given(offered=volumes(), wanted=claims())
def test_the_index_agrees_with_a_linear_search(offered, wanted):
    index, known = Volumes(), {}
    for one in offered:
        # The same name again replaces the volume.
        index.put(one)
        known[one.name] = one
    reserved = [
        one
        for one in sorted(known.values(), key=lambda one: one.name)
        if one.claim == ClaimKey("default", "data")
        and one.size >= wanted.size
        and wanted.kind.access_modes <= one.kind.access_modes
    ]
    first = reserved[0] if reserved else None
    assert index.best_for(wanted, reserved_only=True) == first
    assert index.best_for(wanted, reserved_only=False) == (first or plain_best(known.values(), wanted))
    for name in known:
        index.drop(name)
    assert index.best_for(wanted, reserved_only=False) is None
