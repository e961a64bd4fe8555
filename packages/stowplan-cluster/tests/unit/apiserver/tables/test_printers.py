"""Table rows per kind, as in upstream's printers_test.

validation/test_recorded_manifests.py has those of new objects, which are recorded.
"""

import pytest

from stowplan.kube.api.api_errors import BadRequest
from stowplan_cluster.apiserver.resources import BUILT_IN, Resource
from stowplan_cluster.apiserver.tables import table_of

NOW = 1_000_000.0
CREATED = "1970-01-12T13:44:40Z"  # 2 minutes before NOW
META = {"name": "x", "creationTimestamp": CREATED}
TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]}}
SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["b", "a"]},
        {"key": "old", "operator": "DoesNotExist"},
    ],
}
SELECTED = "app=web,!old,tier in (a,b)"


def resource(qualified):
    return next(one for one in BUILT_IN if one.qualified == qualified)


def row(qualified, **obj):
    obj.setdefault("metadata", META)
    table = table_of(resource(qualified), [obj], now=NOW)
    (only,) = table["rows"]
    assert len(only["cells"]) == len(table["columnDefinitions"])
    return only["cells"]


def a_deployment(**status):
    return {"spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR}, "status": status}


def condition(type, status="True", reason=""):
    return {"type": type, "status": status, "reason": reason}


CASES = [
    (
        "deployments.apps",
        a_deployment(readyReplicas=2, updatedReplicas=1, availableReplicas=2),
        ["x", "2/3", 1, 2, "2m", "a,b", "a:1,b:2", SELECTED],
    ),
    (
        "deployments.apps",
        {"spec": {"replicas": 0, "selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}},
        ["x", "0/0", 0, 0, "2m", "", "", "<invalid>"],
    ),
    ("replicasets.apps", a_deployment(replicas=2, readyReplicas=1), ["x", 3, 2, 1, "2m", "a,b", "a:1,b:2", SELECTED]),
    (
        "replicationcontrollers",
        {"spec": {"replicas": 1, "selector": {"b": "2", "a": "1"}}},
        ["x", 1, 0, 0, "2m", "", "", "a=1,b=2"],
    ),
    ("statefulsets.apps", a_deployment(readyReplicas=3), ["x", "3/3", "2m", "a,b", "a:1,b:2"]),
    (
        "daemonsets.apps",
        {
            "spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}},
            "status": {
                "desiredNumberScheduled": 5,
                "currentNumberScheduled": 4,
                "numberReady": 3,
                "updatedNumberScheduled": 2,
                "numberAvailable": 1,
            },
        },
        ["x", 5, 4, 3, 2, 1, "disk=ssd", "2m", "", "", "<none>"],
    ),
    (
        "jobs.batch",
        {
            "spec": {"completions": 4, "template": TEMPLATE},
            "status": {"succeeded": 1, "startTime": "1970-01-12T13:45:40Z"},
        },
        ["x", "Running", "1/4", "60s", "2m", "a,b", "a:1,b:2", "<none>"],
    ),
    (
        "jobs.batch",
        {"spec": {"parallelism": 3}, "status": {"conditions": [condition("Suspended")]}},
        ["x", "Suspended", "0/1 of 3", "", "2m", "", "", "<none>"],
    ),
    (
        "jobs.batch",
        {
            "spec": {"parallelism": 1},
            "status": {
                "succeeded": 1,
                "startTime": CREATED,
                "completionTime": "1970-01-12T13:45:10Z",
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
            },
        },
        ["x", "Complete", "1/1", "30s", "2m", "", "", "<none>"],
    ),
    (
        "jobs.batch",
        {"metadata": {**META, "deletionTimestamp": CREATED}, "status": {"conditions": [condition("Suspended")]}},
        ["x", "Terminating", "0/1", "", "2m", "", "", "<none>"],
    ),
    (
        "controllerrevisions.apps",
        {
            "revision": 7,
            "metadata": {
                **META,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}],
            },
        },
        ["x", "daemonset.apps/d", 7, "2m"],
    ),
    ("controllerrevisions.apps", {"revision": 1}, ["x", "<none>", 1, "2m"]),
    ("serviceaccounts", {}, ["x", "2m"]),
    (
        "services",
        {
            "spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
            "status": {"loadBalancer": {"ingress": [{"ip": "3.3.3.3"}, {"hostname": "a.example"}]}},
        },
        ["x", "LoadBalancer", "<none>", "3.3.3.3,a.example,9.9.9.9", "<none>", "2m", "<none>"],
    ),
    (
        "persistentvolumes",
        {"metadata": {**META, "deletionTimestamp": CREATED}},
        ["x", "0", "", "", "Terminating", "", "", "<unset>", "", "2m", "<unset>"],
    ),
    (
        "persistentvolumeclaims",
        {
            "spec": {"volumeName": "pv", "storageClassName": "slow", "volumeAttributesClassName": "gold"},
            "status": {
                "phase": "Bound",
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOncePod"],
            },
        },
        ["x", "Bound", "pv", "1Gi", "RWX,RWOP", "slow", "gold", "2m", "<unset>"],
    ),
    (
        "persistentvolumeclaims",
        {
            "metadata": {**META, "annotations": {"volume.beta.kubernetes.io/storage-class": "beta"}},
            "spec": {"storageClassName": "s"},
            "status": {"phase": "Pending", "capacity": {"storage": "1"}},
        },
        ["x", "Pending", "", "", "", "beta", "<unset>", "2m", "<unset>"],
    ),
    (
        "volumeattachments.storage.k8s.io",
        {
            "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
            "status": {"attached": True},
        },
        ["x", "d", "pv", "n", True, "2m"],
    ),
    (
        "poddisruptionbudgets.policy",
        {"spec": {"minAvailable": "22%"}, "status": {"disruptionsAllowed": 5}},
        ["x", "22%", "N/A", 5, "2m"],
    ),
    (
        "podgroups.scheduling.k8s.io",
        {
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 2}},
                "podGroupTemplateRef": {"workload": {"workloadName": "w"}},
            },
            "status": {"conditions": [condition("PodGroupScheduled", "False")]},
        },
        ["x", "Gang", "w", "Unschedulable", "2m"],
    ),
    (
        "podgroups.scheduling.k8s.io",
        {
            "spec": {"schedulingPolicy": {"basic": {}}},
            "status": {
                "conditions": [condition("PodGroupScheduled"), condition("DisruptionTarget", reason="Preempted")]
            },
        },
        ["x", "Basic", "<none>", "Preempted", "2m"],
    ),
    (
        "podgroups.scheduling.k8s.io",
        {"status": {"conditions": [condition("PodGroupScheduled")]}},
        ["x", "Basic", "<none>", "Scheduled", "2m"],
    ),
    (
        "resourceclaims.resource.k8s.io",
        {"status": {"allocation": {}, "reservedFor": [{}]}},
        ["x", "allocated,reserved", "2m"],
    ),
    (
        "resourceclaims.resource.k8s.io",
        {"metadata": {**META, "deletionTimestamp": CREATED}, "status": {"allocation": {}}},
        ["x", "deleted,allocated", "2m"],
    ),
    ("resourceclaims.resource.k8s.io", {"metadata": {**META, "deletionTimestamp": CREATED}}, ["x", "deleted", "2m"]),
    (
        "clusterrolebindings.rbac.authorization.k8s.io",
        {"roleRef": {"kind": "ClusterRole", "name": "r"}},
        ["x", "ClusterRole/r", "2m", "", "", ""],
    ),
    ("clusterroles.rbac.authorization.k8s.io", {}, ["x", CREATED]),
]


