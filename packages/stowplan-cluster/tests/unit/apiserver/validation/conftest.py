"""Change one field of a valid object, and collect the API's errors."""

import copy

import pytest

from stowplan_cluster.apiserver import strategies, validation
from stowplan_cluster.apiserver.defaults import apply_defaults
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.schema import conform, schema_of

CATALOGUE = Catalogue(BUILT_IN)
ABSENT = object()


def changed(obj, path, value):
    """A copy with one field changed; numbers in the path are list indexes; ABSENT removes the field."""
    obj = copy.deepcopy(obj)
    *parents, last = path.split(".")
    holder = obj
    for step in parents:
        holder = holder[int(step)] if isinstance(holder, list) else holder.setdefault(step, {})
    if value is ABSENT:
        holder.pop(last, None)
    elif isinstance(holder, list):
        holder[int(last) :] = [value]
    else:
        holder[last] = value
    return obj


class Server:
    """Types, defaults, strategy and validation, as in a write."""

    def create(self, obj):
        resource = self.resource_of(obj)
        conform(schema_of(resource), obj)
        apply_defaults(resource, obj)
        strategies.prepare_for_create(resource, obj, now=0.0)
        return [str(error) for error in validation.validate_create(resource, obj)]

    def update(self, obj, old, subresource=""):
        resource = self.resource_of(obj)
        conform(schema_of(resource), obj)
        apply_defaults(resource, obj)
        strategies.prepare_for_update(resource, obj, old, subresource, now=0.0)
        strategies.count_generation(resource, obj, old, subresource)
        errors = validation.validate_update(resource, obj, old, subresource=subresource)
        return [str(error) for error in errors]

    def refusals(self, obj, *changes):
        for path, value in zip(changes[::2], changes[1::2], strict=True):
            obj = changed(obj, path, value)
        return self.create(copy.deepcopy(obj))

    def update_refusals(self, obj, *changes, subresource="", old=()):
        """Errors for changes of a stored object, which itself has the changes `old`."""
        stored = copy.deepcopy(obj)
        for path, value in zip(old[::2], old[1::2], strict=True):
            stored = changed(stored, path, value)
        status = copy.deepcopy(stored.get("status"))
        assert self.create(stored) == []
        if status is not None:
            stored["status"] = {**(stored.get("status") or {}), **status}
        new = copy.deepcopy(stored)
        for path, value in zip(changes[::2], changes[1::2], strict=True):
            new = changed(new, path, value)
        return self.update(new, stored, subresource)

    @staticmethod
    def resource_of(obj):
        resource = CATALOGUE.of_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None, obj["kind"]
        return resource


@pytest.fixture(scope="session")
def server():
    return Server()


@pytest.fixture(scope="session")
def absent():
    return ABSENT
