"""ImageLocality: the spec's table, and arrays compared with the plain rule per node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.scheduler.in_tree.image_locality.plugin import ImageLocality
from stowplan.testing import a_node, a_pod

MB = 1024 * 1024


def cluster(total, *images):
    """Node n0 has all the images, given as (size in MB, number of nodes that have it); image i is called `img<i>:1`."""
    nodes = [a_node(f"n{i}") for i in range(total)]
    for i, (size, holders) in enumerate(images):
        for node in nodes[:holders]:
            node.image(f"img{i}:1", size=size * MB)
    return nodes


def using(*images):
    pod = a_pod().image(images[0])
    for i, image in enumerate(images[1:]):
        pod.container(f"c{i}", image=image)
    return pod


@pytest.mark.parametrize(
    ("nodes", "pod", "score"),
    [
        pytest.param(cluster(4, (120, 1), (900, 2)), using("img0:1", "img1:1", "other"), 15, id="two of three"),
        pytest.param(cluster(2, (700, 1)), using("img0:1"), 33, id="one of one"),
        pytest.param(cluster(3, (60, 1)), using("img0:1"), 0, id="too small to matter"),
        pytest.param(cluster(2, (800, 2)), using("img0:1"), 79, id="on all nodes"),
        pytest.param(cluster(2, (1500, 2)), using("img0:1"), 100, id="huge"),
        pytest.param(cluster(2, (600, 1)), using("img0:1", "img0:1"), 29, id="used by two containers"),
        pytest.param(cluster(10, (200, 1)), using("img0:1"), 0, id="rare"),
        pytest.param(cluster(2), using("img0:1"), 0, id="no images anywhere"),
    ],
)
def test_scores(bench, nodes, pod, score):
    world = bench(ImageLocality, *nodes)
    assert world.scores(pod)["n0"] == score
    assert world.scores(pod, "n0") == {"n0": score}


def test_names_without_a_tag_mean_latest(bench):
    world = bench(ImageLocality, a_node("n0").image("web:latest", size=700 * MB), a_node("n1"))
    assert world.scores(using("web")) == {"n0": 33, "n1": 0}


@pytest.mark.parametrize(("version", "images"), [(V1_36, 2), (V1_37, 3)], ids=str)
def test_init_containers_and_image_volumes_count(bench, version, images):
    """Until 1.36, images of volumes are in the sum, but not in the number of images that limits it."""
    nodes = [a_node("n0").image("a:1", size=600 * MB).image("v:1", size=600 * MB), a_node("n1")]
    world = bench(ImageLocality, *nodes, version=version)
    pod = a_pod().image("x").init_container("i", image="a:1").volume("v", image={"reference": "v:1"})
    assert world.scores(pod)["n0"] == 100 * (600 - 23) // (images * 1000 - 23)


def holding(name, *sizes):
    node = a_node(name)
    for size in sizes:
        node.image(f"gcr.io/{size}:latest", size=size * MB)
    return node


#: TestImageLocalityPriority of image_locality_test.go of 1.36.2, all 8 cases: images of the nodes, then of the pod's
#: containers, its init containers and its volumes; the scores. The second number of a score is that of 1.37, whose text
#: was not found: it follows from the change.
UPSTREAMS = [
    ([[40, 300, 2000], [250, 10]], [40, 250], [], [], [0, 5]),
    ([[40, 300, 2000], [250, 10]], [40, 300], [], [], [7, 0]),
    ([[4000, 30], [250, 10]], [10, 4000], [], [], [100, 0]),
    ([[4000, 30], [250, 10], []], [10, 4000], [], [], [66, 0, 0]),
    ([[600, 40, 900], [300, 600, 900], []], [300, 600, 900], [], [], [32, 36, 0]),
    ([[20, 30, 40], [4000, 30]], [30, 40], [], [], [1, 0]),
    ([[300, 600, 900], [4000, 30]], [30], [], [300], [(12, 6), 0]),
    ([[40, 300, 2000], [20, 30, 40]], [30], [300], [], [6, 0]),
]


@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
@pytest.mark.parametrize(("held", "containers", "init", "volumes", "expected"), UPSTREAMS)
def test_upstreams_scores(bench, held, containers, init, volumes, expected, version):
    world = bench(ImageLocality, *(holding(f"n{i}", *sizes) for i, sizes in enumerate(held)), version=version)
    pod = using(*(f"gcr.io/{size}" for size in containers))
    for size in init:
        pod.init_container("i", image=f"gcr.io/{size}")
    for size in volumes:
        pod.volume("v", image={"reference": f"gcr.io/{size}"})
    of_version = [one[version == V1_37] if isinstance(one, tuple) else one for one in expected]
    assert list(world.scores(pod).values()) == of_version


IMAGES = st.dictionaries(st.sampled_from("abc"), st.sampled_from([100 * MB, 100_000_001, 900 * MB, 1500 * MB]))


@given(
    before=st.lists(IMAGES, max_size=3),
    after=st.lists(IMAGES, min_size=3, max_size=7),
    gone=st.integers(0, 3),
    wanted=st.lists(st.sampled_from("abcd"), min_size=1, max_size=4),
)
def test_arrays_agree_with_the_plain_rule(bench, before, after, gone, wanted):
    # The first report determines an image's size; here all reports agree.
    size = {}
    for images in (*before, *after):
        for name in images:
            size.setdefault(name, images[name])
    world = bench(ImageLocality)
    for held in (before, after):
        for i, images in enumerate(held):
            node = a_node(f"n{i}")
            for name in images:
                node.image(f"{name}:latest", size=size[name])
            world.put(node)
        world.scores(using(*wanted))
    world.state.remove_node(f"n{gone}")
    there = {f"n{i}": images for i, images in enumerate(after) if i != gone}

    def plain_score(images):
        total = 0
        for name in wanted:
            if name in images:
                holders = sum(name in other for other in there.values())
                total += int(float(size[name]) * (float(holders) / float(len(there))))
        low, high = 23 * MB, 1000 * MB * len(wanted)
        return 100 * (min(max(total, low), high) - low) // (high - low)

    assert world.scores(using(*wanted)) == {n: plain_score(images) for n, images in there.items()}