@pytest.mark.parametrize(
    ("kind", "obj", "cells"), CASES, ids=[f"{index}-{case[0]}" for index, case in enumerate(CASES)]
)
def test_cells(kind, obj, cells):
    assert row(kind, **obj) == cells


CORE_EVENT = {
    "apiVersion": "v1",
    "type": "Warning",
    "reason": "FailedScheduling",
    "message": " no room \n",
    "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec.containers{a}"},
    "source": {"component": "scheduler", "host": "n1"},
    "firstTimestamp": "1970-01-12T13:36:40Z",
    "lastTimestamp": "1970-01-12T13:46:30Z",
    "count": 4,
}
NEW_EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "type": "Normal",
    "reason": "Scheduled",
    "note": "done",
    "regarding": {"kind": "Pod"},
    "reportingController": "default-scheduler",
    "eventTime": "1970-01-12T13:46:20.000000Z",
}
SERIES = {"series": {"count": 9, "lastObservedTime": "1970-01-12T13:46:35.000000Z"}}
CORE_CELLS = [
    "10s",
    "Warning",
    "FailedScheduling",
    "pod/web",
    "spec.containers{a}",
    "scheduler, n1",
    "no room",
    "10m",
    4,
    "x",
]


@pytest.mark.parametrize(
    ("kind", "event", "cells"),
    [
        pytest.param("events", CORE_EVENT, CORE_CELLS, id="core"),
        pytest.param(
            "events.events.k8s.io",
            NEW_EVENT,
            ["20s", "Normal", "Scheduled", "pod", "", "default-scheduler", "done", "20s", 1, "x"],
            id="new",
        ),
        pytest.param(
            "events.events.k8s.io",
            NEW_EVENT | SERIES,
            ["5s", "Normal", "Scheduled", "pod", "", "default-scheduler", "done", "20s", 9, "x"],
            id="series",
        ),
    ],
)
def test_events(kind, event, cells):
    assert row(kind, **event) == cells


