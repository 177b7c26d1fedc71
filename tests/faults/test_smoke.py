"""The quick kinds, once each, in every run of the tests: the rest is ``make faults``."""

import random

import pytest

from tests.faults import agent_faults, engine_faults, log_faults, state_faults
from tests.faults.kinds import Family, Kind, NotSurvivedError, Outcome, check
from tests.faults.rig import lives, simulated
from tests.faults.run import FAMILIES, Suite
from tests.faults.table import markdown

QUICK = {
    "agent -9": agent_faults.FAMILY,
    "socket file deleted": agent_faults.FAMILY,
    "engine -9": engine_faults.FAMILY,
    "pid used again": state_faults.FAMILY,
    "log filled with bytes": log_faults.FAMILY,
}


@pytest.fixture(scope="module")
def hurt(tmp_path_factory):
    """One rig for all of them; nothing of it is left afterwards."""
    home = tmp_path_factory.mktemp("faults")
    patch = pytest.MonkeyPatch()
    patch.setenv("SGLANG_CONSOLE_HOME", str(home))
    with simulated("smoke", home) as made:
        made.up()
        engine = made.engine
        yield made
        seen = made.seen
    patch.undo()
    assert engine in seen
    assert not [one for one in seen if lives(one)], "a process of the rig is left"


@pytest.mark.parametrize("name", QUICK)
def test_it_is_survived(hurt, name):
    kind = next(kind for kind in QUICK[name].kinds if kind.name == name)
    before = hurt.up()
    outcome = kind.round(hurt, random.Random(name))
    assert lives(before) is not kind.harms
    assert outcome.noticed_s < 10.0
    assert outcome.lost in {"", "last second of samples"}


def test_what_is_not_survived_is_counted_and_told(tmp_path, monkeypatch):
    """The suite can fail: a check that does not hold, and an engine that a fault of something else has ended."""
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))

    def breaks(_on, _chance):
        check(condition=False, what="this holds")

    def harms(on, _chance):
        on.do("stop")
        return Outcome(0.0)

    family = Family("bad", simulated, (Kind("breaks", 1, "never", breaks), Kind("harms", 1, "never", harms)))
    told = []
    suite = Suite([family], rounds=2, budget_s=60, seed=1, tell=told.append)
    suite.run(tmp_path, 1)
    assert [(tally.tried, tally.survived) for tally in suite.tallies.values()] == [(1, 0), (1, 0)]
    assert "NotSurvivedError: this holds" in told[0]
    assert "the engine was harmed" in told[-1]
    assert "| breaks | 1 | 0 |" in markdown(suite.tallies.values())
    with pytest.raises(NotSurvivedError, match="this holds"):
        breaks(None, None)


def test_the_default_run_is_as_large_as_promised():
    kinds = [kind for family in FAMILIES for kind in family.kinds]
    assert len({kind.name for kind in kinds}) == len(kinds) >= 25
    assert sum(kind.rounds for kind in kinds) >= 300
