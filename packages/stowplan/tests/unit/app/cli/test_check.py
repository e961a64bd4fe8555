"""`stowplan check`: findings about changed manifests, with their places, in each form."""

import gzip
import json
from pathlib import Path

import pytest
from jsonschema import Draft4Validator

from support.what_if.objects import budget, node, owned, pod

HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}
CLUSTER = (
    node("a"),
    node("b"),
    HIGH,
    pod("db-0", "3", nodeName="a"),
    owned(pod("api-0", "3", nodeName="b"), name="api-x"),
)

WEB = """\
# Its Service is not read by the scheduler.
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      priorityClassName: "CLASS"
      containers: [{name: c, image: i, resources: {requests: {cpu: "CPU"}}}]
"""


@pytest.fixture
def check(run, files, tmp_path, monkeypatch):
    """Of these files, by name, against these objects."""
    monkeypatch.chdir(tmp_path)

    def answered(texts, *cluster, output="json"):
        for name, text in texts.items():
            if text is not None:
                (tmp_path / name).write_text(text)
        return run("check", "-f", files(*(cluster or CLUSTER)), "-o", output, *texts)

    return answered


def web(replicas=1, cpu=1, class_name=""):
    text = WEB.replace("REPLICAS", str(replicas)).replace("CPU", str(cpu))
    return {
        "web.yaml": text.replace('      priorityClassName: "CLASS"\n', "")
        if not class_name
        else text.replace("CLASS", class_name)
    }


def found(answer):
    return [(one["level"], one["rule"], f"{one['file']}:{one['line']}") for one in json.loads(answer.out)["findings"]]


def test_what_fits(check):
    answer = check(web(replicas=2))
    assert (answer.code, found(answer)) == (0, [])
    [one] = json.loads(answer.out)["objects"]
    assert one == {
        "object": "Deployment default/web",
        "file": "web.yaml",
        "line": 7,
        "pods": 2,
        "pending": 0,
        "nodes": {"a": 1, "b": 1},
    }


def test_what_does_not_fit_and_what_would_help(check):
    answer = check(web(replicas=3, cpu=2))
    assert (answer.code, found(answer)) == (3, [("error", "does-not-fit", "web.yaml:7")])
    [one] = json.loads(answer.out)["findings"]
    assert one["message"].startswith("3 of 3 pods get no node: 0/2 nodes are available: 2 Insufficient cpu")
    assert one["remedies"][0].startswith("request 1 cpu instead of 2 to gain 2 nodes")


@pytest.mark.parametrize(
    ("guard", "rules"),
    [
        pytest.param([], ["evicts"], id="no budget"),
        pytest.param([budget("db", maxUnavailable=0)], ["breaks-budget", "evicts"], id="a budget"),
        pytest.param([budget("db", allowed=1, maxUnavailable=1)], ["evicts"], id="a budget that allows it"),
    ],
)
def test_what_is_evicted(check, guard, rules):
    """db-0 has no controller, so that it does not come back."""
    answer = check(web(cpu=4, class_name="high"), node("a"), HIGH, pod("db-0", "3", nodeName="a"), *guard)
    assert answer.code == 3
    assert found(answer) == [("error", rule, "web.yaml:7") for rule in rules]
    assert "default/db-0 (no controller recreates it)" in answer.out


def test_the_evicted_go_elsewhere(check):
    placed = owned(pod("api-0", "3", nodeName="a"), name="api-x")
    answer = check(web(cpu=4, class_name="high"), node("a"), node("b", "3"), HIGH, placed)
    assert (answer.code, found(answer)) == (0, [("warning", "evicts", "web.yaml:7")])
    assert "default/api-0 (goes to b)" in answer.out


def test_whose_room_is_taken(check):
    answer = check(web(class_name="high"), node("a", "1"), HIGH, pod("waits"))
    assert (answer.code, found(answer)) == (0, [("warning", "takes-room", "web.yaml:7")])


def test_quotas(check):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}}
    answer = check(web(replicas=2), *CLUSTER, quota)
    assert (answer.code, found(answer)) == (3, [("error", "over-quota", "web.yaml:7")])


