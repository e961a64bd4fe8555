"""A cluster in a process of its own, and each answer in one that is forked from it: the copy of everything is free."""

import gc
import importlib
import os
import pickle
import pkgutil
import resource
import sys
import traceback
from collections import Counter
from functools import cache
from random import Random

import stowplan
import stowplan_cluster
from answers.asked import Asked, Chances
from answers.living import Living
from answers.questions import CHANCES, QUESTIONS, WITH_QUOTAS
from answers.worlds import World, a_world


def apart(do):
    """The result of a function in a forked process; raises RuntimeError with its traceback."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        try:
            found = True, do()
        except BaseException:
            found = False, traceback.format_exc()
        with os.fdopen(write, "wb") as file:
            pickle.dump(found, file)
        sys.stdout.flush()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    worked, found = pickle.loads(data)
    if not worked:
        raise RuntimeError(found)
    return found


@cache
def _import_everything():
    """Once, and not in each process."""
    for package in (stowplan, stowplan_cluster):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def tried(seed, kind=""):
    _import_everything()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = apart(lambda: _answers(a_world(seed), kind))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seed": seed, "seconds": round(seconds, 3), **found}


def _answers(world, kind):
    living = Living(world.objects, world.seed)
    living.begin()
    gc.collect()
    gc.freeze()
    asked, chances = Asked(living), Chances(living)
    kinds, problems, texts = Counter(), [], []
    for number, question in sorted(enumerate(QUESTIONS), key=lambda one: one[1] not in WITH_QUOTAS):
        if question not in WITH_QUOTAS and living.quotas:
            # The others are about nodes.
            living.lift_quotas()
            asked, chances = Asked(living), Chances(living)
        for answer in question(asked, world, living, Random(f"{world.seed}/{number}")):
            if kind not in f"{answer.kind}: {answer.text}":
                continue
            problem = _problem(answer, living, chances)
            kinds[answer.kind] += 1
            texts.append(f"{answer.kind}: {answer.text}")
            if problem:
                problems.append({"kind": answer.kind, "text": answer.text, "problem": problem})
    return {"answers": kinds, "problems": problems, "texts": texts}


def _problem(answer, living, chances):
    try:
        return answer.check(lambda do: apart(lambda: do(living)), lambda: chances.asked(CHANCES))
    except Exception:
        return traceback.format_exc()


def shrunk(seed, kind=""):
    """Drop objects while there is still a problem of this kind."""
    world = a_world(seed)

    def problems(objects):
        try:
            return apart(lambda: _answers(World(seed, objects), kind))["problems"]
        except RuntimeError:
            return []

    objects = world.objects
    for obj in list(reversed(objects)):
        fewer = [other for other in objects if other is not obj]
        if problems(fewer):
            objects = fewer
    return {"objects": objects, "problems": problems(objects)}
