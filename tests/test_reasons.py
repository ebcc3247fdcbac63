"""The words for the reasons of decisions."""

from __future__ import annotations

import pytest

from scrapy_rep import meta
from scrapy_rep.protocol.indexing.statements import DENIALS
from scrapy_rep.protocol.reasons import REASONS
from scrapy_rep.protocol.robotstxt.decisions import Reason
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES
from scrapy_rep.settings import DEFAULTS, OBEY

pytestmark = pytest.mark.newest


def test_each_reason_has_words() -> None:
    """Each reason for which a crawl refuses, drops or allows something has words, which end no
    sentence.
    """
    withheld = {
        name for name, denied in DENIALS.items() if {"index", "follow"} & set(denied)
    }
    reasons = {
        *map(str, Reason),
        *withheld,
        *CATEGORIES,
        OBEY,
        meta.DONT_OBEY_ROBOTSTXT,
    }
    assert reasons <= REASONS.keys()
    assert all(words.text and words.text[-1] != "." for words in REASONS.values())


def test_the_setting_that_changes_a_reason_exists() -> None:
    """Each reason that a user can change names a setting or a meta key, which exists."""
    known = {*DEFAULTS, OBEY, meta.DONT_OBEY_ROBOTSTXT, meta.DONT_OBEY_NOINDEX, ""}
    assert {words.setting for words in REASONS.values()} <= known
