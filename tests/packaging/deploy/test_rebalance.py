"""The CronJob that rebalances: its roles are those that the command prints, and its policy and options are valid."""

import pytest
import yaml
from click.testing import CliRunner

from stowplan.app.cli.rebalance import rebalance
from stowplan.ask.rebalance import read_policy
from support.processes.deployments import REBALANCE, named, objects, rights

RBAC, JOB = objects(REBALANCE / "rbac.yaml"), objects(REBALANCE / "cronjob.yaml")
POD = named(JOB, "CronJob", "stowplan-rebalance")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
POLICY = named(JOB, "ConfigMap", "stowplan-rebalance-policy")["data"]["policy.yaml"]


@pytest.fixture
def printed(tmp_path):
    """The roles for its policy."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    ran = CliRunner().invoke(rebalance, ["--apply", "--rbac", "--policy", str(policy)])
    assert ran.exit_code == 0
    return [one for one in yaml.safe_load_all(ran.stdout) if one]


def test_its_roles_are_the_printed_ones(printed):
    for role in printed:
        assert rights(role) == rights(named(RBAC, role["kind"], role["metadata"]["name"]))


def test_every_role_is_bound_to_its_account(printed):
    account = {"kind": "ServiceAccount", "name": POD["serviceAccountName"], "namespace": "kube-system"}
    for role in printed:
        binding = named(RBAC, f"{role['kind']}Binding", role["metadata"]["name"])
        assert binding["subjects"] == [account]
        assert binding["roleRef"]["kind"] == role["kind"]


def test_its_policy_is_valid():
    assert read_policy(yaml.safe_load(POLICY)).profiles


def test_its_options_exist():
    [container] = POD["containers"]
    known = {option for parameter in rebalance.params for option in parameter.opts}
    assert container["command"] == ["stowplan", "rebalance"]
    assert {argument.partition("=")[0] for argument in container["args"]} <= known
