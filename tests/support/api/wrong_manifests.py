"""Manifests, valid and invalid (manifest_changes.py); the errors of a real API server are recorded.

`python -m support.api.wrong_manifests KUBECONFIG` prints a server's errors, to record them again. The server needs the
feature gates GenericWorkload, TopologyAwareWorkloadScheduling, DRADeviceTaints and DRADeviceTaintRules.
"""

import copy
import json
import sys
import urllib.error
from contextlib import closing
from pathlib import Path

from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from support.api.manifest_changes import CHANGES, GONE, GOOD
from support.processes.api_client import Client

RECORDED = Path(__file__).parent / "wrong_manifests.json"
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


def refusals(kubeconfig):
    """A server's errors for each manifest: `field: message`, sorted and without duplicates, as maps have no order in
    Go."""
    client = Client(kubeconfig)
    return {title: _refusals_of(client, manifest) for title, manifest in manifests()}


def _refusals_of(client, manifest):
    resource = _CATALOGUE.of_kind(manifest["apiVersion"], manifest["kind"])
    try:
        namespace = "namespaces/default/" if resource.namespaced else ""
        client(f"{resource.path}/{namespace}{resource.plural}?dryRun=All", manifest)
    except urllib.error.HTTPError as error:
        with closing(error):
            status = json.loads(error.read())
        causes = (status.get("details") or {}).get("causes")
        if causes is None:
            return [status["message"]]
        return sorted({f"{cause['field']}: {cause['message']}" for cause in causes})
    return []


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(refusals(Path(sys.argv[1])), indent=1, ensure_ascii=False) + "\n")
