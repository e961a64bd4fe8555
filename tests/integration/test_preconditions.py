"""Writes whose preconditions do not match the stored object: every server refuses them with the same message."""

import json

import pytest

from support.http.raw_sockets import Target

OLD = "11111111-2222-4333-8444-555555555555"
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"

#: kind -> group/version, plural, its key in the store, and required fields besides metadata.
KINDS = {
    "ConfigMap": ("v1", "configmaps", "configmaps", {}),
    "Service": ("v1", "services", "services/specs", {"spec": {"ports": [{"port": 80}]}}),
    "Lease": ("coordination.k8s.io/v1", "leases", "leases", {"spec": {"holderIdentity": "a"}}),
    "Role": ("rbac.authorization.k8s.io/v1", "roles", "roles", {"rules": []}),
}
CREATED_BY_UPDATE = ("Service", "Lease", "Role")
PATCHES = {
    "merge": ("application/merge-patch+json", lambda metadata: {"metadata": metadata}),
    "strategic": ("application/strategic-merge-patch+json", lambda metadata: {"metadata": metadata}),
    "json": (
        "application/json-patch+json",
        lambda metadata: [{"op": "add", "path": f"/metadata/{name}", "value": text} for name, text in metadata.items()],
    ),
}
APPLY = "application/apply-patch+yaml"


class Asking:
    """Requests for objects of one kind in a namespace."""

    def __init__(self, server, namespace, kind):
        self.version, self.plural, key, self.rest = KINDS[kind]
        self.kind, self.group = kind, self.version.rpartition("/")[0]
        self.path = f"/{'apis' if self.group else 'api'}/{self.version}/namespaces/{namespace}/{self.plural}"
        self.key = f"/registry/{key}/{namespace}/x"
        self._target = Target(server)

    def ask(self, method, path="/x", body=None, media="application/json"):
        """Code, reason and message, or the object."""
        text = None if body is None else json.dumps(body).encode()
        code, answer = self._target.ask(method, self.path + path, text, Content_Type=media)[:2]
        answer = json.loads(answer)
        if code < 300:
            return answer
        return code, answer.get("reason", ""), answer["message"]

    def made(self):
        return self.ask("POST", "", self.object())["metadata"]

    def gone(self):
        """The UID of a deleted object."""
        uid = self.made()["uid"]
        self.ask("DELETE")
        return uid

    def object(self, **metadata):
        return {"apiVersion": self.version, "kind": self.kind, "metadata": {"name": "x", **metadata}, **self.rest}

    def put(self, path="/x", **metadata):
        return self.ask("PUT", path, self.object(**metadata))

    def patch(self, type_, **metadata):
        media, body = PATCHES[type_]
        return self.ask("PATCH", "/x", body(metadata), media)

    def apply(self, **metadata):
        return self.ask("PATCH", "/x?fieldManager=f&force=true", self.object(**metadata), APPLY)

    def delete(self, **preconditions):
        return self.ask("DELETE", "/x", {"preconditions": preconditions})

    def conflict(self, why, *, by_kind=False):
        what = self.kind if by_kind else self.plural
        of_group = f".{self.group}" if self.group else ""
        return 409, "Conflict", f'Operation cannot be fulfilled on {what}{of_group} "x": {why}'

    def another_uid(self, uid, have, key=None):
        return self.conflict(
            f"StorageError: invalid object, Code: 4, Key: {key or self.key}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {have}"
        )

    def not_found(self):
        of_group = f".{self.group}" if self.group else ""
        return 404, "NotFound", f'{self.plural}{of_group} "x" not found'

    def uid_is_fixed(self):
        of_group = f".{self.group}" if self.group else ""
        why = f'metadata.uid: Invalid value: "{OLD}": field is immutable'
        return 422, "Invalid", f'{self.kind}{of_group} "x" is invalid: {why}'


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def one(api_server, namespace, kind):
    return Asking(api_server, namespace, kind)


@pytest.mark.parametrize("kind", CREATED_BY_UPDATE)
class TestAnUpdateThatMayCreate:
    def test_does_not_recreate_a_deleted_object(self, one):
        uid = one.gone()
        assert one.put(uid=uid) == one.another_uid(uid, "")
        assert one.put(uid=uid, resourceVersion="1") == one.another_uid(uid, "")
        assert one.put("/x?dryRun=All", uid=uid) == one.another_uid(uid, "", one.key.removeprefix("/registry"))
        assert one.ask("GET") == one.not_found()

    @pytest.mark.parametrize("metadata", [{}, {"uid": ""}, {"resourceVersion": "1"}, {"resourceVersion": "0"}], ids=str)
    def test_creates(self, one, metadata):
        assert one.put(**metadata)["metadata"]["uid"]

    def test_parses_the_version(self, one):
        assert one.put(resourceVersion="x") == (500, "", 'strconv.ParseUint: parsing "x": invalid syntax')


