"""An engine on a cluster with random changes in any order: it is validated after each step."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples, times
from support.scheduling.engine_histories import History, actions, random_actions


@examples(100)
@given(
    actions=st.lists(actions(), min_size=10, max_size=80),
    extenders=st.booleans(),
    well=st.sampled_from((True, True, True, False)),
)
def test_random_histories(actions, extenders, well):
    history = History(extenders=extenders)
    for action in actions:
        history.apply(*action)
    if well:
        history.check_final_state()
    else:
        history.shuts_down()


@pytest.mark.parametrize("seed", range(times(10)))
def test_long_histories(seed):
    chance, history = Random(seed), History(extenders=seed % 2 == 1)
    for action, *arguments in random_actions(chance, 300):
        history.apply(action, *arguments)
    history.check_final_state()
