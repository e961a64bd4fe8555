"""Host ports in use are found by port, as by a comparison with each row."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.ports import ANY_IP, UsedPorts, ports_conflict

ports = st.tuples(
    st.sampled_from((ANY_IP, "10.0.0.1", "10.0.0.2")), st.sampled_from(("TCP", "UDP")), st.sampled_from((80, 443))
)
pods = st.tuples(st.integers(0, 3), st.lists(ports, min_size=1, max_size=3).map(tuple))


@given(st.lists(pods, max_size=12), st.lists(ports, min_size=1, max_size=2), st.data())
def test_conflicts_are_those_of_each_row(placed, wanted, data):
    used = UsedPorts()
    for row, of_pod in placed:
        used.add(row, of_pod)
    leaving = data.draw(st.lists(st.sampled_from(range(len(placed))), unique=True)) if placed else []
    for number in leaving:
        used.remove(*placed[number])
    left = [pod for number, pod in enumerate(placed) if number not in leaving]
    by_row = {row: {port for at, of_pod in left if at == row for port in of_pod} for row, _ in left}
    assert {row: used.on(row) for row in range(4) if used.on(row)} == by_row
    conflicting = used.conflicting_rows(wanted)
    assert sorted(conflicting) == sorted(row for row, taken in by_row.items() if ports_conflict(wanted, taken))


def test_nothing_is_kept_of_ports_that_are_free_again():
    used = UsedPorts()
    used.add(3, [(ANY_IP, "TCP", 80), (ANY_IP, "TCP", 80)])
    used.add(3, [(ANY_IP, "TCP", 80)])
    used.remove(3, [(ANY_IP, "TCP", 80), (ANY_IP, "TCP", 80)])
    assert used.conflicting_rows([("10.0.0.1", "TCP", 80)]) == [3]
    used.remove(3, [(ANY_IP, "TCP", 80)])
    assert (used._rows, used._users) == ({}, {})
