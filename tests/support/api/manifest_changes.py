"""Valid manifests of all kinds, and changes that make most of them invalid; see wrong_manifests.py."""

from typing import Any

from stowplan.testing import a_node, a_pod

GONE = object()
_RBAC, _STORAGE, _DEVICES = "rbac.authorization.k8s.io/v1", "storage.k8s.io/v1", "resource.k8s.io/v1"
_GROUPS = "scheduling.k8s.io/v1alpha2"


def _of(api_version, kind, spec=None, *, namespace="default", **fields):
    metadata = {"name": "wrong"} | ({"namespace": namespace} if namespace else {})
    fields |= {} if spec is None else {"spec": spec}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def _cluster_scoped(api_version, kind, spec=None, **fields):
    return _of(api_version, kind, spec, namespace="", **fields)


# --- pods and nodes

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MAIN = {"name": "main", "image": "app:1"}
_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
_SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
_CLAIMED = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_IMAGES = (
    "app",
    "app:latest",
    "registry:5000/app",
    "registry:5000/app:1",
    f"app@sha256:{'0' * 64}",
    f"app:latest@sha256:{'0' * 64}",
)
_SOURCES = (
    {},
    {"secret": {"secretName": "s"}},
    {"hostPath": {"path": "/x"}},
    {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": _CLAIMED}}},
)
_COST = "controller.kubernetes.io/pod-deletion-cost"
_HOST_PORT = {"containerPort": 80, "hostPort": 80}


def _resources(**lists):
    return [_MAIN | {"resources": lists}]


def _node_affinity(*requirements, field="matchExpressions"):
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{field: list(requirements)}]}}}


def _preferred_pod(weight, term=_TERM):
    preferred = [{"weight": weight, "podAffinityTerm": term}]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


# --- workloads

_TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [_MAIN]}}
_ONCE = _TEMPLATE | {"spec": {"containers": [_MAIN], "restartPolicy": "Never"}}


def _workload(kind):
    return _of("apps/v1", kind, {"selector": {"matchLabels": {"app": "web"}}, "template": _TEMPLATE})


POD = {"spec": {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}

_METRIC = {"name": "requests"}
_RESOURCE = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_PODS = {"type": "Pods", "pods": {"metric": _METRIC, "target": {"type": "AverageValue", "averageValue": "10"}}}
_OBJECT = {
    "type": "Object",
    "object": {"describedObject": TARGET, "metric": _METRIC, "target": {"type": "Value", "value": "10"}},
}
_EXTERNAL = {"type": "External", "external": {"metric": _METRIC, "target": {"type": "Value", "value": "10"}}}
_CONTAINER = {
    "type": "ContainerResource",
    "containerResource": {
        "name": "cpu",
        "container": "c",
        "target": {"type": "Utilization", "averageUtilization": 80},
    },
}
_RULES = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}


# --- other kinds

