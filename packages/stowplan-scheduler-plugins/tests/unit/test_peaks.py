"""Peaks: the rise of power by an exponential model of load."""

from support.plugins.measured_load import load, metric, scores


def peaks(loads, **models):
    return scores("Peaks", loads, address="WatcherAddress", NodePowerModel=models)


MODEL = {"k0": 100, "k1": 10, "k2": 0.02}


def test_the_node_whose_power_rises_least_is_best():
    loads = load(n1=[metric("CPU", "AVG", 10)], n2=[metric("CPU", "AVG", 70)])
    assert peaks(loads, n1=MODEL, n2=MODEL) == {"n1": 100, "n2": 0}


def test_a_node_that_the_pod_overloads_counts_as_if_its_power_did_not_rise():
    loads = load(n1=[metric("CPU", "AVG", 10)], n2=[metric("CPU", "AVG", 95)])
    assert peaks(loads, n1=MODEL, n2=MODEL) == {"n1": 0, "n2": 100}


def test_the_first_value_counts():
    loads = load(n1=[metric("CPU", "Latest", 10), metric("CPU", "AVG", 90)], n2=[metric("CPU", "AVG", 50)])
    assert peaks(loads, n1=MODEL, n2=MODEL) == {"n1": 100, "n2": 0}


def test_without_models_nothing_is_known():
    assert peaks(load(n1=[metric("CPU", "AVG", 10)])) == {"n1": 0, "n2": 0}
