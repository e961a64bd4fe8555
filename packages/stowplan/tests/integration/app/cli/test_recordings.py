"""The commands about recordings: output and exit codes."""

import asyncio
import json

import pytest
import yaml
from click.testing import CliRunner

from stowplan.app.cli.main import cli
from stowplan.testing import a_pod
from support.live.recordings import a_run_in_two_files, a_short_run, changed_line

ABOUT = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PACKING = ABOUT + (
    "profiles:\n- pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, "
    "resources: [{name: cpu, weight: 1}]}}}]\n"
)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "run.recording"
    asyncio.run(a_short_run(path))
    return path


def run(*arguments):
    found = CliRunner().invoke(cli, [str(one) for one in arguments])
    return found.exit_code, found.output


def data(*arguments):
    code, output = run(*arguments, "-o", "json")
    assert code == 0
    return json.loads(output)


def test_the_contents_are_summarized(file):
    code, output = run("replay", file)
    assert code == 0
    assert "a recording of our scheduler, with its decisions" in output
    assert "1 pod sent to a node, 0 pods evicted" in output
    found = data("replay", file)
    assert (found["binds"], found["decisions"]) == (1, True)


def test_check(file, tmp_path):
    assert run("replay", file, "--check")[0] == 0
    other = tmp_path / "other"
    other.write_bytes(file.read_bytes())
    number = next(number for number in range(1, 100) if _bind_in(other, number))
    changed_line(other, number, _elsewhere)
    code, output = run("replay", other, "--check")
    assert code == 3
    assert "then default/web to elsewhere; now default/web to large" in output


def _bind_in(path, number):
    seen = []
    changed_line(path, number, lambda line: seen.append(line) or line)
    return len(seen[0]) > 4 and seen[0][4][1]


def _elsewhere(line):
    line[4][1][0][2] = "elsewhere"
    return line


def test_a_moment_as_objects_for_other_commands(file, tmp_path):
    code, output = run("replay", file, "--objects")
    assert code == 0
    (tmp_path / "cluster.json").write_text(output)
    code, output = run("explain", "-f", tmp_path / "cluster.json", "pod", "huge")
    assert "Insufficient cpu" in output


def test_explain_at_a_past_moment(file):
    code, output = run("explain", "--recording", file, "pod", "huge")
    assert code == 0
    assert "Insufficient cpu" in output
    assert "What the scheduler said" in output
    began = data("replay", file)["from"]
    code, output = run("explain", "--recording", file, "--at", began.replace(":00.", ":05."), "pod", "huge")
    assert code == 2
    assert 'pod "default/huge" not found' in output
    code, output = run("explain", "--recording", file, "--at", began.replace(":00.", ":05."), "pod", "web")
    assert (code, "large" in output) == (0, True)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (["drain", "large"], "drain of large: 0 pods would move, 1 would be lost"),
        (["survive", "--by", "node"], "loss of each node"),
        (["fit", "web"], "like default/web: "),
        (["what-if", "--remove", "large"], "change: remove node large"),
        (["rebalance", "--goal", "mend"], "nothing to do"),
    ],
)
def test_questions_about_a_past_moment(file, question, answer):
    code, output = run(*question, "--recording", file)
    assert (code, answer in output) == (0, True), output


def a_policy(path, strategy, args=""):
    path.write_text(f"""
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig: [{{name: {strategy}, args: {{{args}}}}}]
  plugins: {{deschedule: {{enabled: [{strategy}]}}}}
""")
    return path


@pytest.mark.parametrize(
    ("at", "code"),
    [pytest.param((), 3, id="at the end"), pytest.param(("--at", "1970-01-01T00:00"), 2, id="before it began")],
)
def test_manifests_are_checked_against_a_recording(file, tmp_path, at, code):
    fits, big = tmp_path / "fits.json", tmp_path / "big.json"
    fits.write_text(json.dumps(a_pod("fits").requests(cpu="7").obj()))
    big.write_text(json.dumps(a_pod("big").requests(cpu="8").obj()))
    found, output = run("check", "--recording", file, *at, fits, big)
    assert found == code
    if code == 3:
        assert "fits.json" not in output
        assert f"error {big}:1: Pod default/big" in output