_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}
_REFERENCE = {"kind": "Pod", "namespace": "default", "name": "p"}
_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
_VERSION = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
_BAD_COLUMNS = {"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "a"}]}
_SCALE = "spec.versions.0.subresources.scale"
_SCHEMA = "spec.versions.0.schema.openAPIV3Schema"
_SECOND = {"name": "v2", "storage": False}
_STRING = {"type": "string"}


def _obj(**properties):
    return {"type": "object", "properties": properties}


_SELECTABLE = _obj(spec=_obj(color=_STRING, tags={"type": "array", "items": _STRING}))
_FIELDS = ([".spec.color"], [""], [".spec.size"], [".spec.tags[0]"], [".spec.tags"], [".spec.color"] * 2)
_CEL = "spec.devices.requests.0.exactly.selectors"

GOOD = {
    "pod": a_pod("web").requests(cpu="500m").obj(),
    "node": a_node("n1").obj(),
    "namespace": _cluster_scoped("v1", "Namespace"),
    "priority class": _cluster_scoped("scheduling.k8s.io/v1", "PriorityClass", value=1000),
    "budget": _of("policy/v1", "PodDisruptionBudget", {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}),
    "lease": _of("coordination.k8s.io/v1", "Lease", {"leaseDurationSeconds": 40}),
    "group": _of(_GROUPS, "PodGroup", {"schedulingPolicy": {"gang": {"minCount": 2}}}),
    "workload": _of(_GROUPS, "Workload", {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]}),
    "service": _of("v1", "Service", {"ports": [{"port": 80}], "selector": {"a": "b"}}),
    "config map": _of("v1", "ConfigMap", data={"a": "b"}),
    "secret": _of("v1", "Secret", data={"a": "Yg=="}),
    "role": _of(_RBAC, "Role", rules=[{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]),
    "role binding": _of(
        _RBAC, "RoleBinding", roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "User", "name": "jane"}]
    ),
    "event": _of(
        "events.k8s.io/v1",
        "Event",
        regarding=_REFERENCE,
        eventTime="2026-01-01T00:00:00.000000Z",
        reportingController="example.com/me",
        reportingInstance="me-1",
        action="Binding",
        reason="Scheduled",
        type="Normal",
    ),
    "core event": _of("v1", "Event", involvedObject=_REFERENCE, reason="R"),
    "definition": _cluster_scoped(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        {
            "group": "example.com",
            "names": {"plural": "queues", "kind": "Queue"},
            "scope": "Namespaced",
            "versions": [_VERSION],
        },
    )
    | {"metadata": {"name": "queues.example.com"}},
    "volume": _cluster_scoped(
        "v1",
        "PersistentVolume",
        {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}},
    ),
    "volume claim": _of(
        "v1",
        "PersistentVolumeClaim",
        _CLAIMED,
    ),
    "storage class": _cluster_scoped(_STORAGE, "StorageClass", provisioner="example.com/disks"),
    "CSI driver": _cluster_scoped(_STORAGE, "CSIDriver", {}),
    "CSI node": _cluster_scoped(_STORAGE, "CSINode", {"drivers": [{"name": "d.example.com", "nodeID": "1"}]}),
    "capacity": _of(_STORAGE, "CSIStorageCapacity", storageClassName="fast"),
    "attachment": _cluster_scoped(
        _STORAGE,
        "VolumeAttachment",
        {"attacher": "d.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "v"}},
    ),
    "device claim": _of(_DEVICES, "ResourceClaim", {"devices": {"requests": [_REQUEST]}}),
    "device claim template": _of(_DEVICES, "ResourceClaimTemplate", {"spec": {"devices": {"requests": [_REQUEST]}}}),
    "device class": _cluster_scoped(_DEVICES, "DeviceClass", {"selectors": [{"cel": {"expression": "true"}}]}),
    "slice": _cluster_scoped(
        _DEVICES,
        "ResourceSlice",
        {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "a"}, "v": {"version": "1.0.0-rc.1+b"}}}],
        },
    ),
    "taint rule": _cluster_scoped(
        "resource.k8s.io/v1beta2",
        "DeviceTaintRule",
        {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "a.b/c", "effect": "NoExecute"}},
    ),
    "deployment": _workload("Deployment"),
    "replica set": _workload("ReplicaSet"),
    "stateful set": _workload("StatefulSet"),
    "daemon set": _workload("DaemonSet"),
    "controller": _of("v1", "ReplicationController", {"template": _TEMPLATE}),
    "job": _of("batch/v1", "Job", {"template": _ONCE})
    | {"metadata": {"name": "wrong", "namespace": "default", "uid": "u1"}},
    "cron job": _of("batch/v1", "CronJob", {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": POD}}}),
    "autoscaler": _of(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {
            "scaleTargetRef": TARGET,
            "minReplicas": 2,
            "maxReplicas": 3,
            "metrics": [_RESOURCE],
            "behavior": {"scaleDown": _RULES},
        },
    ),
    "autoscaler of v1": _of(
        "autoscaling/v1", "HorizontalPodAutoscaler", {"scaleTargetRef": TARGET, "minReplicas": 2, "maxReplicas": 3}
    ),
    "quota": _of("v1", "ResourceQuota", {"hard": {"pods": "10", "requests.cpu": "4"}}),
}

_SCHEDULES = (
    *("", "foo", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7"),
    *("*/0 * * * *", "5-1 * * * *", "1-2-3 * * * *", "*/2/3 * * * *", "a * * * *", "* * * foo *", "-1 * * * *"),
    *(
        "@reboot",
        "@every",
        "@every 1x",
        "TZ=UTC 0 * * * *",
        "99999999999999999999 * * * *",
        "0 0 31 2-1 *",
        "1/-2 * * * *",
    ),
)

#: Of each kind of workload with a selector.
_SELECTED = [
    ("spec.selector", {}),
    ("spec.selector", GONE),
    ("spec.template.metadata.labels", {"app": "db"}),
    ("spec.template.spec.restartPolicy", "Never"),
    ("spec.replicas", -1),
]

_ROLES = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}
_NODE_INFO = {"kubeletVersion": "v1.36.0", "osImage": "Linux", "kernelVersion": "6.1", "architecture": "arm64"}
_NODE_INFO |= {"containerRuntimeVersion": "cri://1"}
_ADDRESSES = [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "ExternalIP", "address": "192.0.2.2"}]
_EXPRESSIONS = [
    {"key": "tier", "operator": "In", "values": ["b", "a"]},
    {"key": "old", "operator": "DoesNotExist"},
]

