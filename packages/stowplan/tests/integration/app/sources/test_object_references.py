"""References on the command line: the forms of kubectl."""

import pytest

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.sources.object_references import Reference, kind_of, reference, references


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["web-0"], [("", None, "web-0")]),
        (["shop/web-0"], [("", "shop", "web-0")]),
        (["po/web-0"], [("Pod", None, "web-0")]),
        (["deploy/shop/web"], [("Deployment", "shop", "web")]),
        (["sts", "db", "shop/cache"], [("StatefulSet", None, "db"), ("StatefulSet", "shop", "cache")]),
        (["sts", "deploy/web"], [("Deployment", None, "web")]),
        (["Deployments.apps/web"], [("Deployment", None, "web")]),
        (["statefulset.v1.apps", "db"], [("StatefulSet", None, "db")]),
        (["jobs.batch/shop/import"], [("Job", "shop", "import")]),
        (["nodes", "a", "b"], [("Node", None, "a"), ("Node", None, "b")]),
        (["podgroup.scheduling.k8s.io/train"], [("PodGroup", None, "train")]),
        # A namespace and a pod, as no kind has this name.
        (["web.example/x"], [("", "web.example", "x")]),
        ([], []),
    ],
)
def test_forms(words, found):
    assert references(words) == [Reference(*one) for one in found]


@pytest.mark.parametrize("text", ["", "a/", "/a", "a/b/c", "pod/", "po/a/b/c", "no/a/b"])
def test_what_is_not_a_name(text):
    with pytest.raises(InputError, match="is not a name: want "):
        reference(text)


def test_a_kind_alone():
    with pytest.raises(InputError, match="sts is a kind: give a name, too, as in statefulset/shop/web"):
        references(["sts"])


@pytest.mark.parametrize("word", ["deploy.batch", "deployment.v1beta1", "service", "pod.v1.apps", ""])
def test_other_words_are_no_kinds(word):
    assert kind_of(word) == ""


def test_the_given_kind_is_a_default():
    assert reference("a", kind="Node") == Reference("Node", None, "a")
    assert str(reference("deploy/shop/web")) == "deployment/shop/web"