def test_every_listable_kind_prints_a_minimal_object():
    for one in BUILT_IN:
        if "list" in one.verbs:
            obj = {"apiVersion": one.api_version, "kind": one.kind, "metadata": {"name": "x"}}
            table = table_of(one, [obj], now=NOW)
            assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])


def test_table_metadata():
    obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {**META, "labels": {"a": "b"}}, "data": {"a": "MQ=="}}
    table = table_of(resource("secrets"), [obj], now=NOW, version="7", continue_="token", remaining=3)
    assert table["kind"] == "Table"
    assert table["apiVersion"] == "meta.k8s.io/v1"
    assert table["metadata"] == {"resourceVersion": "7", "continue": "token", "remainingItemCount": 3}
    assert table["columnDefinitions"][0] | {"description": ""} == {
        "name": "Name",
        "type": "string",
        "format": "name",
        "priority": 0,
        "description": "",
    }
    assert all(column["description"] for column in table["columnDefinitions"])
    assert table["rows"][0]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


@pytest.mark.parametrize(("include", "included"), [("None", None), ("Object", {"metadata": META})])
def test_include_object(include, included):
    (row,) = table_of(resource("secrets"), [{"metadata": META}], now=NOW, include_object=include)["rows"]
    assert row["object"] == included


def test_unknown_include_object():
    with pytest.raises(BadRequest, match='unrecognized includeObject value: "Some"'):
        table_of(resource("secrets"), [], now=NOW, include_object="Some")


def test_later_tables_of_a_watch_omit_the_columns():
    table = table_of(resource("secrets"), [{"metadata": META}], now=NOW, headers=False)
    assert table["columnDefinitions"] is None
    assert table["rows"][0]["cells"] == ["x", "", 0, "2m"]


def column(name, type, path, **rest):
    return {"name": name, "type": type, "jsonPath": path, **rest}


def custom(*columns):
    return Resource(group="example.com", plural="things", kind="Thing", custom=True, printer_columns=columns)


THING = {
    "metadata": META,
    "spec": {
        "size": 3,
        "ratio": 0.5,
        "big": 1e21,
        "on": True,
        "name": "n",
        "parts": [{"b": 1, "a": "<"}],
        "none": None,
    },
    "status": {"since": "1970-01-12T13:41:40Z", "until": "soon", "conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("type", "path", "cell"),
    [
        ("string", ".spec.name", "n"),
        ("string", ".spec.size", "3"),
        ("string", ".spec.ratio", "0.5"),
        ("string", ".spec.big", "1e+21"),
        ("string", ".spec.on", "true"),
        ("string", ".spec.parts", '[{"a":"\\u003c","b":1}]'),
        ("string", ".spec.none", "<no value>"),
        ("string", ".spec.missing", None),
        ("string", ".spec.parts[5].a", None),
        ("integer", ".spec.size", 3),
        ("integer", ".spec.ratio", 0),
        ("integer", ".spec.name", None),
        ("integer", ".spec.on", None),
        ("number", ".spec.size", 3.0),
        ("number", ".spec.ratio", 0.5),
        ("boolean", ".spec.on", True),
        ("boolean", ".spec.size", None),
        ("date", ".status.since", "5m"),
        ("date", ".status.until", "<invalid>"),
        ("date", ".spec.size", None),
        ("string", '.status.conditions[?(@.type=="Ready")].status', "True"),
    ],
)
def test_custom_columns(type, path, cell):
    (row,) = table_of(custom(column("C", type, path)), [THING], now=NOW)["rows"]
    assert row["cells"] == ["x", cell]


def test_custom_resources_without_columns_have_their_age():
    table = table_of(custom(), [THING], now=NOW)
    assert [(one["name"], one["type"]) for one in table["columnDefinitions"]] == [("Name", "string"), ("Age", "date")]
    assert table["rows"][0]["cells"] == ["x", "2m"]


def test_headers_of_custom_columns():
    printed = custom(
        column("Size", "integer", ".spec.size", priority=1, format="int32", description="How big."),
        column("N", "string", ".n"),
    )
    _, size, plain = table_of(printed, [], now=NOW)["columnDefinitions"]
    assert size == {"name": "Size", "type": "integer", "format": "int32", "description": "How big.", "priority": 1}
    assert plain["description"] == "Custom resource definition column (in JSONPath format): .n"


def test_a_column_with_an_invalid_path_ends_the_row():
    table = table_of(
        custom(column("A", "string", ".a"), column("B", "string", ".b["), column("C", "string", ".c")), [THING], now=NOW
    )
    assert [one["name"] for one in table["columnDefinitions"]] == ["Name", "A"]
    assert table["rows"][0]["cells"] == ["x", None]
