"""The table of a job's variables: each is declared once, and who makes an environment makes what is declared for it."""

from typing import Any

import pytest

from ctld.agents import hetenv, launch
from ctld.rpc.jobs import allocenv
from nodedaemon.core import environment, stepenv
from penstock.values.jobenv import VARIABLES, Environment, check_names, names_in, sources

MAKERS: dict[Environment, dict[str, Any]] = {
    Environment.BATCH: environment.TABLE,
    Environment.STEP: stepenv.STEP_TABLE,
    Environment.ALLOCATION: allocenv.TABLE,
    Environment.COMPONENT: hetenv.TABLE,
    Environment.SENT: launch.SENT,
}


def test_each_variable_is_declared_once():
    names = [one.name for one in VARIABLES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("place", MAKERS)
def test_each_maker_makes_what_is_declared(place):
    assert set(MAKERS[place]) == set(names_in(place))


def test_prolog_and_epilog_find_what_the_batch_script_finds():
    assert set(names_in(Environment.SITE)) <= set(names_in(Environment.BATCH))


def test_a_declared_value_is_the_same_function_everywhere():
    shared = {one.name: one.value for one in VARIABLES if one.value is not None}
    for place in (Environment.BATCH, Environment.ALLOCATION):
        for name, make in MAKERS[place].items():
            assert make is shared.get(name, make), name


def test_what_is_not_declared_for_an_environment_is_refused():
    with pytest.raises(ValueError, match=r"SLURM_STEP_ID\b"):
        check_names(Environment.STEP, set(names_in(Environment.STEP)) - {"SLURM_STEP_ID"})
    with pytest.raises(ValueError, match="SLURM_MADE_UP"):
        check_names(Environment.SENT, {*names_in(Environment.SENT), "SLURM_MADE_UP"})
    with pytest.raises(ValueError, match="SLURM_GPUS_ON_NODE"):
        sources(Environment.ALLOCATION, {})
