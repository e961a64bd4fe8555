"""Explain a pod in one line: `page(objects, pod)` is the plain text, `advice(objects, pod)` the suggestions."""

import pytest

import stowplan
from stowplan.ask.explain.text.tables import plain
from stowplan.ask.explain.text.verdict_text import explanation


def judged(objects, pod, **options):
    cluster = stowplan.Cluster(objects, **options)
    return cluster.engine, cluster.explain(pod)


@pytest.fixture
def page():
    def ask(objects, pod, *, wide=False, alike=(), **options):
        return plain(explanation(*judged(objects, pod, **options), wide=wide, alike=alike))

    return ask


@pytest.fixture
def advice():
    def ask(objects, pod, **options):
        return judged(objects, pod, **options)[1].advice

    return ask


@pytest.fixture
def texts(advice):
    def ask(objects, pod, **options):
        return [suggestion.text for suggestion in advice(objects, pod, **options).suggestions]

    return ask