def test_policies_about_a_past_moment(file, tmp_path):
    policy = a_policy(tmp_path / "policy.yaml", "RemovePodsViolatingNodeTaints")
    code, output = run("rebalance", "--recording", file, "--policy", policy)
    assert (code, "nothing to do" in output) == (0, True)
    policy = a_policy(tmp_path / "policy.yaml", "RemovePodsHavingTooManyRestarts", "podRestartThreshold: 1")
    code, output = run("rebalance", "--recording", "/nope", "--policy", policy)
    assert code == 2
    assert "profile p: RemovePodsHavingTooManyRestarts reads what a recording does not contain: status.co" in output


def test_older_recordings_do_not_have_what_policies_read(file, tmp_path):
    older = tmp_path / "older"
    older.write_bytes(file.read_bytes())
    changed_line(older, 0, lambda header: header | {"format": 2})
    policy = a_policy(tmp_path / "policy.yaml", "RemovePodsViolatingNodeTaints")
    code, output = run("rebalance", "--recording", older, "--policy", policy)
    assert (code, "recorded by an earlier version" in output) == (2, True)
    assert run("rebalance", "--recording", older, "--goal", "mend")[0] == 0


def test_a_moment_after_the_end_is_an_error(file):
    known = data("replay", file)
    later = known["to"].replace("2027", "2028")
    for command in (("replay", file, "--at", later), ("explain", "--recording", file, "--at", later, "pod", "huge")):
        code, output = run(*command)
        assert code == 0
        assert f"note: the recording ends at {known['to']}, before {later}" in output
    assert data("replay", file, "--at", known["to"])["recordingIsOver"] is False
    assert "the recording ends" not in run("explain", "--recording", file, "--at", known["to"], "pod", "huge")[1]


def test_decisions_are_made_again(file, tmp_path):
    assert "every pod is on the same node" in run("replay", file, "--rerun")[1]
    config = tmp_path / "packing.yaml"
    config.write_text(PACKING)
    found = data("replay", file, "--config", config)
    assert [(pod["pod"], pod["then"], pod["now"]) for pod in found["placedDifferently"]] == [
        ("default/web", "large", "small")
    ]
    code, output = run("shadow", "--recording", file, "--config", config)
    assert code == 3
    assert "NodeResourcesFit" in output


def test_shadow_of_our_own_run(file, tmp_path):
    found = data("shadow", "--recording", file, "--metrics-file", tmp_path / "shadow.prom")
    assert found["results"] == {"same": 1}
    assert "stowplan_shadow_agreement_ratio 1" in (tmp_path / "shadow.prom").read_text()


@pytest.fixture(scope="module")
def rotated(tmp_path_factory):
    path = tmp_path_factory.mktemp("rotated") / "run.recording"
    asyncio.run(a_run_in_two_files(path))
    return path


def test_all_files_of_a_rotated_recording_are_read(rotated, tmp_path):
    code, output = run("replay", rotated)
    assert (code, f"in 2 files: {rotated}.1, {rotated}" in output) == (0, True)
    assert "5 pods sent to a node" in output
    assert data("replay", rotated, "--check")["decisions"] == 5
    assert "every pod is on the same node" in run("replay", rotated, "--rerun")[1]
    config = tmp_path / "packing.yaml"
    config.write_text(PACKING)
    assert {pod["pod"] for pod in data("replay", rotated, "--config", config)["placedDifferently"]} <= {
        f"default/p{i}" for i in range(4)
    }
    assert data("shadow", "--recording", rotated)["pods"] == 5
    assert json.loads(run("compare", "recorded", "recorded", "--recording", rotated, "--jobs", 1, "-o", "json")[1])


def test_a_rotated_recording_without_its_first_file(rotated, tmp_path):
    alone = tmp_path / "alone"
    alone.write_bytes(rotated.read_bytes())
    assert "in 2 files" not in run("replay", alone)[1]
    assert data("replay", alone, "--rerun")["placed"] == {"then": 3, "now": 3}
    config = tmp_path / "packing.yaml"
    config.write_text(PACKING)
    own = data("shadow", "--recording", alone)
    assert own["pods"] == 3
    code, output = run("shadow", "--recording", alone, "--config", config, "-o", "json")
    assert code == 3
    assert json.loads(output)["pods"] == 3


