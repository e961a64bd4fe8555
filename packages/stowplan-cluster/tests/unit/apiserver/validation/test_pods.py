"""Validation of pods, field by field, with upstream's messages."""

import pytest

from stowplan.testing import a_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MAIN = {"name": "main", "image": "app:1"}
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
HOST_PORT = {"containerPort": 80, "hostPort": 80}
C = "spec.containers.0"


def resources(**lists):
    return [MAIN | {"resources": lists}]


def node_affinity(*requirements, field="matchExpressions"):
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{field: list(requirements)}]}}}


def preferred_pod(weight, term=TERM):
    return {"podAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}}


NODE_TERM = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]"
POD_TERM = f"spec.affinity.podAffinity.{PREFERRED}[0]"

CONTAINERS = [
    ("none", "containers", [], ["spec.containers: Required value"]),
    ("no name", "containers", [{"image": "a"}], ["spec.containers[0].name: Required value"]),
    ("no image", "containers", [{"name": "a"}], ["spec.containers[0].image: Required value"]),
    (
        "image with blanks",
        "containers",
        [MAIN | {"image": " app"}],
        ['spec.containers[0].image: Invalid value: " app": must not have leading or trailing whitespace'],
    ),
    ("same name twice", "containers", [MAIN, MAIN], ['spec.containers[1].name: Duplicate value: "main"']),
    ("same name in init", "initContainers", [MAIN], ['spec.initContainers[0].name: Duplicate value: "main"']),
    (
        "pull policy",
        "containers",
        [MAIN | {"imagePullPolicy": "Sometimes"}],
        [
            'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": '
            'supported values: "Always", "IfNotPresent", "Never"'
        ],
    ),
    (
        "port out of range",
        "containers",
        [MAIN | {"ports": [{"containerPort": 70000}]}],
        ["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    ),
    (
        "no port number",
        "containers",
        [MAIN | {"ports": [{"name": "web"}]}],
        ["spec.containers[0].ports[0].containerPort: Required value"],
    ),
    (
        "protocol",
        "containers",
        [MAIN | {"ports": [{"containerPort": 1, "protocol": "ICMP"}]}],
        ['spec.containers[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"'],
    ),
    (
        "host port taken twice",
        "containers",
        [MAIN | {"ports": [HOST_PORT]}, MAIN | {"name": "b", "ports": [HOST_PORT]}],
        ['spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//80"'],
    ),
    (
        "probe of an init container",
        "initContainers",
        [{"name": "i", "image": "a", "livenessProbe": {"exec": {"command": ["x"]}}}],
        [
            "spec.initContainers[0].livenessProbe: Forbidden: "
            "may not be set for init containers without restartPolicy=Always"
        ],
    ),
    (
        "probe of a sidecar",
        "initContainers",
        [{"name": "i", "image": "a", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["x"]}}}],
        [],
    ),
    (
        "probe without action",
        "containers",
        [MAIN | {"readinessProbe": {}}],
        ["spec.containers[0].readinessProbe: Required value: must specify a handler type"],
    ),
    (
        "probe with two actions",
        "containers",
        [MAIN | {"readinessProbe": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}}],
        ["spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"],
    ),
    (
        "variable without name",
        "containers",
        [MAIN | {"env": [{"value": "x"}]}],
        ["spec.containers[0].env[0].name: Required value"],
    ),
    (
        "unknown field of the pod",
        "containers",
        [MAIN | {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.who"}}}]}],
        [
            'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.who": '
            "error converting fieldPath: field label not supported: spec.who"
        ],
    ),
    (
        "label of the pod",
        "containers",
        [MAIN | {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}]}],
        [],
    ),
    (
        "mount of nothing",
        "containers",
        [MAIN | {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
    ),
    (
        "ephemeral containers come later",
        "ephemeralContainers",
        [{"name": "e", "image": "a"}],
        ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
    ),
]

RESOURCES = [
    (
        "request above limit",
        "containers",
        resources(requests={"cpu": "2"}, limits={"cpu": "1"}),
        ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
    ),
    (
        "negative",
        "containers",
        resources(requests={"cpu": "-1"}),
        ['spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    (
        "half a device",
        "containers",
        resources(requests={"example.com/gpu": "500m"}, limits={"example.com/gpu": "500m"}),
        [
            'spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer',
            'spec.containers[0].resources.requests[example.com/gpu]: Invalid value: "500m": must be an integer',
        ],
    ),
    (
        "device without limit",
        "containers",
        resources(requests={"example.com/gpu": "1"}),
        ["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
    ),
    (
        "device overcommitted",
        "containers",
        resources(requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "2"}),
        ['spec.containers[0].resources.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2'],
    ),
    (
        "unknown resource",
        "containers",
        resources(requests={"gpus": "1"}),
        [
            'spec.containers[0].resources.requests[gpus]: Invalid value: "gpus": '
            "must be a standard resource type or fully qualified",
            'spec.containers[0].resources.requests[gpus]: Invalid value: "gpus": '
            "must be a standard resource for containers",
        ],
    ),
    (
        "huge pages alone",
        "containers",
        resources(limits={"hugepages-2Mi": "4Mi"}),
        ["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
    ),
    (
        "part of a huge page",
        "containers",
        resources(limits={"hugepages-2Mi": "3Mi", "memory": "1Gi"}),
        [
            'spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": '
            "3Mi is not positive integer multiple of hugepages-2Mi",
            'spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": '
            "3Mi is not positive integer multiple of hugepages-2Mi",
        ],
    ),
    (
        "claim that the pod lacks",
        "containers",
        resources(claims=[{"name": "gpu"}]),
        [
            'spec.containers[0].resources.claims[0]: Not found: "gpu": '
            "must be one of the names in pod.spec.resourceClaims which is empty"
        ],
    ),
    (
        "pod-level below its containers",
        "resources",
        {"requests": {"cpu": "1m"}},
        [
            'spec.resources.requests[cpu]: Invalid value: "1m": '
            "must be greater than or equal to aggregate container requests of 500m"
        ],
    ),
    (
        "pod-level of another resource",
        "resources",
        {"requests": {"ephemeral-storage": "1Gi"}},
        [
            'spec.resources.requests[ephemeral-storage]: Unsupported value: "ephemeral-storage": '
            'supported values: "cpu", "hugepages-", "memory"'
        ],
    ),
    (
        "negative overhead",
        "overhead",
        {"cpu": "-1"},
        ['spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
    ),
]

PLACEMENT = [
    (
        "node selector",
        "nodeSelector",
        {"a b": "c"},
        [
            "spec.nodeSelector: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' "
            "or '.', and must start and end with an alphanumeric character (e.g. "
            "'MyName',  or 'my.name',  or '123-abc', "
            "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    ),
    (
        "required terms, none",
        "affinity",
        {"nodeAffinity": {REQUIRED: {}}},
        [
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required "
            f"value: must have at least one node selector term"
        ],
    ),
    (
        "operator In",
        "affinity",
        node_affinity({"key": "a", "operator": "In"}),
        [
            f"{NODE_TERM}.matchExpressions[0].values: Required value: must be "
            f"specified when `operator` is 'In' or 'NotIn'"
        ],
    ),
    (
        "operator Exists",
        "affinity",
        node_affinity({"key": "a", "operator": "Exists", "values": ["x"]}),
        [
            f"{NODE_TERM}.matchExpressions[0].values: Forbidden: "
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        ],
    ),
    (
        "operator Gt",
        "affinity",
        node_affinity({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
        [
            f"{NODE_TERM}.matchExpressions[0].values: Required value: "
            "must be specified single value when `operator` is 'Lt' or 'Gt'"
        ],
    ),
    (
        "no operator",
        "affinity",
        node_affinity({"key": "a", "operator": "Like"}),
        [f'{NODE_TERM}.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator'],
    ),
    (
        "field selector",
        "affinity",
        node_affinity({"key": "metadata.uid", "operator": "In", "values": ["n"]}, field="matchFields"),
        [f'{NODE_TERM}.matchFields[0].key: Invalid value: "metadata.uid": not a valid field selector key'],
    ),
    (
        "field by name",
        "affinity",
        node_affinity({"key": "metadata.name", "operator": "In", "values": ["n"]}, field="matchFields"),
        [],
    ),
    ("weight 0", "affinity", preferred_pod(0), [f"{POD_TERM}.weight: Invalid value: 0: must be in the range 1-100"]),
    ("weight 100", "affinity", preferred_pod(100), []),
    (
        "weight 101",
        "affinity",
        preferred_pod(101),
        [f"{POD_TERM}.weight: Invalid value: 101: must be in the range 1-100"],
    ),
    ("bad namespace", "affinity", preferred_pod(1, TERM | {"namespaces": ["A"]}), None),
    (
        "match keys without selector",
        "affinity",
        preferred_pod(1, {"topologyKey": "z", "matchLabelKeys": ["v"]}),
        [f"{POD_TERM}.podAffinityTerm.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"],
    ),
    (
        "key in both",
        "affinity",
        preferred_pod(1, TERM | {"matchLabelKeys": ["v"], "mismatchLabelKeys": ["v"]}),
        [
            f'{POD_TERM}.podAffinityTerm.matchLabelKeys[0]: Invalid value: "v": '
            "exists in both matchLabelKeys and mismatchLabelKeys"
        ],
    ),
    (
        "toleration of nothing",
        "tolerations",
        [{"operator": "Equal", "value": "x"}],
        [
            'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, '
            'which means \\"match all values and all keys\\"'.replace('\\"', '"')
        ],
    ),
    ("toleration of all", "tolerations", [{"operator": "Exists"}], []),
    (
        "toleration for a time",
        "tolerations",
        [{"key": "a", "operator": "Exists", "tolerationSeconds": 3}],
        ["spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
    ),
    (
        "Exists with value",
        "tolerations",
        [{"key": "a", "operator": "Exists", "value": "x"}],
        ["spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'"],
    ),
    (
        "toleration operator",
        "tolerations",
        [{"key": "a", "operator": "Like"}],
        ['spec.tolerations[0].operator: Unsupported value: "Like": supported values: "Equal", "Exists"'],
    ),
    (
        "toleration effect",
        "tolerations",
        [{"key": "a", "operator": "Exists", "effect": "Never"}],
        [
            'spec.tolerations[0].effect: Unsupported value: "Never": '
            'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
        ],
    ),
    (
        "skew",
        "topologySpreadConstraints",
        [SPREAD | {"maxSkew": 0}],
        ["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"],
    ),
    (
        "topology key",
        "topologySpreadConstraints",
        [SPREAD | {"topologyKey": ""}],
        ["spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty"],
    ),
    (
        "action",
        "topologySpreadConstraints",
        [SPREAD | {"whenUnsatisfiable": "Give up"}],
        [
            'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Give up": '
            'supported values: "DoNotSchedule", "ScheduleAnyway"'
        ],
    ),
    (
        "repeated",
        "topologySpreadConstraints",
        [SPREAD, SPREAD],
        [
            "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: "
            'Duplicate value: "{zone, DoNotSchedule}"'
        ],
    ),
    (
        "min domains",
        "topologySpreadConstraints",
        [SPREAD | {"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}],
        [
            "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: "
            "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
        ],
    ),
    (
        "gate twice",
        "schedulingGates",
        [{"name": "a"}, {"name": "a"}],
        ['spec.schedulingGates[1]: Duplicate value: "a"'],
    ),
    (
        "group without name",
        "schedulingGroup",
        {},
        ["spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"],
    ),
    ("node name", "nodeName", "a b", None),
]

REST = [
    (
        "restart policy",
        "restartPolicy",
        "Maybe",
        ['spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"'],
    ),
    (
        "DNS policy",
        "dnsPolicy",
        "X",
        [
            'spec.dnsPolicy: Unsupported value: "X": '
            'supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"'
        ],
    ),
    (
        "DNS None",
        "dnsPolicy",
        "None",
        ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    ),
    (
        "deadline",
        "activeDeadlineSeconds",
        0,
        ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    ),
    (
        "preemption policy",
        "preemptionPolicy",
        "X",
        ['spec.preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never"'],
    ),
    ("system", "os", {"name": "plan9"}, ['spec.os: Unsupported value: "plan9": supported values: "linux", "windows"']),
    (
        "two sources",
        "volumes",
        [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}],
        ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
    ),
    ("volume twice", "volumes", [{"name": "v"}, {"name": "v"}], ['spec.volumes[1].name: Duplicate value: "v"']),
    (
        "steps back",
        "volumes",
        [{"name": "v", "hostPath": {"path": "/a/../b"}}],
        ["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
    ),
    (
        "no claim named",
        "volumes",
        [{"name": "v", "persistentVolumeClaim": {}}],
        ["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
    ),
    (
        "claim source",
        "resourceClaims",
        [{"name": "a"}],
        [
            'spec.resourceClaims[0]: Invalid value: {"name":"a"}: '
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        ],
    ),
    (
        "user",
        "securityContext",
        {"runAsUser": -1},
        ["spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"],
    ),
    ("sysctl", "securityContext", {"sysctls": [{"name": "A"}]}, None),
    ("user namespace", "hostUsers", False, []),
]


def table(*parts):
    return [pytest.param(*row[1:], id=row[0]) for part in parts for row in part]


@pytest.mark.parametrize(("field", "value", "expected"), table(CONTAINERS, RESOURCES, PLACEMENT, REST))
def test_messages(server, field, value, expected):
    pod = a_pod("web").requests(cpu="500m").obj()
    errors = server.refusals(pod, f"spec.{field}", value)
    if expected is None:
        assert len(errors) == 1
        assert f"spec.{field}".split("[")[0] in errors[0]
    else:
        assert errors == expected


def test_a_gated_pod_has_no_node(server):
    pod = a_pod("web").obj()
    errors = server.refusals(pod, "spec.schedulingGates", [{"name": "a"}], "spec.nodeName", "n")
    assert errors == ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"]


def test_claim_names_of_ephemeral_volumes_must_be_unique(server):
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volumes = [
        {"name": "a", "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "web-a"}},
    ]
    assert server.refusals(a_pod("web").obj(), "spec.volumes", volumes) == [
        'spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "web-a": '
        "must not reference a PVC that gets created for an ephemeral volume"
    ]


def test_host_ports_with_host_network(server):
    pod = a_pod("web").obj()
    ports = [{"containerPort": 80, "hostPort": 81}]
    assert server.refusals(pod, "spec.hostNetwork", True, "spec.containers.0.ports", ports) == [
        "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"
    ]
    assert server.refusals(pod, "spec.hostNetwork", True, "spec.containers.0.ports", [{"containerPort": 80}]) == []


@pytest.mark.parametrize(
    ("cost", "good"), [("1", True), ("-10", True), ("0", True), ("01", False), ("1.5", False), ("3000000000", False)]
)
def test_deletion_costs_must_be_numbers(server, cost, good):
    key = "controller.kubernetes.io/pod-deletion-cost"
    errors = server.create(a_pod("web").annotations({key: cost}).obj())
    assert errors == (
        [] if good else [f'metadata.annotations[{key}]: Invalid value: "{cost}": must be a 32bit integer']
    )