def test_what_is_new_shares_a_quota(check):
    """Workloads and pods of their own alike."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}}
    answer = check({**web(), "pod.yaml": json.dumps(pod("alone", "100m"))}, *CLUSTER, quota)
    assert found(answer) == [("error", "over-quota", "pod.yaml:1")]


def test_a_pod_that_is_replaced_is_not_evicted(check):
    moved = pod("db-0", "1", nodeSelector={"kubernetes.io/hostname": "b"})
    answer = check({"db.yaml": json.dumps(moved)})
    assert (answer.code, found(answer)) == (0, [])
    assert json.loads(answer.out)["objects"][0]["nodes"] == {"b": 1}


def test_folders(check, tmp_path):
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "web.yaml").write_text(web(replicas=3)["web.yaml"])
    assert found(check({"deploy": None})) == [("error", "does-not-fit", "deploy/web.yaml:7")]


def test_other_files_are_passed_over_and_wrong_ones_found(check):
    texts = {
        "template.yaml": "a: {{ .Values.b }}\n",
        "values.yaml": "replicas: 3\n",
        "broken.yaml": "a: [\n",
        "wrong.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: 3}\n",
        **web(replicas=3),
    }
    answer = check(texts)
    assert answer.code == 3
    assert found(answer) == [
        ("error", "unreadable", "broken.yaml:2"),
        ("error", "unreadable", "wrong.yaml:1"),
        ("error", "does-not-fit", "web.yaml:7"),
    ]
    notes = json.loads(answer.out)["notes"]
    assert [note.partition(":")[0] for note in notes if "passed over" in note] == ["template.yaml", "values.yaml"]


def test_items_of_a_list_have_their_lines(check):
    spec = "spec: {nodeSelector: {a: b}, containers: [{name: c, image: i}]}"
    item = f"- {{apiVersion: v1, kind: Pod, metadata: {{name: NAME}}, {spec}}}"
    text = "\n".join(["apiVersion: v1", "kind: List", "items:", item.replace("NAME", "x"), item.replace("NAME", "w")])
    assert found(check({"list.yaml": text})) == [("error", "does-not-fit", f"list.yaml:{line}") for line in (4, 5)]


def test_pods_of_other_schedulers_are_only_noted(check):
    text = web()["web.yaml"].replace(
        "    spec:\n      containers", "    spec:\n      schedulerName: other\n      containers"
    )
    assert found(check({"web.yaml": text})) == [("note", "not-scheduled", "web.yaml:7")]


def test_annotations_of_a_workflow(check):
    answer = check(web(cpu=2), output="github")
    [line] = answer.out.splitlines()
    assert line.startswith(
        "::error file=web.yaml,line=7,title=stowplan%3A does-not-fit::Deployment default/web: 1 of 1"
    )
    assert "%0Awould help: " in line


def test_sarif(check):
    answer = check(web(replicas=3), output="sarif")
    document = json.loads(answer.out)
    [ran] = document["runs"]
    assert [rule["id"] for rule in ran["tool"]["driver"]["rules"]] == ["does-not-fit"]
    [result] = ran["results"]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("does-not-fit", 0, "error")
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "web.yaml"}, "region": {"startLine": 7}}


#: SARIF 2.1.0 as the npm package @microsoft/jest-sarif 1.0.0-beta.0 has it (MIT).
SARIF = json.loads(gzip.decompress(Path(__file__).with_name("sarif-2.1.0-rtm.5.json.gz").read_bytes()))


def fingerprints(document):
    return [one["partialFingerprints"]["primaryLocationLineHash"] for one in document["runs"][0]["results"]]


def test_sarif_is_as_its_schema_and_github_want_it(check):
    """GitHub wants texts of each rule, a relative URI with a line, and a fingerprint that outlives a moved line."""
    names = {"web #1.yaml": web(replicas=3)["web.yaml"], "broken.yaml": "a: ["}
    document = json.loads(check(names, output="sarif").out)
    Draft4Validator(SARIF).validate(document)
    [ran] = document["runs"]
    for rule in ran["tool"]["driver"]["rules"]:
        assert all(rule[name]["text"] for name in ("shortDescription", "fullDescription", "help"))
    places = [one["locations"][0]["physicalLocation"] for one in ran["results"]]
    assert sorted(one["artifactLocation"]["uri"] for one in places) == ["broken.yaml", "web%20%231.yaml"]
    assert all(one["region"]["startLine"] > 0 for one in places)
    assert len(set(fingerprints(document))) == 2
    names["web #1.yaml"] = "# another line\n" + names["web #1.yaml"]
    assert fingerprints(json.loads(check(names, output="sarif").out)) == fingerprints(document)

    document["runs"][0]["results"][0]["level"] = "fatal"
    assert not Draft4Validator(SARIF).is_valid(document)


def test_findings_of_a_file_have_a_fingerprint_each(check):
    """GitHub shows findings with the same one once."""
    manifest = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: A, namespace: B}\nspec: {containers: [{name: c, image: i}]}\n"
    )
    document = json.loads(check({"pod.yaml": manifest}, output="sarif").out)
    first, second = fingerprints(document)
    assert (first[:-2], first[-2:], second[-2:]) == (second[:-2], ":1", ":2")


def test_a_workload_with_too_many_pods_has_its_place(check):
    """And other files are checked."""
    too_many = web(replicas=100_001)["web.yaml"].replace("metadata: {name: web}", "metadata: {name: many}")
    answer = check({"many.yaml": too_many, **web(replicas=3)})
    assert found(answer) == [("error", "unreadable", "many.yaml:7"), ("error", "does-not-fit", "web.yaml:7")]


def test_text(check):
    answer = check(web(replicas=3), output="text")
    assert answer.out.startswith("error web.yaml:7: Deployment default/web: 1 of 3 pods get no node: ")
    assert answer.out.endswith("\n1 error\n")
    assert check(web(replicas=2), output="text").out.endswith("\n2 pods of 1 object fit\n")


def test_names_are_no_commands_of_a_workflow(check):
    name = json.dumps("x\n::error file=a::\x1b[31m")
    manifest = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
    text = check({"pod.yaml": manifest}, output="text").out
    assert "x ::error file=a::" in text
    assert not any(line.startswith("::") for line in text.splitlines())
    assert "\x1b" not in text


def test_control_characters_do_not_reach_annotations(check):
    text = web()["web.yaml"].replace(
        "    spec:\n", "    spec:\n      schedulerName: " + json.dumps("x\n\a\x1b[31m") + "\n", 1
    )
    [line] = check({"web.yaml": text}, output="github").out.splitlines()
    assert line.endswith('no profile schedules for "x   [31m"')


def test_without_manifests(run):
    assert "Name the manifests to check" in run("check").err