def test_differences_are_reported_with_their_file(rotated, tmp_path):
    (tmp_path / "r.1").write_bytes(rotated.with_name(f"{rotated.name}.1").read_bytes())
    (tmp_path / "r").write_bytes(rotated.read_bytes())
    number = next(number for number in range(1, 100) if _bind_in(tmp_path / "r", number))
    changed_line(tmp_path / "r", number, _elsewhere)
    code, output = run("replay", tmp_path / "r", "--check")
    assert code == 3
    assert f"{tmp_path / 'r'}, line {number + 1}" in output


READS = ("explain", "fit", "drain", "survive", "what-if")


@pytest.mark.parametrize("command", ["record", "shadow", "mcp", *READS])
def test_the_role_that_it_needs(command):
    code, output = run(command, "--rbac")
    assert code == 0
    role = yaml.safe_load(output)
    assert role["metadata"]["name"] == f"stowplan-{'read' if command in READS else command}"
    verbs = {resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]}
    assert verbs["nodes"] == (["list"] if command in READS else ["list", "watch"])
    one_by_one = ["get"] if command in (*READS, "mcp") else []
    assert verbs["pods"] == [*one_by_one, *verbs["nodes"]]
    assert ("events" in verbs) == bool(one_by_one)
    assert "secrets" not in verbs


@pytest.mark.parametrize(("provider", "verbs"), [("KubernetesMetricsServer", [["list"]]), ("Prometheus", [])])
@pytest.mark.parametrize("command", ["record", "explain"])
def test_the_role_lists_what_plugins_measure(command, provider, verbs, tmp_path):
    plugins = {"score": {"enabled": [{"name": "TargetLoadPacking"}]}}
    args = {"metricProvider": {"type": provider, "address": "http://prometheus"}}
    profile = {"plugins": plugins, "pluginConfig": [{"name": "TargetLoadPacking", "args": args}]}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (tmp_path / "config.json").write_text(json.dumps(kind | {"profiles": [profile]}))
    code, output = run(command, "--rbac", "--config", tmp_path / "config.json")
    assert code == 0
    rules = yaml.safe_load(output)["rules"]
    assert [rule["verbs"] for rule in rules if rule["apiGroups"] == ["metrics.k8s.io"]] == verbs


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["record"], "Missing argument 'FILE'"),
        (["replay"], "Missing argument 'FILE'"),
        (["replay", "/nope"], "error: open /nope: no such file or directory"),
        (["replay", "{file}", "--at", "soon"], "--at soon: want a time as"),
        (["replay", "{file}", "--at", "1970-01-01"], "the recording begins at"),
        (["replay", "{file}", "--check", "--rerun"], "exclude each other"),
        (["replay", "{file}", "--rerun", "--config", "x"], "give only one"),
        (["replay", "{file}", "--config", "/nope"], "open /nope: no such file"),
        (["explain", "--at", "2026-01-01"], "give --recording FILE"),
        (["explain", "--recording", "{file}", "-f", "x"], "--recording has a cluster of its own"),
        (["drain", "n", "--at", "2026-01-01"], "give --recording FILE"),
        (["fit", "--recording", "{file}", "--pod-groups"], "--recording has a cluster of its own"),
        (["rebalance", "--goal", "mend", "--apply", "--recording", "{file}"], "leave out -f and --recording"),
        (["explain", "--recording", "/nope"], "error: open /nope: no such file or directory"),
        (["shadow", "--recording", "{file}", "--context", "x"], "give one"),
        (["shadow", "--recording", "/nope"], "error: open /nope: no such file or directory"),
        (["shadow", "--for", "soon"], "--for soon: want a time such as"),
        (["shadow", "--metrics-file", "/nope/x", "--recording", "{file}"], "--metrics-file /nope/x: No such file"),
    ],
)
def test_invalid_usage(file, arguments, said):
    code, output = run(*(one.replace("{file}", str(file)) for one in arguments))
    assert code == 2
    assert said in output


def test_a_recording_without_decisions_cannot_be_checked(file, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(file.read_bytes())
    changed_line(other, 0, lambda header: header | {"decides": False})
    code, output = run("replay", other, "--check")
    assert code == 2
    assert "there is nothing to check" in output
