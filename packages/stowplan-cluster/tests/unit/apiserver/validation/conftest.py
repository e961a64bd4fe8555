"""Change one field of a valid object, and collect the API's errors."""

import copy

import pytest

from stowplan_cluster.apiserver import strategies, validation
from stowplan_cluster.apiserver.defaults import apply_defaults
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.schema import conform, schema_of
from support.api.wrong_manifests import changed

CATALOGUE = Catalogue(BUILT_IN)


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
        return self.create(changed(obj, changes))

    def update_refusals(self, obj, *changes, subresource="", old=()):
        """Errors for changes of a stored object, which itself has the changes `old`."""
        stored = changed(obj, old)
        status = copy.deepcopy(stored.get("status"))
        assert self.create(stored) == []
        if status is not None:
            stored["status"] = {**(stored.get("status") or {}), **status}
        return self.update(changed(stored, changes), stored, subresource)

    @staticmethod
    def resource_of(obj):
        resource = CATALOGUE.of_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None, obj["kind"]
        return resource


@pytest.fixture(scope="session")
def server():
    return Server()
