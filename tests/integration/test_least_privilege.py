"""With exactly the rights in the specification no request is refused, and no other request is made.

The real server authorizes by RBAC and audits every request with the rule that allowed it. The tests make the program
do everything: follow the cluster, bind, preempt, write events, hold its lease both ways, and review its own clients.
"""

import json

import pytest

from support.api import manifests
from support.processes.beside_reference import AS_REFERENCE
from support.processes.deployments import rights
from support.processes.rbac_servers import ACCOUNT, IDENTITIES, SCRAPER, USER, real_guarded
from support.processes.scheduler_process import kube_scheduler
from support.processes.servers import assets, until

pytestmark = pytest.mark.skipif(assets() is None, reason="KUBEBUILDER_ASSETS names no folder with a kube-apiserver")

NODE = "least-node"
#: Discovery, which every authenticated user may do.
DISCOVERY = {("get", "/apis/events.k8s.io/v1"), ("get", "/apis/resource.k8s.io/v1")}
#: Whose rules may allow a request, besides those for discovery.
BINDINGS = {
    USER: {
        'ClusterRoleBinding "system:kube-scheduler"',
        'ClusterRoleBinding "system:volume-scheduler"',
        'RoleBinding "system::extension-apiserver-authentication-reader/kube-system"',
        'RoleBinding "system::leader-locking-kube-scheduler/kube-system"',
    },
    ACCOUNT: {
        'ClusterRoleBinding "stowplan"',
        'ClusterRoleBinding "stowplan-volumes"',
        'RoleBinding "stowplan-authentication-reader/kube-system"',
        'RoleBinding "stowplan-leader-election/kube-system"',
    },
}
ROLES = {
    USER: ["clusterrole/system:kube-scheduler", "clusterrole/system:volume-scheduler"],
    ACCOUNT: ["clusterrole/stowplan", "clusterrole/system:volume-scheduler", "role/stowplan-leader-election"],
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    coordinated = "--feature-gates=CoordinatedLeaderElection=true"
    with real_guarded(tmp_path_factory.mktemp("least"), assets(), coordinated) as guarded:
        create(guarded, {**manifests.node(NODE), "status": {}}, *map(priority, ("low", "high"), (1, 1000)))
        status = json.dumps({"status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}})
        guarded.server.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", "-p", status)
        guarded.server.kubectl("patch", "node", NODE, "--type=merge", "-p", '{"spec": {"taints": null}}')
        yield guarded


def priority(name, value):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def create(guarded, *objects):
    guarded.server.kubectl("create", "-f", "-", stdin=list(objects))


def a_pod(name, **spec):
    found = manifests.pod(name, **spec)
    found["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "600m"}}
    return found


@pytest.mark.parametrize(
    ("identity", "flags"),
    [
        pytest.param(USER, [], id="as the user"),
        pytest.param(ACCOUNT, [], id="as the account"),
        pytest.param(
            USER, ["--feature-gates=CoordinatedLeaderElection=true"], id="as the user, in a coordinated election"
        ),
    ],
)
def test_all_requests_are_allowed_and_expected(guarded, tmp_path, identity, flags):
    before = len(guarded.asked(identity))
    lease = f"--leader-elect-resource-name={IDENTITIES[identity]}"
    with kube_scheduler(tmp_path, guarded.kubeconfigs[identity], lease, AS_REFERENCE, *flags) as scheduler:
        scheduler.until("uccessfully acquired lease")
        do_everything(guarded, scheduler)
        assert scheduler.ask("/metrics", Authorization=f"Bearer {guarded.tokens[SCRAPER]}")[0] == 200
        assert scheduler.end() == 0
        assert "orbidden" not in scheduler.log.read_text()
    asked = guarded.asked(identity)[before:]
    assert [event for event in asked if event.get("responseStatus", {}).get("code") == 403] == []
    assert {allowed_by(event) for event in asked} <= {*BINDINGS[identity], DISCOVERING}
    wanted = {request_of(event) for event in asked if allowed_by(event) != DISCOVERING}
    assert {request for request in wanted if not is_among(request, allowed(guarded, identity))} == set()
    assert {request_of(event) for event in asked if allowed_by(event) == DISCOVERING} <= DISCOVERY
    check_that_all_was_done(wanted, coordinated=bool(flags))


def do_everything(guarded, scheduler):
    def pod(name):
        return guarded.server.json("get", "pod", name)

    def wait(ready):
        until(ready, scheduler.process, scheduler.log)

    create(guarded, a_pod("victim", priorityClassName="low"))
    wait(lambda: pod("victim")["spec"].get("nodeName") == NODE)
    create(guarded, a_pod("hopeless", nodeSelector={"nowhere": "true"}))
    wait(lambda: pod("hopeless")["status"].get("conditions"))
    create(guarded, a_pod("preemptor", priorityClassName="high"))
    wait(lambda: "deletionTimestamp" in pod("victim")["metadata"])
    wait(lambda: pod("preemptor")["status"].get("nominatedNodeName") == NODE)
    guarded.server.kubectl("delete", "pod", "victim", "--force", "--grace-period=0")
    wait(lambda: pod("preemptor")["spec"].get("nodeName") == NODE)
    wait(lambda: "Preempted" in check_events(guarded))
    guarded.server.kubectl("delete", "pod", "--all", "--force", "--grace-period=0")


def check_events(guarded):
    return {event["reason"] for event in guarded.server.json("get", "events")["items"]}


# --- the audit

DISCOVERING = 'ClusterRoleBinding "system:discovery"'


def allowed_by(event):
    return event["annotations"]["authorization.k8s.io/reason"].removeprefix("RBAC: allowed by ").partition(" of ")[0]


def request_of(event):
    """Verb and path; or verb, group, resource and name."""
    asked = event.get("objectRef")
    if asked is None:
        return event["verb"], event["requestURI"].partition("?")[0]
    resource = "/".join(filter(None, (asked.get("resource"), asked.get("subresource"))))
    return event["verb"], asked.get("apiGroup", ""), resource, asked.get("name", "")


def allowed(guarded, identity):
    """What the roles allow; reading the one ConfigMap is allowed by a built-in role."""
    roles = [guarded.server.json("-n", "kube-system", "get", role) for role in ROLES[identity]]
    name = "extension-apiserver-authentication"
    return rights(*roles) | {("", "configmaps", name, verb) for verb in ("get", "list", "watch")}


def is_among(request, found):
    verb, group, resource, name = request
    return bool({(group, resource, "", verb), (group, resource, name, verb)} & found)


def check_that_all_was_done(wanted, *, coordinated):
    """Otherwise the test would prove little."""
    done = {request[:3] for request in wanted}
    events = {("create", "events.k8s.io", "events"), ("create", "", "events")}
    assert done & events
    assert done >= {
        ("create", "", "pods/binding"),
        ("delete", "", "pods"),
        ("patch", "", "pods/status"),
        ("update", "coordination.k8s.io", "leases"),
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
        ("watch", "", "pods"),
        ("watch", "storage.k8s.io", "storageclasses"),
        ("get", "", "configmaps"),
    }
    assert (("create", "coordination.k8s.io", "leasecandidates") in done) == coordinated
