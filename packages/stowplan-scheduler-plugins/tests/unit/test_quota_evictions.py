"""Evictions by quotas, in arrays over nodes: compared with the plain rule, node by node and pod by pod."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stowplan
from stowplan.plugins.preemption import PodsOnNodes
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.elastic_quotas import Quota, Quotas, plus, request_of
from stowplan_scheduler_plugins.quota_evictions import Asked, QuotaEvictions
from support.examples import examples

NODES = 3
QUOTAS = st.fixed_dictionaries(
    {namespace: st.none() | st.tuples(st.integers(0, 4), st.integers(2, 8)) for namespace in "abc"}
)
PODS = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 2)), max_size=12
)


@pytest.fixture(scope="module")
def compiled():
    """Pods by namespace, priority and CPUs."""
    cluster = stowplan.Cluster([a_node("n1").obj()])
    return {
        (namespace, priority, cpu): cluster.pod(
            a_pod(f"p-{priority}-{cpu}", namespace).requests(cpu=str(cpu)).priority(priority).obj()
        )
        for namespace in "abc"
        for priority in range(3)
        for cpu in range(3)
    }


def quotas_of(limits, pods):
    found = Quotas({}, {}, {})
    for namespace, limit in limits.items():
        if limit is not None:
            used = plus({"cpu": 0}, *(request_of(pod) for _, pod in pods if pod.namespace == namespace))
            most = {"cpu": limit[1] * 1000, "memory": 2**40, "ephemeral-storage": 2**40}
            found.put(namespace, Quota(namespace, {"cpu": limit[0] * 1000}, most, used))
    return found


def without(quotas, pod):
    quota = quotas.get(pod.namespace)
    if quota is None:
        return quotas
    left = quotas.copy()
    left.put(pod.namespace, replace(quota, used=plus(quota.used, {"cpu": -request_of(pod)["cpu"]})))
    return left


def plainly(preemptor, asked, pods):
    """The victims on each node, and the nodes that still refuse the pod without them."""
    own = asked.quotas.get(preemptor.namespace)
    more_than_min = own is not None and own.over_min_with(asked.in_quota)
    may, refused = [], []
    for node in range(NODES):
        quotas = asked.quotas
        for at, (where, pod) in enumerate(pods):
            if where != node:
                continue
            quota, lower = quotas.get(pod.namespace), pod.priority < preemptor.priority
            if own is None:
                chosen = quota is None and lower
            elif more_than_min:
                chosen = pod.namespace == preemptor.namespace and lower
            else:
                chosen = quota is not None and pod.namespace != preemptor.namespace and quota.over_min()
            if chosen:
                quotas = without(quotas, pod)
                may.append(at)
        now = quotas.get(preemptor.namespace)
        refused.append(
            now is not None and (now.over_max_with(asked.request) or quotas.over_min_together(asked.request))
        )
    return may, refused


@examples(100)
@given(limits=QUOTAS, on_nodes=PODS, who=st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 2)))
def test_victims_and_limits_are_those_of_the_plain_rule(compiled, limits, on_nodes, who):
    pods = sorted(((node, compiled[rest]) for node, *key in on_nodes for rest in [tuple(key)]), key=lambda one: one[0])
    preemptor, request = compiled[who], request_of(compiled[who])
    asked = Asked(quotas=quotas_of(limits, pods), request=request, in_quota=request, in_total=request)
    rules = QuotaEvictions(preemptor, asked, NODES)
    shapes = list(dict.fromkeys(pod.shape for _, pod in pods))
    given_pods = PodsOnNodes(
        np.array([node for node, _ in pods], np.intp),
        np.array([pod.priority for _, pod in pods], np.int64),
        shapes,
        np.array([shapes.index(pod.shape) for _, pod in pods], np.intp),
    )
    may, refused = plainly(preemptor, asked, pods)
    found = np.flatnonzero(rules.may_evict(given_pods))
    assert found.tolist() == may
    rules.move(given_pods.at(found), -1)
    every = np.arange(NODES)
    assert rules.hopeless(every)[0].tolist() == refused
    rules.move(given_pods.at(found), 1)
    assert rules.hopeless(every)[0].tolist() == plainly(preemptor, asked, [])[1]
