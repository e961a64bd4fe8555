"""TopologicalSort: pods of one AppGroup by its order, all others by priority and time."""

import pytest

import stowplan
from stowplan.testing import a_pod
from stowplan_scheduler_plugins.app_groups import APP_GROUP, WORKLOAD
from stowplan_scheduler_plugins.golden.scenarios import Queued

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"queueSort": {"enabled": [{"name": "TopologicalSort"}], "disabled": [{"name": "*"}]}},
            "pluginConfig": [{"name": "TopologicalSort", "args": {"namespaces": ["apps"]}}],
        }
    ],
}


def app_group(name, **places):
    order = [{"workload": {"selector": selector}, "index": index} for selector, index in sorted(places.items())]
    return {
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": name, "namespace": "apps"},
        "status": {"topologyOrder": order},
    }


CLUSTER = stowplan.Cluster([app_group("shop", db=1, web=2, zoo=2)], config=CONFIG)


def less(first, second):
    [framework] = CLUSTER.algorithm.frameworks.values()
    return framework.plugins["TopologicalSort"].less(first, second)


def queued(group, workload, *, priority=0, time=0):
    labels = {APP_GROUP: group, WORKLOAD: workload} if group else {}
    return Queued(CLUSTER.pod(a_pod(f"{workload}-{time}").labels(labels).priority(priority).obj()), time, time)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(queued("shop", "db", time=9), queued("shop", "web", priority=5), id="place in the group"),
        pytest.param(queued("shop", "none"), queued("shop", "db"), id="without a place first"),
        pytest.param(queued("shop", "web", priority=5), queued("other", "db"), id="two groups: priority"),
        pytest.param(queued("", "a", time=1), queued("", "b", time=2), id="no groups: time"),
        pytest.param(queued("gone", "b", time=1), queued("gone", "a", time=2), id="a group that does not exist: time"),
    ],
)
def test_the_order(first, second):
    assert less(first, second)
    assert not less(second, first)


def test_pods_of_equal_places_are_less_both_ways():
    web, zoo = queued("shop", "web", time=2), queued("shop", "zoo", time=1)
    assert less(web, zoo)
    assert less(zoo, web)
