"""Manifests as users write them, for tests that talk to an API server."""


def namespace(name):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def pod(name="web", *, labels=None, **spec):
    container = {"name": "c", "image": "nginx:1.27", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {"app": name}},
        "spec": {"containers": [container], **spec},
    }


def node(name, **spec):
    size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"capacity": size, "allocatable": size},
    }


def config_map(name="settings", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def workload(kind, name="web", *, replicas=2, image="nginx:1.27", **spec):
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    counted = {} if kind == "DaemonSet" else {"replicas": replicas}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **counted, **spec},
    }


def job(name="work", **spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def budget(name="web", *, labels=None, **spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels or {"app": name}}, **spec},
    }


def definition(group="example.com", plural="widgets", kind="Widget"):
    size = {"type": "integer", "minimum": 1, "default": 3}
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["color"],
                "properties": {"color": {"type": "string", "enum": ["red", "blue"]}, "size": size},
            },
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "shortNames": [plural[:2]]},
            "versions": [version],
        },
    }


def fifty():
    """Fifty objects of many kinds, as a platform team would apply them at once."""
    objects = [definition("fifty.example.com", "gadgets", "Gadget")]
    objects += [config_map(f"settings-{i}", key=str(i)) for i in range(15)]
    objects += [workload("Deployment", f"web-{i}") for i in range(8)]
    objects += [workload("StatefulSet", f"db-{i}", serviceName=f"db-{i}") for i in range(4)]
    objects += [workload("DaemonSet", f"agent-{i}") for i in range(2)]
    objects += [job(f"work-{i}") for i in range(3)]
    objects += [budget(f"web-{i}", minAvailable=1) for i in range(4)]
    objects += [_service(f"web-{i}") for i in range(5)]
    objects += [_secret(f"token-{i}") for i in range(3)]
    objects += [_claim(f"data-{i}") for i in range(3)]
    objects += [_role(), _role_binding()]
    assert len(objects) == 50
    return objects


def _service(name):
    spec = {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _secret(name):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"token": "s3cret"}}


def _claim(name):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "slow"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def _role():
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader"},
        "rules": rules,
    }


def _role_binding():
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
