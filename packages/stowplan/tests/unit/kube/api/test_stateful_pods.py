import pytest

from stowplan.kube.api.stateful_pods import first_unavailable, waits_for

KEPT = range(1, 4)


@pytest.mark.parametrize(
    ("ordinal", "unavailable", "expected"),
    [
        pytest.param(2, [], None, id="all run"),
        pytest.param(2, [1, 2, 3], 1, id="creation waits for earlier ones"),
        pytest.param(1, [1, 2, 3], None, id="the first is created"),
        pytest.param(2, [3, 4], None, id="later ones are not waited for"),
        pytest.param(2, [0], None, id="nor those below the first ordinal, which are to go"),
        pytest.param(4, [3], 3, id="deletion waits for those to keep"),
        pytest.param(4, [5], None, id="not for those to go"),
        pytest.param(5, [4, 5], 4, id="unless the pod itself does not run"),
        pytest.param(4, [4, 5], None, id="and is not the first such pod"),
    ],
)
def test_turns(ordinal, unavailable, expected):
    first = first_unavailable(unavailable, KEPT)
    assert waits_for(ordinal, first, KEPT, available=ordinal not in unavailable) == expected
