"""LoadVariationRiskBalancing: average and deviation of measured load."""

from support.plugins.measured_load import load, metric, scores


def variation(loads, **args):
    return scores("LoadVariationRiskBalancing", loads, **args)


def test_steady_nodes_are_better_than_varying_ones():
    steady = [metric("CPU", "AVG", 40), metric("CPU", "STD", 0)]
    varying = [metric("CPU", "AVG", 40), metric("CPU", "STD", 20)]
    # Half of average with the pod (50 %) and deviation.
    assert variation(load(n1=steady, n2=varying)) == {"n1": 75, "n2": 65}


def test_the_deviation_counts_by_margin_and_sensitivity():
    varying = load(n1=[metric("CPU", "AVG", 40), metric("CPU", "STD", 25)])
    assert variation(varying, safeVarianceMargin=2)["n1"] == 50
    assert variation(varying, safeVarianceSensitivity=2)["n1"] == 50
    assert variation(varying, safeVarianceMargin=0)["n1"] == 75


def test_the_worse_one_of_cpu_and_memory_counts():
    cpu, memory = metric("CPU", "AVG", 10), metric("Memory", "AVG", 80)
    assert variation(load(n1=[cpu, memory], n2=[cpu])) == {"n1": 60, "n2": 90}
