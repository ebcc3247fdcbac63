"""Crawls in simulated worlds keep to what the hosts ask for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests import effort

pytestmark = [pytest.mark.newest, pytest.mark.slow, pytest.mark.unmeasured]


def simulate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own: it replaces the clocks, and has no reactor."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=False,
    )


@pytest.mark.parametrize("seed", ["6", "7", "22"])
def test_a_seed_tells_the_same_story_each_time(seed):
    stories = {simulate(seed, hash_seed=each).stdout for each in ("1", "2")}
    assert len(stories) == 1
    assert "the crawl ended" in stories.pop()


def test_todays_crawls_keep_to_what_the_hosts_ask_for():
    crawls = simulate("--long") if effort.is_long else simulate("--seconds", "20")
    assert crawls.returncode == 0, crawls.stdout + crawls.stderr[-2000:]
