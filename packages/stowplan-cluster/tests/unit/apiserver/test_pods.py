"""Operations on pods: binding, graceful deletion, eviction with a budget."""

import pytest

from stowplan.kube.api.api_errors import BadRequest, Conflict, InternalError, Invalid, NotFound, TooManyRequests
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.eviction import evict
from stowplan_cluster.apiserver.registry import Options
from support.api.embedded import Api, binding, pod


@pytest.fixture
def api():
    api = Api()
    labels = {"topology.kubernetes.io/zone": "a", "example.com/other": "x"}
    api.create("nodes", {"metadata": {"name": "n1", "labels": labels}})
    return api


class TestBinding:
    def test_gives_the_pod_its_node(self, api):
        api.create("pods", pod())
        obj = api.registry.bind("default", "p", binding(annotations={"x": "y"})).to_dict()
        assert obj["spec"]["nodeName"] == "n1"
        assert obj["metadata"]["annotations"] == {"x": "y"}
        assert obj["metadata"]["labels"] == {"topology.kubernetes.io/zone": "a"}, (
            "only topology labels are copied from the node"
        )
        (condition,) = (one for one in obj["status"]["conditions"] if one["type"] == "PodScheduled")
        assert (condition["status"], condition["lastTransitionTime"]) == ("True", "2027-01-15T08:00:00Z")

    def test_clears_the_nomination(self, api):
        api.create("pods", pod())
        api.patch("pods", "default", "p", {"status": {"nominatedNodeName": "n9"}}, subresource="status")
        assert "nominatedNodeName" not in api.registry.bind("default", "p", binding()).to_dict()["status"]

    def test_a_second_one_is_refused(self, api):
        api.create("pods", pod())
        api.registry.bind("default", "p", binding())
        message = 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
        with pytest.raises(Conflict, match=message):
            api.registry.bind("default", "p", binding(node="n2"))
        assert api.get("pods", "default", "p")["spec"]["nodeName"] == "n1"

    def test_a_gated_pod_cannot_be_bound(self, api):
        api.create("pods", pod(schedulingGates=[{"name": "example.com/wait"}]))
        with pytest.raises(Conflict, match=r"has non-empty \.spec\.schedulingGates"):
            api.registry.bind("default", "p", binding())

    def test_a_terminating_pod_cannot_be_bound(self, api):
        obj = pod()
        obj["metadata"]["finalizers"] = ["example.com/hold"]
        api.create("pods", obj)
        api.delete("pods", "default", "p")
        with pytest.raises(Conflict, match="is being deleted, cannot be assigned to a host"):
            api.registry.bind("default", "p", binding())

    def test_the_uid_must_be_that_of_the_pod(self, api):
        stored = api.create("pods", pod())
        with pytest.raises(Conflict, match="Precondition failed: UID in precondition: other"):
            api.registry.bind("default", "p", binding(uid="other"))
        api.registry.bind("default", "p", binding(uid=stored.uid))

    @pytest.mark.parametrize(
        ("sent", "error", "message"),
        [
            (binding(node=""), Invalid, "target.name: Required value"),
            ({"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "x"}}, Invalid, "target.kind: Unsupported"),
            (binding(name="q"), BadRequest, "name in URL does not match name in Binding object"),
        ],
    )
    def test_bad_bindings(self, api, sent, error, message):
        api.create("pods", pod())
        with pytest.raises(error, match=message):
            api.registry.bind("default", "p", sent)

    def test_binding_an_unknown_pod(self, api):
        with pytest.raises(NotFound, match='pods "p" not found'):
            api.registry.bind("default", "p", binding())

    def test_a_dry_run_binds_nothing(self, api):
        api.create("pods", pod())
        api.registry.bind("default", "p", binding(), options=Options(dry_run=True))
        assert "nodeName" not in api.get("pods", "default", "p")["spec"]


class TestDeletion:
    def delete(self, api, grace=None):
        return api.delete("pods", "default", "p", options=DeleteOptions(grace_period_seconds=grace))

    def test_an_unbound_pod_is_deleted_at_once(self, api):
        api.create("pods", pod())
        assert self.delete(api).finished

    def test_a_pod_on_a_node_waits_for_its_kubelet(self, api):
        api.create("pods", pod(nodeName="n1", terminationGracePeriodSeconds=20))
        assert not self.delete(api).finished
        metadata = api.get("pods", "default", "p")["metadata"]
        assert metadata["deletionTimestamp"] == "2027-01-15T08:00:20Z"
        assert metadata["deletionGracePeriodSeconds"] == 20
        assert self.delete(api, 0).finished

    def test_starting_the_deletion_increments_the_generation(self, api):
        api.create("pods", pod(nodeName="n1"))
        for _ in range(2):
            self.delete(api, 20)
            assert api.get("pods", "default", "p")["metadata"]["generation"] == 2

    def test_a_pod_with_a_finalizer_after_its_grace_period(self, api):
        obj = pod(nodeName="n1")
        obj["metadata"]["finalizers"] = ["example.com/hold"]
        api.create("pods", obj)
        assert not self.delete(api, 0).finished
        version = api.store.version
        assert not self.delete(api, 20).finished
        assert api.store.version == version
        assert api.get("pods", "default", "p")["metadata"]["deletionGracePeriodSeconds"] == 0

    def test_the_grace_period_can_only_be_shortened(self, api):
        api.create("pods", pod(nodeName="n1"))
        self.delete(api, 20)
        api.clock.advance(5)
        self.delete(api, 60)
        assert api.get("pods", "default", "p")["metadata"]["deletionGracePeriodSeconds"] == 20
        self.delete(api, 10)
        metadata = api.get("pods", "default", "p")["metadata"]
        assert metadata["deletionTimestamp"] == "2027-01-15T08:00:10Z", "ten seconds from the first deletion"
        api.clock.advance(30)
        self.delete(api, 5)
        metadata = api.get("pods", "default", "p")["metadata"]
        assert metadata["deletionTimestamp"] == "2027-01-15T08:00:35Z", "not in the past"
        assert metadata["deletionGracePeriodSeconds"] == 1

    def test_a_finished_pod_is_deleted_at_once(self, api):
        api.create("pods", pod(nodeName="n1"))
        api.patch("pods", "default", "p", {"status": {"phase": "Succeeded"}}, subresource="status")
        assert self.delete(api).finished

    @pytest.mark.parametrize("field", ["uid", "resource_version"])
    def test_preconditions(self, api, field):
        api.create("pods", pod())
        with pytest.raises(Conflict, match="does not match the"):
            api.delete("pods", "default", "p", options=DeleteOptions(**{field: "77"}))

    def test_an_unknown_propagation_is_refused(self, api):
        api.create("pods", pod())
        with pytest.raises(Invalid, match="propagationPolicy"):
            api.delete("pods", "default", "p", options=DeleteOptions(propagation="Sideways"))
        assert api.names("pods") == ["p"]


class TestEviction:
    @pytest.fixture
    def guarded(self, api):
        for name in ("p", "q"):
            api.create("pods", pod(name, labels={"app": "web"}, nodeName="n1"))
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            api.patch("pods", "default", name, {"status": ready}, subresource="status")
        self.budget(api, "web")
        return api

    def budget(self, api, name):
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        api.create("poddisruptionbudgets.policy", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        self.set_status(
            api, name, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1, expectedPods=2, observedGeneration=1
        )

    def set_status(self, api, name, **status):
        api.patch("poddisruptionbudgets.policy", "default", name, {"status": status}, subresource="status")

    def evict(self, api, name="p", **options):
        return evict(api.registry, "default", name, {"metadata": {"name": name}}, DeleteOptions(**options))

    def test_deletes_the_pod_and_decrements_the_budget(self, guarded):
        self.evict(guarded)
        obj = guarded.get("pods", "default", "p")
        assert obj["metadata"]["deletionTimestamp"]
        (condition,) = (one for one in obj["status"]["conditions"] if one["type"] == "DisruptionTarget")
        assert condition["reason"] == "EvictionByEvictionAPI"
        status = guarded.get("poddisruptionbudgets.policy", "default", "web")["status"]
        assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["p"])

    def test_is_refused_when_the_budget_is_exhausted(self, guarded):
        self.evict(guarded)
        with pytest.raises(TooManyRequests, match="would violate the pod's disruption budget") as raised:
            self.evict(guarded, "q")
        (cause,) = raised.value.status.details.causes
        assert cause.message == "The disruption budget web does not allow evicting pods currently"
        assert "deletionTimestamp" not in guarded.get("pods", "default", "q")["metadata"]

    def test_says_how_many_are_needed(self, guarded):
        self.set_status(guarded, "web", disruptionsAllowed=0, currentHealthy=1)
        with pytest.raises(TooManyRequests) as raised:
            self.evict(guarded)
        assert raised.value.status.details.causes[0].message == (
            "The disruption budget web needs 1 healthy pods and has 1 currently"
        )

    def test_is_refused_while_the_budget_is_out_of_date(self, guarded):
        guarded.patch("poddisruptionbudgets.policy", "default", "web", {"spec": {"minAvailable": 2}})
        with pytest.raises(TooManyRequests) as raised:
            self.evict(guarded)
        assert raised.value.retry_after_seconds == 10

    def test_two_budgets_are_refused(self, guarded):
        self.budget(guarded, "second")
        with pytest.raises(InternalError, match="more than one PodDisruptionBudget"):
            self.evict(guarded)

    def test_unready_pods_are_evicted_if_enough_are_healthy(self, guarded):
        unready = {"conditions": [{"type": "Ready", "status": "False"}]}
        guarded.patch("pods", "default", "p", {"status": unready}, subresource="status")
        self.set_status(guarded, "web", disruptionsAllowed=0, currentHealthy=1)
        self.evict(guarded)
        assert guarded.get("poddisruptionbudgets.policy", "default", "web")["status"].get("disruptedPods") is None

    @pytest.mark.parametrize(
        ("policy", "goes"), [("", False), ("IfHealthyBudget", False), ("AlwaysAllow", True)], ids=str
    )
    def test_unhealthy_pod_eviction_policy(self, guarded, policy, goes):
        unready = {"conditions": [{"type": "Ready", "status": "False"}]}
        guarded.patch("pods", "default", "p", {"status": unready}, subresource="status")
        if policy:
            spec = {"unhealthyPodEvictionPolicy": policy}
            guarded.patch("poddisruptionbudgets.policy", "default", "web", {"spec": spec})
        self.set_status(guarded, "web", disruptionsAllowed=0, currentHealthy=0, observedGeneration=2)
        if goes:
            self.evict(guarded)
        else:
            with pytest.raises(TooManyRequests, match="would violate"):
                self.evict(guarded)
        assert ("deletionTimestamp" in guarded.get("pods", "default", "p")["metadata"]) is goes

    def test_no_eviction_before_the_first_status_of_the_budget(self, guarded):
        unready = {"conditions": [{"type": "Ready", "status": "False"}]}
        guarded.patch("pods", "default", "p", {"status": unready}, subresource="status")
        self.set_status(guarded, "web", disruptionsAllowed=0, currentHealthy=0, desiredHealthy=0)
        with pytest.raises(TooManyRequests, match="would violate"):
            self.evict(guarded)

    @pytest.mark.parametrize("preconditions", [{"uid": "another"}, {"resourceVersion": "1"}], ids=str)
    def test_preconditions_are_checked(self, guarded, preconditions):
        before = guarded.store.version
        eviction = {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": preconditions}}
        with pytest.raises(Conflict, match="precondition"):
            evict(guarded.registry, "default", "p", eviction, DeleteOptions())
        assert guarded.store.version == before

    @pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
    def test_pods_that_are_not_running_ignore_the_budget(self, guarded, phase):
        guarded.create("pods", pod("r", labels={"app": "web"}))
        guarded.patch("pods", "default", "r", {"status": {"phase": phase}}, subresource="status")
        # Too few healthy pods, were these pods merely unready.
        self.set_status(guarded, "web", disruptionsAllowed=0, currentHealthy=0)
        self.evict(guarded, "r")
        assert "r" not in guarded.names("pods")

    def test_terminating_pods_ignore_the_budget(self, guarded):
        guarded.registry.delete(guarded.resource("pods"), "default", "p")
        self.set_status(guarded, "web", disruptionsAllowed=0, currentHealthy=0)
        self.evict(guarded)
        assert guarded.get("poddisruptionbudgets.policy", "default", "web")["status"].get("disruptedPods") is None

    def test_a_dry_run_evicts_nothing(self, guarded):
        before = guarded.store.version
        self.evict(guarded, dry_run=True)
        assert guarded.store.version == before
