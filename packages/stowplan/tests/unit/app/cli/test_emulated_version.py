"""`--emulated-version` of the commands that ask about a cluster."""

import json

import pytest

from stowplan import Cluster
from stowplan.testing import a_node, a_pod

MB = 1024 * 1024
NODE = a_node("n").image("a:1", size=1500 * MB).allocatable(cpu="4", pods="10")
#: The image of the volume counts for the score's limit since 1.37.
POD = a_pod("p").image("a:1").volume("v", image={"reference": "other:1"})


@pytest.mark.parametrize(
    ("options", "score"), [((), 74), (("--emulated-version=1.37",), 74), (("--emulated-version=1.36",), 100)], ids=str
)
def test_explain_answers_as_that_version(run, files, options, score):
    ran = run("explain", "-f", files(NODE.obj(), POD.obj()), *options, "-o", "json", "pod", "p")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert _score(found) == score


@pytest.mark.parametrize(("version", "score"), [("1.36", 100), ("1.37", 74), (None, 74)])
def test_files_that_tell_their_version(run, tmp_path, version, score):
    told = {} if version is None else {"kubernetesVersion": version}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", **told, "items": [NODE.obj(), POD.obj()]}))
    ran = run("explain", "-f", str(path), "-o", "json", "pod", "p")
    found = json.loads(ran.out)
    assert (found["emulatedVersion"], _score(found)) == (version or "1.37", score)
    assert ("as kube-scheduler 1.36" in ran.err) == (version == "1.36")
    assert str(Cluster.from_files(path).state.emulated_version) == found["emulatedVersion"]
    assert str(Cluster.from_files(path, emulated_version="1.35").state.emulated_version) == "1.35"
    fits = json.loads(run("fit", "-f", str(path), "p", "-o", "json").out)
    assert fits["emulatedVersion"] == found["emulatedVersion"]


def _score(found):
    if isinstance(found, dict):
        if "ImageLocality" in found and isinstance(found["ImageLocality"], int):
            return found["ImageLocality"]
        found = list(found.values())
    if isinstance(found, list):
        return next((score for one in found if (score := _score(one)) is not None), None)
    return None


@pytest.mark.parametrize("command", [("explain",), ("drain", "n")], ids=" ".join)
def test_a_version_that_is_unknown(run, files, command):
    ran = run(*command, "-f", files(NODE.obj()), "--emulated-version=1.12")
    assert (ran.code, ran.err) == (2, "error: --emulated-version: 1.12 is not between 1.34 and 1.37\n")
