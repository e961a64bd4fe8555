from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim
from stowplan.kube.claims.claim_terms import ClaimKey, claim_of, size_in, wanted_by
from stowplan.kube.claims.volume_binder import VolumeIndex, fits
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
        found.append(convert(manifest, PersistentVolume))
    return found


@st.composite
def claims(draw):
    selector = draw(st.sampled_from([None, {"matchLabels": {"disk": "ssd"}}]))
    rest = {"selector": selector} if selector else {}
    manifest = claim("data", draw(sizes), modes=draw(modes), class_=draw(classes), **rest)
    return convert(manifest, PersistentVolumeClaim)


def plain_best(known, wanted):
    """Of all that fit: the fewest access modes, then the smallest, then the first name."""
    suitable = [one for one in known if fits(one, wanted)]
    return min(suitable, key=lambda one: (len(modes_of(one)), modes_of(one), size_of(one), name_of(one)), default=None)


def modes_of(volume):
    return sorted(volume.spec.access_modes)


def size_of(volume):
    return size_in(volume.spec.capacity)


def name_of(volume):
    return volume.metadata.name


@given(offered=volumes(), wanted=claims())
def test_the_index_agrees_with_a_linear_search(offered, wanted):
    index, known, terms = VolumeIndex(), {}, wanted_by(wanted)
    for one in offered:
        # The same name again replaces the volume.
        index.put(one)
        known[name_of(one)] = one
    reserved = [
        one
        for one in sorted(known.values(), key=name_of)
        if claim_of(one) == ClaimKey("default", "data")
        and size_of(one) >= terms.size
        and terms.access_modes <= set(modes_of(one))
    ]
    first = reserved[0] if reserved else None
    assert index.best_for(wanted, terms, reserved_only=True) == first
    assert index.best_for(wanted, terms, reserved_only=False) == (first or plain_best(known.values(), terms))
    for name in known:
        index.drop(name)
    assert index.best_for(wanted, terms, reserved_only=False) is None
