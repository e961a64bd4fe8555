"""Manifests, valid and invalid (manifest_changes.py), and what a real API server makes of them, which is recorded.

`python -m support.api.wrong_manifests KUBECONFIG` records a server's errors and objects again. It needs the feature
gates `GATES`.
"""

import copy
import json
import re
import sys
import urllib.error
from contextlib import closing
from pathlib import Path

from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from support.api.manifest_changes import CHANGES, GONE, GOOD
from support.processes.api_client import Client

RECORDED = Path(__file__).parent / "wrong_manifests.json"
STORED = Path(__file__).parent / "stored_manifests.json"
GATES = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true,"
GATES += "GangScheduling=true,DRADeviceTaints=true,DRADeviceTaintRules=true"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_CATALOGUE = Catalogue(BUILT_IN)


def _changed(manifest, changes):
    made = copy.deepcopy(manifest)
    for path, value in zip(changes[::2], changes[1::2], strict=True):
        *parents, last = path.split(".")
        holder = made
        for step in parents:
            holder = holder[int(step)] if isinstance(holder, list) else holder.setdefault(step, {})
        if value is GONE:
            holder.pop(last, None)
        else:
            holder[int(last) if isinstance(holder, list) else last] = copy.deepcopy(value)
    return made


def _title(name, changes):
    told = (f"{p}={'absent' if v is GONE else json.dumps(v)}" for p, v in zip(changes[::2], changes[1::2], strict=True))
    return f"{name}: {', '.join(text if len(text) < 400 else f'{text[:40]}… of {len(text)}' for text in told)}"


def manifests():
    """Title -> manifest, valid ones included."""
    for name, good in GOOD.items():
        yield name, good
        for changes in CHANGES.get(name, ()):
            yield _title(name, changes), _changed(good, changes)


def answers(kubeconfig):
    """A server's errors, and the objects that it would store if they are not very long, both by title."""
    client = Client(kubeconfig)
    made = {title: _answer_to(client, manifest) for title, manifest in manifests()}
    refused = {title: [] if isinstance(answer, dict) else answer for title, answer in made.items()}
    return refused, {
        title: comparable(answer) for title, answer in made.items() if isinstance(answer, dict) and "…" not in title
    }


def _answer_to(client, manifest):
    """The object; or the errors: `field: message`, sorted and without duplicates, as maps have no order in Go."""
    resource = _CATALOGUE.of_kind(manifest["apiVersion"], manifest["kind"])
    namespace = "namespaces/default/" if resource.namespaced else ""
    try:
        return client(f"{resource.path}/{namespace}{resource.plural}?dryRun=All", manifest)
    except urllib.error.HTTPError as error:
        with closing(error):
            status = json.loads(error.read())
        causes = (status.get("details") or {}).get("causes")
        if causes is None:
            return [status["message"]]
        return sorted({f"{cause['field']}: {cause['message']}" for cause in causes})


def comparable(obj):
    """Without what differs between servers: UIDs, times, addresses, and nulls that only Go writes."""
    metadata = obj["metadata"]
    text = json.dumps(obj | {"metadata": {key: metadata[key] for key in ("labels", "annotations") if key in metadata}})
    made = _without_nulls(json.loads(_TIME.sub("TIME", text.replace(metadata["uid"], "UID"))))
    if obj["kind"] == "Service":
        del made["spec"]["clusterIP"], made["spec"]["clusterIPs"]
    if obj["kind"] in ("HorizontalPodAutoscaler", "CustomResourceDefinition"):
        # Controllers write it.
        made.pop("status", None)
    return made


def _without_nulls(value):
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return list(map(_without_nulls, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    refused, stored = answers(Path(sys.argv[1]))
    RECORDED.write_text(json.dumps(refused, indent=1, ensure_ascii=False) + "\n")
    lines = (f"{json.dumps(title)}: {json.dumps(obj, sort_keys=True)}" for title, obj in stored.items())
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
