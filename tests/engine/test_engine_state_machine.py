"""An engine on a cluster where anything happens in any order: after each step it must not contradict itself."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples, times
from support.scheduling.engine_histories import History, chosen_deeds, deeds


@examples(100)
@given(
    deeds=st.lists(deeds(), min_size=10, max_size=80),
    extenders=st.booleans(),
    well=st.sampled_from((True, True, True, False)),
)
def test_whatever_happens(deeds, extenders, well):
    history = History(extenders=extenders)
    for deed in deeds:
        history.goes_on(*deed)
    if well:
        history.ends_well()
    else:
        history.shuts_down()


@pytest.mark.parametrize("seed", range(times(10)))
def test_long_histories(seed):
    chance, history = Random(seed), History(extenders=seed % 2 == 1)
    for deed, *arguments in chosen_deeds(chance, 300):
        history.goes_on(deed, *arguments)
    history.ends_well()
