"""Tests of crawls in simulated worlds: each crawl keeps the rules that the docstring of `judge.py` lists."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests import effort
from tests.simulation.world import World

pytestmark = [pytest.mark.newest, pytest.mark.slow, pytest.mark.unmeasured]


def simulate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Run ``python -m tests.simulation`` with *arguments*, and return the finished process.

    The simulation needs a process of its own, because it replaces the clocks, and runs without a reactor.
    """
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=False,
    )


def test_a_seed_gives_the_same_story_in_each_run():
    seeds = ("19", "5", "43")  # One of each kind: job, plain, workers.
    stories = {simulate(*seeds, hash_seed=hash_seed).stdout for hash_seed in ("1", "2")}
    assert len(stories) == 1
    assert stories.pop().count("the crawl ended") == len(seeds)


def test_settings_choose_another_frontier():
    """Without the add-on, Scrapy's own scheduler and robots.txt middleware run, and the judge reports that they ignore
    the Crawl-delay.
    """
    settings = {
        "ADDONS": {"scrapy_rep.Addon": None},
        "ROBOTSTXT_OBEY": True,
        "REP_OVERRIDES": {},
        "REP_LEDGER": "",
    }
    story = simulate("--settings", json.dumps(settings), "--", "35").stdout
    assert "the crawl ended" in story
    assert "VIOLATION: a gap of 0.00 s instead of 5 s" in story


@pytest.mark.parametrize("name", ["driver", "hold", "replacement", "bans"])
def test_each_middleware_and_bans_are_in_some_worlds_only(name):
    worlds = [World(seed) for seed in range(60)]
    count = sum(bool(getattr(world, name)) for world in worlds)
    assert 0 < count < 30


def test_limits_and_changed_requests_are_in_some_worlds_only():
    worlds = [World(seed) for seed in range(202611280400, 202611280460)]
    for count in (
        sum(bool(world.change) for world in worlds),
        sum(bool(world.addresses) for world in worlds),
        sum("REP_PAGES_PER_HOST" in world.settings for world in worlds),
    ):
        assert 0 < count < 30


def test_crawls_of_todays_seeds_keep_all_rules():
    crawls = simulate("--long") if effort.is_long else simulate("--seconds", "2")
    assert crawls.returncode == 0, crawls.stdout + crawls.stderr[-2000:]