@pytest.mark.parametrize("kind", ["ConfigMap"])
def test_other_updates_are_not_found(one):
    uid = one.gone()
    for metadata in ({"uid": uid}, {"resourceVersion": "1"}, {"resourceVersion": "x"}):
        assert one.put(**metadata) == one.not_found()
    elsewhere = "the namespace of the provided object does not match the namespace sent on the request"
    assert one.put(uid=uid, namespace="elsewhere") == (400, "BadRequest", elsewhere)


@pytest.mark.parametrize("kind", ["ConfigMap"])
def test_creating_with_a_version_is_refused(one):
    refusal = (500, "", "resourceVersion should not be set on objects to be created")
    assert one.ask("POST", "", one.object(resourceVersion="1")) == refusal
    assert one.ask("POST", "", one.object(resourceVersion="0", uid=OLD))["metadata"]["uid"] != OLD
    one.ask("DELETE")
    assert one.ask("POST", "", one.object(resourceVersion="x"))["metadata"]["uid"]


def test_updates_check_uid_and_version(one):
    live = one.made()
    assert one.put(uid=OLD) == one.another_uid(OLD, live["uid"])
    # The UID is checked first.
    assert one.put(uid=OLD, resourceVersion="1") == one.another_uid(OLD, live["uid"])
    assert one.put(uid=live["uid"], resourceVersion="1") == one.conflict(MODIFIED)
    assert one.put(resourceVersion="x") == (500, "", 'strconv.ParseUint: parsing "x": invalid syntax')
    assert one.put(uid=live["uid"], resourceVersion=live["resourceVersion"])["metadata"]["uid"] == live["uid"]


@pytest.mark.parametrize("kind", ["ConfigMap"])
def test_version_0_matches_any_version(one):
    one.made()
    assert one.put(resourceVersion="0")["metadata"]["name"] == "x"


@pytest.mark.parametrize("type_", PATCHES)
def test_a_patch_cannot_change_the_uid(one, type_):
    assert one.patch(type_, uid=OLD) == one.not_found()
    live = one.made()
    assert one.patch(type_, uid=OLD) == one.uid_is_fixed()
    # For patches the resourceVersion is checked first.
    assert one.patch(type_, uid=OLD, resourceVersion="1") == one.conflict(MODIFIED)
    assert one.patch(type_, uid="")["metadata"]["uid"] == live["uid"]


def test_apply_cannot_change_the_uid(one):
    nobody = f"uid mismatch: the provided object specified uid {OLD}, and no existing object was found"
    assert one.apply(uid=OLD) == one.conflict(nobody)
    assert one.apply(resourceVersion="1")["metadata"]["uid"]
    assert one.apply(uid=OLD) == one.uid_is_fixed()
    assert one.apply(uid=OLD, resourceVersion="1") == one.conflict(MODIFIED)


def test_deletions_check_their_preconditions(one):
    assert one.delete(uid=OLD) == one.not_found()
    live = one.made()
    # An empty UID is the UID of no object.
    for uid in (OLD, ""):
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({live['uid']})."
        why += " The object might have been deleted and then recreated"
        assert one.delete(uid=uid) == one.conflict(why, by_kind=True)
        assert one.delete(uid=uid, resourceVersion="1") == one.conflict(why, by_kind=True)
    for version in ("1", "0", "x", ""):
        why = f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
        why += f"({live['resourceVersion']}). The object might have been modified"
        assert one.delete(uid=live["uid"], resourceVersion=version) == one.conflict(why, by_kind=True)
    assert isinstance(one.delete(uid=live["uid"], resourceVersion=live["resourceVersion"]), dict)
    assert one.ask("GET") == one.not_found()


@pytest.mark.parametrize("kind", ["ConfigMap"])
def test_preconditions_must_be_strings(one):
    one.made()
    begin = "json: cannot unmarshal number into Go struct field"
    what = f"{begin} Preconditions.preconditions.uid of type types.UID"
    assert one.delete(uid=7) == (400, "BadRequest", what)
    what = f"{begin} Preconditions.preconditions.resourceVersion of type string"
    assert one.delete(resourceVersion=7) == (400, "BadRequest", what)
