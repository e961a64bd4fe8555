"""Reading any file ends with an answer or the reader's own error, in little time and memory."""

import functools
import json
import os
import subprocess
import sys

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from support.hostile.readers import READERS, read
from support.paths import TESTS

SECONDS = 1.0
MEBIBYTES = 200
SAMPLES = {
    "configuration": """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 16
leaderElection: {leaderElect: false, leaseDuration: 15s}
profiles:
- schedulerName: a
  plugins: {score: {enabled: [{name: NodeAffinity, weight: 3}], disabled: [{name: "*"}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
extenders:
- {urlPrefix: "http://127.0.0.1", filterVerb: filter, httpTimeout: 5s, tlsConfig: {caData: aGk=}}
""",
    "older configuration": """\
apiVersion: kubescheduler.config.k8s.io/v1alpha2
kind: KubeSchedulerConfiguration
bindTimeoutSeconds: 10
disablePreemption: true
leaderElection: {lockObjectName: a, lockObjectNamespace: b}
profiles:
- plugins:
    unreserve: {enabled: [{name: VolumeBinding}]}
    score: {enabled: [{name: NodeLabel, weight: 1}], disabled: [{name: NodeResourcesLeastAllocated}]}
  pluginConfig: [{name: NodeLabel, args: {presentLabels: [a]}}]
""",
    "policy": """\
apiVersion: v1
kind: Policy
predicates:
- {name: GeneralPredicates}
- {name: mine, argument: {labelsPresence: {labels: [a], presence: true}}}
priorities:
- {name: LeastRequestedPriority, weight: 1}
- {name: other, weight: 2, argument: {labelPreference: {label: a, presence: true}}}
extenders: [{urlPrefix: "http://127.0.0.1", weight: 1, enableHttps: true, httpTimeout: 1000}]
hardPodAffinitySymmetricWeight: 10
""",
    "manifest": """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  containers: [{name: a, image: nginx, resources: {requests: {cpu: 100m}}, ports: [{hostPort: 80}]}]
  tolerations: [{key: a, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}
---
apiVersion: v1
kind: Node
metadata: {name: node}
status: {allocatable: {cpu: 4, pods: "110"}, images: [{names: [a], sizeBytes: 5}]}
""",
    "kubeconfig": """\
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "https://127.0.0.1", certificate-authority-data: aGk=}}]
users: [{name: a, user: {token: t, exec: {command: c, args: [x], env: [{name: e, value: v}]}}}]
contexts: [{name: a, context: {cluster: a, user: a, namespace: s}}]
""",
}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["*", "", "1x", "~"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@functools.cache
def rows(directory):
    """(text, reader, seconds, mebibytes, message) of all, and the memory before the first."""
    tests = TESTS
    ran = subprocess.run(
        [sys.executable, "-m", "support.hostile.child", str(directory)],
        env={**os.environ, "PYTHONPATH": str(tests)},
        stdout=subprocess.PIPE,
        timeout=500,
        check=False,
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.returncode == 0, f"exited with {ran.returncode} after {lines[-1:]}"
    return lines[0], lines[1:]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return rows(tmp_path_factory.mktemp("hostile"))


def test_no_hostile_file_causes_a_traceback(hostile):
    assert [row for row in hostile[1] if row[4].startswith("TRACEBACK")] == []


def test_no_hostile_file_takes_longer_than_a_second(hostile):
    assert [row for row in hostile[1] if row[2] > SECONDS] == []


def test_hostile_files_take_little_memory(hostile):
    before, after = hostile[0], hostile[1]
    assert max(row[3] for row in after) - before[3] <= MEBIBYTES


#: Later versions of Python count C recursion separately: they get as far as the type.
_900_LEVELS = (
    "nested too deeply" if sys.version_info < (3, 12) else "Pod default/web: spec: expected an object, got a list"
)


@pytest.mark.parametrize(
    ("text", "reader", "message"),
    [
        ("configuration: billion laughs", "configuration", "yaml: line 7: document contains excessive aliasing"),
        ("configuration: brackets", "configuration", "yaml: line 3: nested deeper than 200 levels"),
        ("configuration: an anchor in itself", "configuration", "yaml: line 3: anchor contains itself"),
        ("configuration: JSON: objects", "configuration", "exceeded max depth of 200 levels"),
        ("configuration: numbers that are none", "configuration", "unmarshal string into Go struct field"),
        ("policy: billion laughs", "configuration", "document contains excessive aliasing"),
        ("kubeconfig: billion laughs", "kubeconfig", "document contains excessive aliasing"),
        ("manifest: billion laughs", "objects", "hostile.yaml: line 8: document contains excessive aliasing"),
        ("manifest: the same key twice", "objects", 'line 5, column 1: key "spec" already set in map'),
        ("manifest: booleans that are none", "objects", "line 4, column 7: cannot decode `foo` as a !!bool"),
        ("manifest: JSON: 900 levels", "objects", f"hostile.yaml: document 1: {_900_LEVELS}"),
        ("manifest: JSON: cut off", "objects", "hostile.yaml: line 1, column "),
    ],
)
def test_the_message_has_the_location(hostile, text, reader, message):
    said = [row[4] for row in hostile[1] if row[:2] == [text, reader]]
    assert len(said) == 1
    assert message in said[0]


# -- random files


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("random") / "file.yaml"


def read_by_all(path, data):
    path.write_bytes(data)
    for reader in READERS:
        read(reader, path)


@given(data=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@example(data=b"{")
def test_random_files(path, data):
    read_by_all(path, data)


@given(data=st.data())
def test_truncated_or_damaged_files(path, data):
    text = data.draw(st.sampled_from(sorted(SAMPLES.values())))
    if data.draw(st.booleans()):
        text = json.dumps(next(yaml.safe_load_all(text)))
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text)))
    inserted = data.draw(st.text(alphabet="{}[]:,-&*!|>%@'\"\\#?~ \n\tax0", max_size=5))
    read_by_all(path, (text[:begin] + inserted + text[end:]).encode())


@given(data=st.data())
def test_values_of_wrong_types(path, data):
    documents = list(yaml.safe_load_all(data.draw(st.sampled_from(sorted(SAMPLES.values())))))
    for document in documents:
        holder, key = data.draw(st.sampled_from(sorted(places(document), key=str)))
        of = functools.reduce(lambda value, step: value[step], holder, document)
        of[key] = data.draw(VALUES)
    if data.draw(st.booleans()):
        read_by_all(path, "\n".join(map(json.dumps, documents)).encode())
    else:
        read_by_all(path, yaml.safe_dump_all(documents).encode())


def places(value, way=()):
    """(path to a container, key in it) of everything in a document."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in steps:
        yield way, key
        yield from places(inner, (*way, key))
