"""Which groups and quotas a change concerns, and what is written for them."""

import subprocess
import sys

import pytest

from stowplan.controllers import DONE, Change, Objects, convert, run_command
from stowplan.plugins.objects import Pod
from stowplan.testing import a_pod
from stowplan_scheduler_plugins.controller import ElasticQuotaController, PodGroupController
from stowplan_scheduler_plugins.kinds import LABEL, ElasticQuota, PodGroup


def custom(kind, name, namespace="default", **content):
    metadata = {"name": name, "namespace": namespace, "resourceVersion": "5"}
    return convert({"metadata": metadata, **content}, kind)


def member(name, group="g", phase="Running", namespace="default"):
    return convert(a_pod(name, namespace).labels({LABEL: group}).phase(phase).obj(), Pod)


def objects(*listed):
    store = Objects()
    for one in listed:
        store.put(one)
    return store


def test_a_pod_concerns_the_group_that_it_names_or_named():
    keys_of = PodGroupController().keys_of
    assert list(keys_of(Change(None, member("p")))) == ["default/g"]
    assert list(keys_of(Change(member("p"), member("p", "h")))) == ["default/g", "default/h"]
    assert list(keys_of(Change(convert(a_pod("p").obj(), Pod), None))) == []
    assert list(keys_of(Change(None, custom(PodGroup, "g")))) == ["default/g"]


def test_the_status_of_a_group_is_patched_until_it_is_right():
    group = custom(PodGroup, "g", spec={"minMember": 1}, status={"phase": "Scheduling"})
    found = PodGroupController().reconcile("default/g", objects(group, member("p")), 0.0)
    (patch,) = found.writes
    assert (patch.namespace, patch.name, patch.subresource) == ("default", "g", "status")
    assert patch.body == {
        "metadata": {"resourceVersion": "5"},
        "status": {"phase": "Running", "running": 1, "succeeded": 0, "failed": 0},
    }
    right = custom(
        PodGroup, "g", spec={"minMember": 1}, status={"phase": "Running", "running": 1, "succeeded": 0, "failed": 0}
    )
    assert not PodGroupController().reconcile("default/g", objects(right, member("p")), 0.0).writes


@pytest.mark.parametrize("wanted", [0, -1, 2**31 - 1, 10**30])
def test_absurd_numbers_of_members(wanted):
    group = custom(PodGroup, "g", spec={"minMember": wanted}, status={"phase": "Pending"})
    found = PodGroupController().reconcile("default/g", objects(group, member("p")), 0.0)
    assert bool(found.writes) == (wanted <= 1)


def test_what_is_gone_has_no_status():
    assert PodGroupController().reconcile("default/g", objects(), 0.0) == DONE
    assert ElasticQuotaController().reconcile(("default", True), objects(), 0.0) == DONE


def notes(*quotas, has_changed=True):
    found = ElasticQuotaController().reconcile(("default", has_changed), objects(*quotas), 0.0)
    return [event.message for event in found.events if event.type != "Normal"]


def test_a_minimum_above_the_maximum_is_reported():
    quota = custom(ElasticQuota, "q", spec={"min": {"cpu": "4", "memory": "1Gi"}, "max": {"cpu": "2"}})
    assert notes(quota) == ["min 4 of cpu is more than max 2: no more than max can be used"]


def test_quotas_that_overlap_are_reported():
    quotas = [custom(ElasticQuota, name, spec={"max": {"cpu": "2"}}) for name in ("b", "a", "c")]
    assert notes(*quotas) == ["only a, the oldest, counts in this namespace, not b, c"]
    # With the status of the one that counts as it is, too, but not whenever a pod changes.
    counting = custom(ElasticQuota, "a", spec={"max": {"cpu": "2"}}, status={"used": {"cpu": "0"}})
    assert notes(quotas[0], counting) == ["only a, the oldest, counts in this namespace, not b"]
    assert notes(quotas[0], counting, has_changed=False) == []


def test_a_change_of_a_quota_is_told_from_one_of_a_pod():
    keys_of = ElasticQuotaController().keys_of
    assert keys_of(Change(None, custom(ElasticQuota, "q"))) == {("default", True)}
    assert keys_of(Change(member("p"), None)) == {("default", False)}


def test_the_command_says_what_is_wrong_with_its_flags(capsys):
    def run(*arguments):
        return run_command("controller", [PodGroupController()], lease=("ns", "name"), arguments=arguments)

    assert run("--metricsAddr", "8080") == 1
    assert run("--worker", "2") == 1
    assert run("--workers=0") == 1
    assert run("more") == 1
    assert capsys.readouterr().err.splitlines() == [
        "Error: --metricsAddr: want host:port or :port, or 0 for none, got '8080'",
        "hint: did you mean --workers?",
        "Error: unknown flag: --worker",
        "Error: --workers must be at least 1",
        "Error: controller takes no arguments, got more",
    ]
    assert run("--help") == 0
    assert "--enableLeaderElection" in capsys.readouterr().out


def test_its_process_does_without_what_decisions_need():
    modules = "stowplan_scheduler_plugins.controller, stowplan.controllers.command, stowplan.controllers.runner"
    code = f"import sys, {modules}; print(*({{'numpy', 'stowplan.scheduler.cluster.state'}} & sys.modules.keys()))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout, told.stderr) == (0, "\n", "")