#: Manifest -> (path, value, …) of each change.
CHANGES: dict[str, list[tuple[Any, ...]]] = {
    "pod": [
        # Of a wrong type
        ("spec.containers", "x"),
        ("spec.containers", ["x"]),
        ("spec.containers", {}),
        ("spec.containers.0.env", [{"name": "A", "value": 1}]),
        ("spec.hostNetwork", "true"),
        ("spec.priority", "1"),
        ("spec.priority", True),
        ("spec.priority", 1.5),
        ("spec.priority", 1 << 31),
        ("spec.activeDeadlineSeconds", 1 << 63),
        ("metadata.labels", {"a": 1}),
        ("metadata.labels", "a"),
        ("spec", []),
        ("spec.overhead", 1),
        ("spec.overhead", {"cpu": "much"}),
        ("spec.overhead", {"cpu": {}}),
        ("metadata.creationTimestamp", "now"),
        ("metadata.creationTimestamp", 1),
        ("spec.containers.0.livenessProbe", {"httpGet": {"port": True}}),
        ("spec.containers.0.livenessProbe", {"httpGet": {"port": 1.5}}),
        ("spec.volumes", [{"name": "a", "secret": 1}]),
        ("spec.ephemeralContainers", [{"name": 1}]),
        ("status", {"startTime": 1}),
        # Of no sense
        ("spec.preemptionPolicy", "X"),
        ("spec.priority", 5),
        ("spec.priorityClassName", "no"),
        ("spec.tolerations", [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]),
        ("spec.tolerations", [{"operator": "Exists", "effect": "NoSchedule"}]),
        *(("spec.containers.0.image", image) for image in _IMAGES),
        ("spec.containers.0.command", ["sleep", "1"]),
        ("spec.containers.0.livenessProbe", {"httpGet": {"port": 80}}),
        ("spec.containers.0.resources", {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1500001u"}}),
        ("spec.containers.0.env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        ("spec.serviceAccount", "a"),
        ("spec.serviceAccountName", "a"),
        ("spec.resources", {"limits": {"cpu": "2", "memory": "2Gi"}}),
        *(("spec.volumes", [{"name": "v"} | source]) for source in _SOURCES),
        ("status", {"phase": "Running", "podIP": "10.0.0.1"}),
        ("spec.schedulingGates", [{"name": "a"}]),
        ("spec.schedulingGates", [{"name": "a"}], "spec.nodeName", "n"),
        (
            "spec.volumes",
            [
                {"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIMED}}},
                {"name": "b", "persistentVolumeClaim": {"claimName": "web-a"}},
            ],
        ),
        ("spec.hostNetwork", True, "spec.containers.0.ports", [{"containerPort": 80, "hostPort": 81}]),
        ("spec.hostNetwork", True, "spec.containers.0.ports", [{"containerPort": 80}]),
        *(("metadata.annotations", {_COST: cost}) for cost in ("1", "-10", "0", "01", "1.5", "3000000000")),
        ("spec.containers", []),
        ("spec.containers", [{"image": "a"}]),
        ("spec.containers", [{"name": "a"}]),
        ("spec.containers", [_MAIN | {"image": " app"}]),
        ("spec.containers", [_MAIN, _MAIN]),
        ("spec.initContainers", [_MAIN]),
        ("spec.containers", [_MAIN | {"imagePullPolicy": "Sometimes"}]),
        ("spec.containers", [_MAIN | {"ports": [{"containerPort": 70000}]}]),
        ("spec.containers", [_MAIN | {"ports": [{"name": "web"}]}]),
        ("spec.containers", [_MAIN | {"ports": [{"containerPort": 1, "protocol": "ICMP"}]}]),
        ("spec.containers", [_MAIN | {"ports": [_HOST_PORT]}, _MAIN | {"name": "b", "ports": [_HOST_PORT]}]),
        ("spec.initContainers", [{"name": "i", "image": "a", "livenessProbe": {"exec": {"command": ["x"]}}}]),
        (
            "spec.initContainers",
            [{"name": "i", "image": "a", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["x"]}}}],
        ),
        ("spec.containers", [_MAIN | {"readinessProbe": {}}]),
        ("spec.containers", [_MAIN | {"readinessProbe": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}}]),
        ("spec.containers", [_MAIN | {"env": [{"value": "x"}]}]),
        ("spec.containers", [_MAIN | {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.who"}}}]}]),
        (
            "spec.containers",
            [_MAIN | {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}]}],
        ),
        ("spec.containers", [_MAIN | {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}]),
        ("spec.ephemeralContainers", [{"name": "e", "image": "a"}]),
        ("spec.containers", _resources(requests={"cpu": "2"}, limits={"cpu": "1"})),
        ("spec.containers", _resources(requests={"cpu": "-1"})),
        ("spec.containers", _resources(requests={"example.com/gpu": "500m"}, limits={"example.com/gpu": "500m"})),
        ("spec.containers", _resources(requests={"example.com/gpu": "1"})),
        ("spec.containers", _resources(requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "2"})),
        ("spec.containers", _resources(requests={"gpus": "1"})),
        ("spec.containers", _resources(limits={"hugepages-2Mi": "4Mi"})),
        ("spec.containers", _resources(limits={"hugepages-2Mi": "3Mi", "memory": "1Gi"})),
        ("spec.containers", _resources(claims=[{"name": "gpu"}])),
        ("spec.resources", {"requests": {"cpu": "1m"}}),
        ("spec.resources", {"requests": {"ephemeral-storage": "1Gi"}}),
        ("spec.overhead", {"cpu": "-1"}),
        ("spec.nodeSelector", {"a b": "c"}),
        ("spec.affinity", {"nodeAffinity": {_REQUIRED: {}}}),
        ("spec.affinity", _node_affinity({"key": "a", "operator": "In"})),
        ("spec.affinity", _node_affinity({"key": "a", "operator": "Exists", "values": ["x"]})),
        ("spec.affinity", _node_affinity({"key": "a", "operator": "Gt", "values": ["1", "2"]})),
        ("spec.affinity", _node_affinity({"key": "a", "operator": "Like"})),
        (
            "spec.affinity",
            _node_affinity({"key": "metadata.uid", "operator": "In", "values": ["n"]}, field="matchFields"),
        ),
        (
            "spec.affinity",
            _node_affinity({"key": "metadata.name", "operator": "In", "values": ["n"]}, field="matchFields"),
        ),
        ("spec.affinity", _preferred_pod(0)),
        ("spec.affinity", _preferred_pod(100)),
        ("spec.affinity", _preferred_pod(101)),
        ("spec.affinity", _preferred_pod(1, _TERM | {"namespaces": ["A"]})),
        ("spec.affinity", _preferred_pod(1, {"topologyKey": "z", "matchLabelKeys": ["v"]})),
        ("spec.affinity", _preferred_pod(1, _TERM | {"matchLabelKeys": ["v"], "mismatchLabelKeys": ["v"]})),
        ("spec.tolerations", [{"operator": "Equal", "value": "x"}]),
        ("spec.tolerations", [{"operator": "Exists"}]),
        ("spec.tolerations", [{"key": "a", "operator": "Exists", "tolerationSeconds": 3}]),
        ("spec.tolerations", [{"key": "a", "operator": "Exists", "value": "x"}]),
        ("spec.tolerations", [{"key": "a", "operator": "Like"}]),
        ("spec.tolerations", [{"key": "a", "operator": "Exists", "effect": "Never"}]),
        ("spec.topologySpreadConstraints", [_SPREAD | {"maxSkew": 0}]),
        ("spec.topologySpreadConstraints", [_SPREAD | {"topologyKey": ""}]),
        ("spec.topologySpreadConstraints", [_SPREAD | {"whenUnsatisfiable": "Give up"}]),
        ("spec.topologySpreadConstraints", [_SPREAD, _SPREAD]),
        ("spec.topologySpreadConstraints", [_SPREAD | {"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]),
        ("spec.schedulingGates", [{"name": "a"}, {"name": "a"}]),
        ("spec.schedulingGroup", {}),
        ("spec.nodeName", "a b"),
        ("spec.restartPolicy", "Maybe"),
        ("spec.dnsPolicy", "X"),
        ("spec.dnsPolicy", "None"),
        ("spec.activeDeadlineSeconds", 0),
        ("spec.os", {"name": "plan9"}),
        ("spec.volumes", [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
        ("spec.volumes", [{"name": "v"}, {"name": "v"}]),
        ("spec.volumes", [{"name": "v", "hostPath": {"path": "/a/../b"}}]),
        ("spec.volumes", [{"name": "v", "persistentVolumeClaim": {}}]),
        ("spec.securityContext", {"runAsUser": -1}),
        ("spec.securityContext", {"sysctls": [{"name": "A"}]}),
        ("spec.hostUsers", False),
    ],
    "node": [
        ("metadata.labels", _ROLES, "spec.unschedulable", True),
        ("status.addresses", _ADDRESSES),
        ("status.nodeInfo", _NODE_INFO, "status.conditions", [{"type": "Ready", "status": "Unknown"}]),
        ("status", {"capacity": {"cpu": "4"}}),
        ("spec.taints", [{"key": "a"}]),
        ("spec.taints", [{"key": "a", "effect": "X"}]),
        ("status.capacity", {"example.com/gpu": "1500m"}),
        ("status.allocatable", {"cpu": "-1"}),
        ("spec.podCIDRs", ["10.0.0.0"]),
        ("status.declaredFeatures", ["B", "A"]),
    ],
    "namespace": [
        ("status", {"phase": "Terminating"}),
        ("spec.finalizers", ["mine"]),
    ],
    "priority class": [
        ("value", -5, "globalDefault", True, "preemptionPolicy", "Never"),
        ("value", 1000000001),
        ("metadata.name", "system-mine"),
        ("metadata.name", "system-node-critical"),
    ],
    "budget": [
        ("spec.minAvailable", GONE, "spec.maxUnavailable", "20%"),
        ("status", {"disruptionsAllowed": 7, "currentHealthy": 7, "desiredHealthy": 7, "expectedPods": 7}),
        ("spec.minAvailable", "101%"),
        ("spec.minAvailable", "few"),
    ],
    "lease": [
        ("spec.holderIdentity", "me"),
        ("spec.leaseDurationSeconds", 0),
    ],
    "group": [
        ("spec.schedulingPolicy", {"basic": {}}),
        ("spec.priority", 1_000_000_001),
        ("spec.schedulingPolicy", {}),
        ("spec.schedulingPolicy", {"basic": {}, "gang": {"minCount": 1}}),
        ("spec.schedulingPolicy.gang.minCount", 0),
        ("spec.schedulingConstraints", {"topology": [{"key": "a"}, {"key": "b"}]}),
    ],
    "workload": [
        ("spec.podGroupTemplates", []),
    ],
    "service": [
        ("spec.type", "NodePort", "spec.ports.0.nodePort", 30080, "spec.externalIPs", ["192.0.2.1", "192.0.2.2"]),
        ("spec.type", "LoadBalancer", "spec.ports.0.nodePort", 30080),
        ("spec", {"type": "ExternalName", "externalName": "db.example"}),
        ("spec.clusterIP", "None"),
        ("spec.ports", [{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]),
        ("status", {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
        ("spec.sessionAffinity", "ClientIP"),
        ("spec.ports", []),
        ("spec.ports", [{"port": 1}, {"port": 2}]),
        ("spec.type", "Magic"),
        ("spec", {"type": "ExternalName"}),
        ("metadata.name", "a.b"),
    ],
    "config map": [
        ("binaryData", {"b": "Mg==", "c": ""}),
        ("metadata.name", "Web"),
        ("metadata.name", "a" * 253),
        ("metadata.name", "a" * 254),
        ("metadata.generateName", "web-"),
        ("metadata.generateName", "Web-"),
        ("metadata.labels", {"a": "-"}),
        ("metadata.annotations", {"Example.com/A": "any thing"}),
        ("metadata.annotations", {"a": "x" * 262144}),
        ("metadata.annotations", {"a": "x" * 262143}),
        ("metadata.ownerReferences", [_OWNER]),
        ("metadata.ownerReferences", [_OWNER | {"uid": "", "apiVersion": "apps/"}]),
        ("metadata.finalizers", ["orphan", "foregroundDeletion"]),
        ("metadata.finalizers", ["a.b/c", "mine"]),
        ("binaryData", {"a": "Yg=="}),
        ("data", {"..": "x"}),
        ("data", {"a": "x" * 1048577}),
    ],
    "secret": [
        ("data.b", None),
        ("data.a", "no base64!"),
        ("data.a", 1),
        ("stringData", {"b": "c"}),
        ("type", "kubernetes.io/tls"),
    ],
    "role": [
        ("rules.0.verbs", []),
    ],
    "role binding": [
        ("subjects", [{"kind": kind, "name": f"{kind}-{i}"} for kind in ("Group", "User") for i in range(2)]),
        ("subjects", [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]),
        ("roleRef.kind", "Pod"),
        ("subjects.0.kind", "Cat"),
    ],
    "event": [
        ("eventTime", None),
        ("reason", ""),
        ("note", "x" * 1025),
    ],
    "core event": [
        ("involvedObject.namespace", "other"),
    ],
    "definition": [
        (_SCHEMA, _obj(spec=_obj(size={"type": "integer"}))),
        (_SCHEMA, {}),
        (_SCHEMA, {"type": "array", "items": _STRING}),
        (_SCHEMA, _obj(spec={})),
        (_SCHEMA, _obj(spec={"type": "array"})),
        (_SCHEMA, _obj(spec={"type": "array", "items": {}})),
        (_SCHEMA, _obj(spec={"type": "text"})),
        (_SCHEMA, _obj(spec={"type": "object", "properties": {"a": _STRING}, "additionalProperties": _STRING})),
        (_SCHEMA, _obj(spec=_obj(a=_STRING) | {"additionalProperties": True})),
        (_SCHEMA, _obj(spec={"x-kubernetes-int-or-string": True})),
        (_SCHEMA, _obj(spec={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]})),
        (_SCHEMA, _obj(spec={"type": "string", "pattern": "["})),
        (_SCHEMA, _obj(spec={"type": "integer", "default": "a"})),
        (_SCHEMA, _obj(spec=_obj(a=_STRING) | {"default": {"b": 1}})),
        (_SCHEMA, _obj(spec=_obj(a={"type": "string", "minLength": 2}) | {"default": {"a": "b"}})),
        (_SCHEMA, _obj(spec={"type": "string", "x-kubernetes-list-type": "set"})),
        (_SCHEMA, _obj(spec={"type": "array", "items": _obj(a=_STRING), "x-kubernetes-list-type": "map"})),
        (
            _SCHEMA,
            _obj(
                spec={
                    "type": "array",
                    "items": _obj(a=_STRING) | {"required": ["a"]},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["a", "b"],
                }
            ),
        ),
        (_SCHEMA, _obj(spec={"type": "object", "x-kubernetes-map-type": "loose"})),
        (
            _SCHEMA,
            _obj()
            | {"x-kubernetes-validations": [{"rule": " "}, {"rule": "true", "reason": "Why", "fieldPath": ".x"}]},
        ),
        *(
            (_SCHEMA, _SELECTABLE, "spec.versions.0.selectableFields", [{"jsonPath": path} for path in paths])
            for paths in _FIELDS
        ),
        ("spec.preserveUnknownFields", True),
        (
            "spec.versions",
            [
                _VERSION | {"schema": {"openAPIV3Schema": schema}} | more
                for schema, more in ((_obj(spec=_obj()), {}), (_obj(spec={}), _SECOND))
            ],
        ),
        ("spec.versions", [_VERSION | {"schema": {"openAPIV3Schema": _obj(spec={})}} | more for more in ({}, _SECOND)]),
        (_SCALE, {"specReplicasPath": "spec.n", "statusReplicasPath": ".spec.n"}),
        ("spec.versions.0", _VERSION | _BAD_COLUMNS),
        ("spec.versions", [_VERSION | _BAD_COLUMNS, _VERSION | _SECOND]),
        ("spec.versions", [_VERSION | _BAD_COLUMNS, _VERSION | _BAD_COLUMNS | _SECOND]),
        ("metadata.name", "other.example.com"),
        ("spec.versions.0.schema", {}),
        ("spec.scope", "World"),
    ],
    "volume": [
        (
            *("spec.accessModes", ["ReadOnlyMany", "ReadWriteOnce"], "spec.storageClassName", "fast"),
            *("spec.claimRef", {"namespace": "n", "name": "c"}, "spec.persistentVolumeReclaimPolicy", "Delete"),
        ),
        ("spec.volumeMode", "Block"),
        ("status", {"phase": "Bound"}),
        ("spec.accessModes", []),
        ("spec.capacity", {"storage": "0"}),
        ("spec.nfs", {"server": "s", "path": "/"}),
        ("spec.hostPath", None),
        ("spec.persistentVolumeReclaimPolicy", "Burn"),
        ("spec.nodeAffinity", {}),
    ],
    "volume claim": [
        ("spec.storageClassName", "slow", "spec.volumeName", "v", "spec.volumeAttributesClassName", "gold"),
        ("metadata.annotations", {"volume.beta.kubernetes.io/storage-class": "beta"}),
        ("status", {"phase": "Bound"}),
        ("spec.dataSource", {"kind": "PersistentVolumeClaim", "name": "other"}),
        ("spec.dataSourceRef", {"kind": "PersistentVolumeClaim", "name": "other"}),
        ("spec.accessModes", []),
        ("spec.accessModes", ["ReadWriteOncePod", "ReadWriteOnce"]),
        ("spec.resources", {}),
        ("spec.volumeMode", "Tape"),
    ],
    "storage class": [
        ("metadata.annotations", {"storageclass.kubernetes.io/is-default-class": "true"}),
        ("reclaimPolicy", "Retain", "volumeBindingMode", "WaitForFirstConsumer", "allowVolumeExpansion", True),
        ("provisioner", ""),
        ("volumeBindingMode", "Later"),
        ("allowedTopologies", [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}]}]),
    ],
    "CSI driver": [
        ("spec", {"attachRequired": False, "podInfoOnMount": True, "storageCapacity": True}),
        ("spec", {"tokenRequests": [{"audience": "a"}, {"audience": ""}], "requiresRepublish": True}),
        ("spec.volumeLifecycleModes", ["Persistent", "Ephemeral"]),
        ("spec.fsGroupPolicy", "X"),
    ],
    "CSI node": [
        ("spec.drivers.0.nodeID", ""),
        ("spec.drivers.0.allocatable", {"count": -1}),
    ],
    "capacity": [
        ("capacity", "-1Gi"),
    ],
    "attachment": [
        ("spec.source", {}),
    ],
    "device claim": [
        ("status", {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}),
        ("spec.devices.requests", [{"name": "a"}]),
        ("spec.devices.requests", [_REQUEST, _REQUEST]),
        ("spec.devices.requests", [_REQUEST] * 33),
        ("spec.devices.requests.0.exactly.count", -1),
        (_CEL, [{}]),
        (_CEL, [{"cel": {"expression": "device.driver"}}]),
        ("spec.devices.constraints", [{"requests": ["nic"], "matchAttribute": "example.com/numa"}]),
        ("spec.devices.constraints", [{"matchAttribute": "numa"}]),
    ],
    "device class": [
        ("spec.selectors.0.cel.expression", "device.nope == 1"),
    ],
    "taint rule": [
        ("spec.deviceSelector", {}),
        ("spec.taint.effect", "None"),
        ("spec.taint.effect", "PreferNoSchedule"),
        ("spec.taint.effect", ""),
        ("spec.deviceSelector.device", "A"),
    ],
    "slice": [
        ("spec.nodeName", None),
        ("spec.allNodes", True),
        ("spec.devices", [{"name": "a"}, {"name": "a"}]),
        ("spec.devices.0.attributes", {"v": {"version": "1"}}),
        ("spec.devices.0.attributes", {"v": {}}),
        ("spec.devices.0.taints", [{"key": "a", "effect": "Maybe"}]),
        ("spec.pool.resourceSliceCount", 0),
    ],
    "replica set": [
        *_SELECTED,
        ("status", {"replicas": 7}),
        ("spec.template.spec.containers.0.resources", {"limits": {"cpu": "1"}}),
    ],
    "deployment": [
        (
            *("spec.template.metadata.labels", {"app": "web", "tier": "a"}),
            *("spec.template.spec.containers", [_MAIN, {"name": "b", "image": "b:2"}]),
            *("spec.selector.matchExpressions", _EXPRESSIONS),
        ),
        ("spec.replicas", "3"),
        ("spec.replicas", 0),
        ("status", {"replicas": 7}),
        *_SELECTED,
        ("spec.strategy", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        ("spec.strategy", {"type": "Recreate", "rollingUpdate": {}}),
        ("spec.progressDeadlineSeconds", 0),
        ("spec.template.spec.containers", []),
    ],
    "daemon set": [
        ("spec.template.spec.nodeSelector", {"disk": "ssd"}),
        *_SELECTED[:4],
        ("spec.updateStrategy", {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
    ],
    "stateful set": [
        *_SELECTED,
        ("spec.podManagementPolicy", "Random"),
    ],
    "controller": [
        ("spec.template.spec.restartPolicy", "Never"),
        ("spec.selector", {"app": "db"}),
    ],
    "job": [
        ("status", {"active": 7}),
        ("spec.template.metadata", {"labels": {"app": "web"}}),
        ("spec.parallelism", 3),
        ("metadata.labels", {"a": "b"}),
        ("metadata.name", "j" * 62, "spec.completionMode", "Indexed", "spec.completions", 10),
        ("spec.template.spec.restartPolicy", "Always"),
        ("spec.completions", -1),
    ],
    "cron job": [
        ("status", {"lastScheduleTime": "2026-01-01T00:00:00Z"}),
        *(("spec.schedule", schedule) for schedule in _SCHEDULES),
        ("spec.timeZone", ""),
        ("spec.timeZone", "Mars/Olympus"),
        ("spec.timeZone", "../etc"),
        ("spec.timeZone", "Local"),
        ("spec.timeZone", "local"),
        ("spec.timeZone", "a-name-that-is-too-long"),
        ("spec.concurrencyPolicy", "Maybe"),
        ("spec.startingDeadlineSeconds", -1),
        ("spec.successfulJobsHistoryLimit", -1, "spec.failedJobsHistoryLimit", -2),
        ("metadata.name", "n" * 53),
        ("metadata.name", "Not_good"),
        ("spec.jobTemplate.spec.backoffLimit", -1),
        ("spec.jobTemplate.spec.selector", {"matchLabels": {"a": "b"}}),
        ("spec.jobTemplate.spec.manualSelector", True),
        ("spec.jobTemplate.spec.template.spec.restartPolicy", "Always"),
        ("spec.jobTemplate.spec.template.spec.containers", []),
        ("spec.jobTemplate.spec.template.spec.containers.0.image", ""),
        ("spec.jobTemplate", GONE),
    ],
    "autoscaler": [
        ("spec.minReplicas", 0),
        ("spec.minReplicas", -1),
        ("spec.minReplicas", 4),
        ("spec.maxReplicas", GONE),
        ("spec.maxReplicas", -1),
        ("spec.scaleTargetRef", {}),
        ("spec.scaleTargetRef", {"kind": "a/b", "name": "%", "apiVersion": "a/b/c"}),
        ("spec.scaleTargetRef.apiVersion", "v1"),
        ("spec.scaleTargetRef", {"kind": "ReplicationController", "name": "a", "apiVersion": "v1"}),
        ("spec.metrics.0", {}),
        ("spec.metrics.0.type", "Gut"),
        ("spec.metrics.0.type", "Pods"),
        ("spec.metrics.0", {**_RESOURCE, **_PODS}),
        ("spec.metrics.0", {**_PODS, "type": "Resource"}),
        ("spec.metrics.0.resource.name", ""),
        ("spec.metrics.0.resource.target", {}),
        ("spec.metrics.0.resource.target", {"type": "Ratio", "averageUtilization": 0}),
        ("spec.metrics.0.resource.target.averageValue", "1"),
        ("spec.metrics.0", _PODS, "spec.metrics.0.pods.metric.name", "a/b"),
        ("spec.metrics.0", _PODS, "spec.metrics.0.pods.target.averageValue", "0"),
        ("spec.metrics.0", _PODS, "spec.metrics.0.pods.target.averageValue", GONE),
        ("spec.metrics.0", _OBJECT, "spec.metrics.0.object.describedObject", {}),
        ("spec.metrics.0", _OBJECT, "spec.metrics.0.object.target.value", GONE),
        ("spec.metrics.0", _OBJECT, "spec.metrics.0.object.target.value", "-1"),
        ("spec.metrics.0", _EXTERNAL, "spec.metrics.0.external.target.averageValue", "1"),
        ("spec.metrics.0", _EXTERNAL, "spec.metrics.0.external.target.value", GONE),
        ("spec.metrics.0", _EXTERNAL, "spec.metrics.0.external.metric.name", ""),
        ("spec.metrics.0", _CONTAINER, "spec.metrics.0.containerResource.name", "gpu"),
        ("spec.metrics.0", _CONTAINER, "spec.metrics.0.containerResource.name", ""),
        ("spec.metrics.0", _CONTAINER, "spec.metrics.0.containerResource.container", "A"),
        ("spec.metrics.0", _CONTAINER, "spec.metrics.0.containerResource.container", ""),
        ("spec.behavior.scaleDown", {"policies": [{}]}),
        ("spec.behavior.scaleDown.policies.0", {"type": "Guess", "value": 0, "periodSeconds": 1801}),
        ("spec.behavior.scaleDown.policies.0.periodSeconds", 0),
        ("spec.behavior.scaleDown.selectPolicy", "Avg"),
        ("spec.behavior.scaleDown.stabilizationWindowSeconds", -1),
        ("spec.behavior.scaleUp", {"stabilizationWindowSeconds": 3601}),
        ("spec.behavior.scaleDown.tolerance", "-1"),
        ("metadata.name", "A"),
    ],
    "autoscaler of v1": [
        ("spec.minReplicas", 4),
        ("spec.maxReplicas", 0),
        ("spec.scaleTargetRef.kind", ""),
        ("spec.targetCPUUtilizationPercentage", 0),
    ],
    "quota": [
        ("spec.hard", {"gpu": "1"}),
        ("spec.hard", {"storage": "1"}),
        ("spec.hard", {"pods": "-1"}),
        ("spec.hard", {"pods": "1.5"}),
        ("spec.hard", {"requests.nvidia.com/gpu": "500m"}),
        ("spec.hard", {"a b": "1"}),
        ("spec.hard", {"count/deployments.apps": "1", "requests.hugepages-2Mi": "-2"}),
        ("spec.scopes", ["Never"]),
        ("spec.hard", {"services": "1"}, "spec.scopes", ["BestEffort"]),
        ("spec.scopes", ["BestEffort", "NotBestEffort"]),
        ("spec.scopes", ["Terminating", "NotTerminating"]),
        ("spec.scopeSelector", {"matchExpressions": [{"scopeName": "Never", "operator": "Like"}]}),
        ("spec.scopeSelector", {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}),
        ("spec.scopeSelector", {"matchExpressions": [{"scopeName": "Terminating", "operator": "In", "values": ["a"]}]}),
        (
            "spec.scopeSelector",
            {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}]},
        ),
        (
            "spec.scopeSelector",
            {
                "matchExpressions": [
                    {"scopeName": name, "operator": "Exists"} for name in ("BestEffort", "NotBestEffort")
                ]
            },
        ),
        ("metadata.name", "A"),
    ],
}
