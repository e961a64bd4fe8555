"""Command lines of kube-scheduler 1.16 to 1.22, and the configuration that results from their flags."""

import json

import pytest
import yaml

from stowplan import load_config
from stowplan.app.cli.kube_scheduler import main
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.live.scheduler_doubles import FakeOpener, FakeScheduler
from support.older_configurations import named, policy


@pytest.fixture
def written(tmp_path, capsys):
    """Runs the command with flags; returns the resulting configuration, or the error output."""
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(cluster={"server": "http://127.0.0.1:1"}))

    def run(*flags):
        target = tmp_path / "written.yaml"
        target.unlink(missing_ok=True)
        base = [f"--kubeconfig={kubeconfig}", "--secure-port=0", f"--write-config-to={target}"]
        code = main([*base, *flags], opener=FakeOpener(FakeScheduler))
        err = capsys.readouterr().err
        assert "Traceback" not in err
        return (load_config(target), err) if code == 0 else (None, err)

    return run


def scores(configuration):
    return {ref.name: ref.weight for ref in configuration.profiles[0].points["score"]}


def test_a_policy_file(written, tmp_path):
    file = tmp_path / "policy.json"
    document = policy(predicates=named("PodFitsResources"), priorities=named("MostRequestedPriority", weight=3))
    file.write_text(json.dumps(document))
    found, err = written(f"--policy-config-file={file}", "--scheduler-name=mine")
    expected = load_config(document).profiles[0]
    assert found.profiles[0].points == expected.points
    assert found.profiles[0].plugin_args("NodeResourcesFit") == expected.plugin_args("NodeResourcesFit")
    assert found.profiles[0].scheduler_name == "mine"
    assert "--policy-config-file is a flag of an older release; use --config" in err
    assert "The configuration is a Policy and was converted to v1" in err
    again, _ = written(f"--policy-config-file={file}", "--policy-configmap=x", "--use-legacy-policy-config=true")
    assert again.profiles[0].points == expected.points


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(None, "missing policy config file ", id="missing"),
        pytest.param(
            "kind: Pod\napiVersion: v1\n",
            'invalid policy: no kind \\"Pod\\" is registered for version \\"v1\\"',
            id="no policy",
        ),
        pytest.param(
            json.dumps(policy(predicates=named("Nope"))),
            'couldn\'t create scheduler from policy: predicate type not found for \\"Nope\\"',
            id="no predicate",
        ),
    ],
)
def test_invalid_policies(written, tmp_path, text, message):
    file = tmp_path / "policy.json"
    if text is not None:
        file.write_text(text)
    found, err = written(f"--policy-config-file={file}")
    assert found is None
    assert message in err


@pytest.mark.parametrize(
    ("provider", "strategy"), [("DefaultProvider", "LeastAllocated"), ("ClusterAutoscalerProvider", "MostAllocated")]
)
def test_a_provider(written, provider, strategy):
    found, err = written(f"--algorithm-provider={provider}", "--hard-pod-affinity-symmetric-weight=7")
    profile = found.profiles[0]
    assert scores(found)["LegacyNodePreferAvoidPods"] == 10000
    assert profile.plugin_args("NodeResourcesFit").scoring_strategy.type == strategy
    assert profile.plugin_args("InterPodAffinity").hard_pod_affinity_weight == 7
    assert f"The configuration is a --algorithm-provider={provider} and was converted" in err


def test_an_unknown_provider(written):
    _, err = written("--algorithm-provider=Mine")
    assert 'algorithm provider \\"Mine\\" is not registered: choose one of' in err


def test_a_name_and_a_weight_alone_keep_the_default_plugins(written):
    found, err = written("--scheduler-name=mine", "--hard-pod-affinity-symmetric-weight=0")
    assert found.profiles[0].scheduler_name == "mine"
    assert found.profiles[0].points == load_config().profiles[0].points
    assert found.profiles[0].plugin_args("InterPodAffinity").hard_pod_affinity_weight == 0
    assert "was converted" not in err
    _, err = written("--hard-pod-affinity-symmetric-weight=101")
    assert "hardPodAffinitySymmetricWeight: Invalid value: 101: not in valid range [0-100]" in err


def test_the_lock(written):
    found, _ = written("--lock-object-name=a", "--lock-object-namespace=b")
    assert (found.leader_election.resource_name, found.leader_election.resource_namespace) == ("a", "b")


def test_the_command_line_of_kubeadm_1_21(written):
    found, err = written("--leader-elect=true", "--bind-address=127.0.0.1", "--port=0")
    assert found.profiles == load_config().profiles
    assert "--port is a flag of an older release; leave it out: it has no effect" in err


def test_hints_go_to_the_log(written, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"plugins": {"filter": {"enabled": named("NodeResourceFit")}}}],
            }
        )
    )
    found, err = written(f"--config={file}")
    assert found is None
    hint, error = err.splitlines()
    assert error.endswith('FilterPlugin \\"NodeResourceFit\\" does not exist"')
    assert '"Hint: NodeResourceFit: did you mean NodeResourcesFit? Else, ' in hint
