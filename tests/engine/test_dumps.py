"""An engine that is dumped, and another one that goes on from there: the same inputs give the same effects."""

from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from stowplan.engine.dumped import UnfinishedError, decode_dump, encode_dump
from support.examples import SCALE, examples
from support.scheduling.engine_histories import History, chosen_deeds, deeds


class Twin:
    """Another engine that goes on from a dump, and hears what the first one hears."""

    def __init__(self, hand):
        self._hand = hand
        dumped = encode_dump(hand.engine.dump())
        self.engine = hand.new_engine()
        self.engine.load(decode_dump(dumped))
        self.engine.validate()
        assert encode_dump(self.engine.dump()) == dumped
        #: Steps that were compared.
        self.steps = self.effects = 0
        hand.heard.append(self._hear)

    def _hear(self, input_, effects):
        also = self.engine.step(input_, self._hand.now)
        assert [effect.encoded() for effect in also] == [effect.encoded() for effect in effects], input_
        self.engine.validate()
        assert self.engine.wants_turn == self._hand.engine.wants_turn
        self.steps, self.effects = self.steps + 1, self.effects + len(effects)


def twin_of(hand):
    """None while the engine is in the middle of something; it says in what."""
    unfinished = hand.engine.unfinished()
    if not unfinished:
        return Twin(hand)
    with pytest.raises(UnfinishedError, match="what is under way cannot be dumped") as raised:
        hand.engine.dump()
    assert raised.value.unfinished == tuple(unfinished)
    return None


def played(history, done, *, quiet_from):
    """Have everything done, with a twin from the first quiet moment on after so many deeds."""
    twin = None
    for i, (deed, *arguments) in enumerate(done):
        history.goes_on(deed, *arguments)
        if twin is None and i >= quiet_from:
            if i % 3 == 0:
                # Else there is nearly always something under way.
                history.hand.answer_all()
            twin = twin_of(history.hand)
    return twin


@examples(100)
@given(deeds=st.lists(deeds(), min_size=10, max_size=80), extenders=st.booleans(), quiet_from=st.integers(0, 40))
def test_who_goes_on_from_a_dump_does_the_same(deeds, extenders, quiet_from):
    history = History(extenders=extenders)
    twin = played(history, deeds, quiet_from=quiet_from)
    event("dumped" if twin else "never quiet")
    history.ends_well()


@pytest.mark.parametrize("seed", range(10 * SCALE))
def test_long_histories(seed):
    chance, history = Random(seed), History(extenders=seed % 2 == 1)
    twin = played(history, chosen_deeds(chance, 300), quiet_from=chance.randrange(150))
    history.ends_well()
    assert twin is not None
    assert twin.effects > 50
