"""Settings are read and checked once, at the start."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timezone
from math import inf, nan
from traceback import format_exception
from typing import Any

import pytest
from scrapy.settings import Settings
from scrapy.utils.spider import DefaultSpider
from scrapy.utils.test import get_crawler

from scrapy_rep.base import settings as settings_module
from scrapy_rep.base.settings import DEFAULTS, RepSettings, unknown_names
from scrapy_rep.crawl.fetching.robotparser import RobotParser
from scrapy_rep.crawl.gate import RobotsTxtMiddleware
from scrapy_rep.crawl.pages.indexing import IndexingMiddleware
from scrapy_rep.crawl.pages.output import OutputMiddleware
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.access.overrides import Override, override_for
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.protocol.origins import Origin, origin_of
from tests.fetching.places import SharedMemory

MINE = replace(RFC9309, name="mine", index_html_quirk=True)
AGENTS = "ROBOTSTXT_USER_AGENT"
OBEY = "ROBOTSTXT_OBEY"


class OwnStore(SharedMemory):
    pass


def read(**settings: Any) -> RepSettings:
    return RepSettings(Settings(settings))


def error_of(**settings: Any) -> str:
    with pytest.raises(SettingError) as caught:
        read(**settings)
    return str(caught.value)


def where(url: str) -> Origin:
    origin = origin_of(url)
    assert origin is not None
    return origin


def test_an_error_in_a_module_is_the_cause_of_the_setting_error() -> None:
    """An error in a module of the project is the cause of the SettingError."""
    with pytest.raises(SettingError) as caught:
        read(REP_STORE="no_such_module.Store")
    assert isinstance(caught.value.__cause__, ImportError)


@pytest.mark.parametrize("store", ["redis:/:s3cret@host/0", "user:s3cret@host:6379"])
def test_an_error_shows_no_password(store: str) -> None:
    """A password in a wrong address is in no part of the traceback."""
    with pytest.raises(SettingError) as caught:
        read(REP_STORE=store)
    assert "s3cret" not in "".join(format_exception(caught.value))


def test_without_settings_the_defaults_hold() -> None:
    """Without settings, the defaults hold."""
    settings = read()
    assert settings.dialect is RFC9309
    assert settings.max_age == DEFAULTS["REP_MAX_AGE"]
    assert list(settings.request_meta_keys) == DEFAULTS["REP_REQUEST_META_KEYS"]
    assert (settings.overrides, settings.agents, settings.obey) == ((), (), False)
    assert vars(read(**DEFAULTS)) == vars(settings)


def test_googles_dialect_has_no_delays_and_its_own_rel_values() -> None:
    """The Google dialect has no delays, whatever the settings say, and
    values of rel of its own unless the setting has a list, be it an empty one.
    """
    google = read(REP_DIALECT="google", REP_CRAWL_DELAY_OBEY=True)
    assert google.crawl_delay_obey is False
    assert google.rel == {"nofollow", "ugc", "sponsored"}
    assert read(REP_DIALECT="google", REP_REL=[]).rel == set()
    assert (read().crawl_delay_obey, read().rel) == (True, set())


def test_settings_are_read_once_for_all_components(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The settings of a crawl are read once, however many components use them."""
    reads = []
    once = RepSettings.__init__

    def read(self: RepSettings, settings: Settings) -> None:
        reads.append(settings)
        once(self, settings)

    monkeypatch.setattr(RepSettings, "__init__", read)
    crawler = get_crawler(DefaultSpider, {OBEY: True})
    for component in (RobotsTxtMiddleware, IndexingMiddleware, OutputMiddleware):
        component.from_crawler(crawler)
    RobotParser.from_crawler(crawler, b"")
    assert reads == [crawler.settings]


VALUES: dict[str, list[tuple[object, object]]] = {
    "REP_BACKOFF_MAX": [("0", 0.0), ("300", 300.0)],
    "REP_CONCURRENCY_PER_ADDRESS": [("8", 8), (2, 2), ("0", 0)],
    "REP_CRAWL_DELAY_OBEY": [("0", False), ("true", True)],
    "REP_SKIP_DELAY_OVER": [("2.5", 2.5)],
    "REP_DIALECT": [("classic", CLASSIC), (GOOGLE, GOOGLE), (f"{__name__}.MINE", MINE)],
    "REP_DRY_RUN": [("1", True), ("false", False)],
    "REP_ITEM_FIELD": [("said", "said")],
    "REP_LEDGER": [("", None), ("a.sqlite", "a.sqlite")],
    "REP_LEDGER_LEVEL": [("all", "all")],
    "REP_MAX_AGE": [("600", 600.0), ("0.5", 0.5)],
    "REP_NOFOLLOW": [("ignore", "ignore")],
    "REP_NOINDEX": [("annotate", "annotate")],
    "REP_OVERRIDES": [
        ("", ()),
        (
            '{"a.example:65535": "ignore"}',
            (Override("a.example:65535", "ignore", None, "a.example", 65535),),
        ),
    ],
    "REP_PAGES_PER_HOST": [("1000", 1000), (5.0, 5), ("0", 0)],
    "REP_PURPOSES": [
        ("", ()),
        ("tdm,search", ("tdm", "search")),
        ('["tdm"]', ("tdm",)),
        (["tdm", "search", "tdm"], ("tdm", "search")),
    ],
    "REP_QUEUE_LEASE": [("30", 30.0)],
    "REP_REL": [
        ("", set()),
        ("nofollow, UGC", {"nofollow", "ugc"}),
        ('["me"]', {"me"}),
    ],
    "REP_REQUEST_META_KEYS": [("", ()), ("a,b", ("a", "b")), ('["a,b"]', ("a,b",))],
    "REP_STORE": [
        ("sqlite:///a.sqlite", "sqlite:///a.sqlite"),
        (f"{__name__}.OwnStore", OwnStore),
        (OwnStore, OwnStore),
    ],
    "REP_USAGE": [("ignore", "ignore")],
    "REP_USAGE_UNKNOWN": [("deny", False), ("allow", True)],
    "REP_WAIT_TIMEOUT": [("0", 0.0), ("60", 60.0)],
    OBEY: [("True", True), ("0", False)],
    AGENTS: [
        (None, ()),
        ("", ()),
        ("mybot/1.0 (+https://example.com/bot)", ("mybot",)),
        ("mybot-images, mybot", ("mybot-images", "mybot")),
        ('["b"]', ("b",)),
        ("MJ12bot/1.4", ("MJ12bot",)),
        ("my.bot-2, my_bot", ("my.bot-2", "my_bot")),
        (["mybot-images", "mybot", "mybot"], ("mybot-images", "mybot")),
        ("Mozilla/5.0 (KHTML, like Gecko; compatible; mybot/1.0)", ("mybot",)),
    ],
}
FIELDS = {OBEY: "obey", AGENTS: "agents"}


@pytest.mark.parametrize("name", [*DEFAULTS, OBEY, AGENTS])
def test_each_setting_can_be_given_as_text(name: str) -> None:
    """Every setting can be given as text, as in ``-s NAME=value``; lists, dicts and classes as
    such, too.
    """
    field = FIELDS.get(name, name.removeprefix("REP_").lower())
    for value, expected in VALUES[name]:
        assert getattr(read(**{name: value}), field) == expected, value


def test_the_ledger_records_the_import_path_of_a_store_class() -> None:
    """The ledger records the import path of a Store class."""
    values = settings_module.recorded(
        Settings({"REP_STORE": OwnStore}), read(REP_STORE=OwnStore)
    )
    assert values["REP_STORE"] == f"{__name__}.OwnStore"


INVALID: dict[str, tuple[str, list[object]]] = {
    "REP_CONCURRENCY_PER_ADDRESS": (
        "a whole number, 0 or greater",
        [-1, 1.5, "few", True, inf, nan, []],
    ),
    "REP_CRAWL_DELAY_OBEY": ("True or False", ["2"]),
    "REP_SKIP_DELAY_OVER": (
        "a number of seconds, greater than 0",
        [-1, 0, "soon", inf, nan, 10**400, []],
    ),
    "REP_DIALECT": ("'google'", ["gogle", "os.path"]),
    "REP_ITEM_FIELD": ("the name of an item field", ["", " ", 3]),
    "REP_LEDGER": ("a string that is not empty", [False]),
    "REP_NOINDEX": ("'annotate'", [[]]),
    "REP_OVERRIDES": ('"ignore"', ["example.com", "[" * 100_000, {3: "ignore"}]),
    "REP_PAGES_PER_HOST": ("a whole number, 0 or greater", [-1, "1.5", False, inf]),
    "REP_PURPOSES": (
        "train-ai, ai-use, search, tdm",
        ["training", ["train-ai", "Search"]],
    ),
    "REP_REL": ("nofollow", [["nofolow"], "nofollow ugc"]),
    "REP_REQUEST_META_KEYS": (
        "list",
        [3, [3], '["a", 3]', '["a", "b"', {"a": 1}, "a,,b"],
    ),
    "REP_STORE": (
        "or the import path of a Store.",
        [f"{__name__}.MINE", f"{__name__}.Missing", "redis", "a.b", "", 3],
    ),
    "REP_USAGE": ("'annotate'", ["refuse"]),
    "REP_USAGE_UNKNOWN": ("'deny'", ["no"]),
    "REP_WAIT_TIMEOUT": ("a number of seconds, 0 or greater", [-1, True]),
    OBEY: ("True or False", ["", [], "perhaps"]),
    AGENTS: (
        "letters",
        [5, b"mybot", {"mybot": 1}, "my bot", " ", [""], "[]", ["mybot", "Bot 1"], "böt",
         "Mozilla/5.0 (X11) Firefox/140.0"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_value_is_an_error_that_lists_the_valid_ones(name: str) -> None:
    """The error for an invalid setting names the setting, its value, and the valid
    values, in one sentence.
    """
    allowed, values = INVALID[name]
    for value in values:
        message = error_of(**{name: value})
        assert message.startswith(f"{name} is {value!r}, but it must be ")
        assert allowed in message
        assert "\n" not in message


@pytest.mark.parametrize(
    ("entry", "key", "allowed"),
    [
        ("ignor", None, '"obey", '),
        (True, None, '"obey", '),
        ({}, None, '"obey", '),
        ({"obey": True, "robotstxt": "User-agent: *"}, None, '"obey", '),
        ({"obey": True, "delay": 3}, None, '"obey", '),
        ({"robotstxt": "ignore"}, "robotstxt", "the text "),
        ({"obey": "no"}, "obey", "True or False."),
        ({"pages": -1}, "pages", "a whole number, 0 or greater."),
        ({"pages": 1.5}, "pages", "a whole number, 0 or greater."),
        ({"pages": "500"}, "pages", "a whole number, 0 or greater."),
        ({"pages": True}, "pages", "a whole number, 0 or greater."),
        ({"pages": None}, "pages", "a whole number, 0 or greater."),
        ({"obey": False, "pages": []}, "pages", "a whole number, 0 or greater."),
        ({"pages": 5, "page": 5}, None, '"obey", '),
        ({"obey": False, "reason": 3}, "reason", "a text."),
        ({"obey": False, "until": ""}, "until", "an ISO "),
        ({"obey": False, "until": "01.01.2027"}, "until", "an ISO "),
        ({"obey": False, "until": "2027-13-01"}, "until", "an ISO "),
        ({"obey": False, "until": "9999-12-31"}, "until", "an ISO "),
        ({"obey": False, "until": "2027-01-01T00:00:00"}, "until", "an ISO "),
        ({"obey": False, "until": 2027}, "until", "an ISO "),
    ],
)
def test_an_error_in_an_override_names_the_part(
    entry: Any, key: str | None, allowed: str
) -> None:
    """The error for a part of an override names that part."""
    place = (
        f"REP_OVERRIDES['a.example'][{key!r}]" if key else "REP_OVERRIDES['a.example']"
    )
    value = entry[key] if key else entry
    message = error_of(REP_OVERRIDES={"a.example": entry})
    assert message.startswith(f"{place} is {value!r}, but it must be {allowed}")


def test_a_page_limit_alone_still_obeys_the_robotstxt_of_the_host() -> None:
    """A limit alone obeys the robots.txt of the host. 0 is no limit, whatever the setting for all hosts says."""
    text = "User-agent: *\nDisallow: /b\n"
    entries: dict[str, Any] = {
        "alone.example": {"pages": 500},
        "none.example": {"pages": 0, "reason": "large", "until": "2999-01-01"},
        "obey.example": {"obey": True, "pages": 2},
        "ignore.example": {"obey": False, "pages": 3},
        "text.example": {"robotstxt": text, "pages": 4},
        "short.example": "obey",
    }
    settings = read(REP_OVERRIDES=entries)
    assert {
        override.host: (override.kind, override.pages)
        for override in settings.overrides
    } == {
        "alone.example": ("obey", 500),
        "none.example": ("obey", 0),
        "obey.example": ("obey", 2),
        "ignore.example": ("ignore", 3),
        "text.example": ("robotstxt", 4),
        "short.example": ("obey", None),
    }
    assert settings.limits_pages
    assert not read(REP_OVERRIDES={"a.example": {"pages": 0}}).limits_pages
    assert not read(REP_OVERRIDES={"a.example": "ignore"}).limits_pages
    assert read(REP_PAGES_PER_HOST=1).limits_pages


@pytest.mark.parametrize(
    ("text", "line", "wrong", "remedy"),
    [
        ("Disallow: /", 1, "Disallow: /", "write User-agent: * above it"),
        ("User-agent: *\nDisalow: /a", 2, "Disalow: /a", "write Disallow"),
        ("User-agent: *\nDisallow: a", 2, "Disallow: a", "write '/a'"),
        ("# All:\nnothing", 2, "nothing", "below User-agent: *"),
    ],
)
def test_a_mistake_in_an_override_stops_the_crawl_with_its_remedy(
    text: str, line: int, wrong: str, remedy: str
) -> None:
    """A line that does not what it seems to do stops the crawl, and the error has the remedy."""
    for entry, key in ((text, ""), ({"robotstxt": text}, "['robotstxt']")):
        message = error_of(REP_OVERRIDES={"a.example": entry})
        place = f"Line {line} of REP_OVERRIDES['a.example']{key}"
        assert message.startswith(
            f"{place} is {wrong!r}, but it must be a line of a robots.txt"
        )
        assert remedy in message
    assert "write User-agent: *" in error_of(
        REP_OVERRIDES={"a.example": "Crawl-delay: 5"}
    )


def test_a_possible_mistake_in_an_override_is_a_warning() -> None:
    """A possible mistake is a warning. To forbid everything is none: an override may be for that."""
    text = "User-agent: *\nDisallow: /\n\nUser-agent: b\nCrawl-delay: 1\n"
    (override,) = read(REP_OVERRIDES={"a.example": text}).overrides
    (warning,) = override.warnings
    assert warning.startswith(
        "line 4: the crawlers of this group do not follow the rules for *"
    )
    assert "repeat those rules here" in warning
    (override,) = read(REP_OVERRIDES={"a.example": text[:25]}).overrides
    assert override.warnings == ()


@pytest.mark.parametrize(
    "pattern", ["http://a.example/", "", "a.example:65536", "a.example:0"]
)
def test_an_invalid_host_pattern_is_named(pattern: str) -> None:
    """The error for an invalid host pattern names the pattern."""
    message = error_of(REP_OVERRIDES={pattern: "obey"})
    start = f"A key of REP_OVERRIDES is {pattern!r}, but it must be a host pattern: "
    assert message.startswith(start)


@pytest.mark.newest
@pytest.mark.parametrize(
    "value",
    [None, "", " ", "x", "{", "[", [], [[]], {}, {"x": []}, b"x", object, 1.5, -1, 10**400,
     nan, "\ud800", "\0"],
    ids=ascii,
)  # fmt: skip
def test_any_value_is_accepted_or_raises_setting_error(value: Any) -> None:
    """Every value is either accepted, or raises SettingError."""
    for name in (*DEFAULTS, OBEY, AGENTS):
        with suppress(SettingError):
            read(**{name: value})


def test_an_unknown_rep_name_is_reported_with_the_nearest_one() -> None:
    """An unknown REP_ name is reported with the nearest known name."""
    settings = Settings(
        {"REP_CRAWL_DELAYS": 1, "REP_XYZZY": 1, "REP_REL": [], "REPRO": 1}
    )
    assert dict(unknown_names(settings)) == {
        "REP_CRAWL_DELAYS": "REP_CRAWL_DELAY_OBEY",
        "REP_XYZZY": None,
    }


PATTERNS = {
    "*": "http://notexample.com/",
    "*.example.com": "http://www.example.com/",
    "Example.com": "https://example.com/",
    "example.com:8080": "http://EXAMPLE.com:8080/",
    "*.www.example.com": "http://a.www.example.com/",
    "[::1]": "http://[::1]:8000/",
    "xn--bcher-kva.example": "http://bücher.example/",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_most_precise_override_decides(pattern: str) -> None:
    """The most precise override decides: a host before ``*.``, a longer pattern before a
    shorter one, and one with a port before one without.
    """
    settings = read(REP_OVERRIDES=dict.fromkeys(PATTERNS, "ignore"))
    place = where(PATTERNS[pattern])
    deciding = next(
        override for override in settings.overrides if override.covers(place)
    )
    assert deciding.pattern == pattern


@pytest.mark.parametrize(
    ("until", "ends"),
    [
        ("2027-01-01", "2027-01-02T00:00:00+00:00"),
        (date(2027, 1, 1), "2027-01-02T00:00:00+00:00"),
        ("2027-01-01T12:00:00Z", "2027-01-01T12:00:00+00:00"),
        ("2027-01-01T12:00:00+02:00", "2027-01-01T10:00:00+00:00"),
        (datetime(2027, 1, 1, tzinfo=timezone.utc), "2027-01-01T00:00:00+00:00"),
    ],
)
def test_an_override_ends_with_its_last_day_in_utc_or_at_its_time(
    until: object, ends: str
) -> None:
    """A day is the last one on which an override applies, in UTC; a time is its end."""
    entry = {"obey": False, "reason": " written\npermission ", "until": until}
    settings = read(REP_OVERRIDES={"a.example": entry, "*": "obey"})
    (override, _) = settings.overrides
    assert (override.kind, override.robots) == ("ignore", None)
    assert str(override) == f"a.example: ignore (written permission; until {until})"
    end = datetime.fromisoformat(ends).timestamp()
    place = where("http://a.example/")
    deciding = [
        override_for(settings.overrides, place, now) for now in (end - 1, end, end + 1)
    ]
    assert [override and override.pattern for override in deciding] == [
        "a.example",
        "*",
        "*",
    ]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ({"obey": True}, "a.example: obey"),
        ({"obey": False, "reason": "ours"}, "a.example: ignore (ours)"),
        (
            {"robotstxt": "User-agent: *\nDisallow: /x\n", "until": None},
            "a.example: robotstxt",
        ),
    ],
)
def test_an_override_needs_neither_a_reason_nor_an_end(
    written: dict[str, object], shown: str
) -> None:
    """The long form of an override needs neither a reason nor an end."""
    (override,) = read(REP_OVERRIDES={"a.example": written}).overrides
    assert (str(override), override.ends) == (shown, inf)
    assert (override.robots is None) == ("robotstxt" not in written)


@pytest.mark.parametrize(
    ("settings", "clients"),
    [
        ({}, set()),
        ({"TWISTED_REACTOR_ENABLED": False}, {"aiohttp"}),
        (
            {"DOWNLOAD_HANDLERS": {"https": "a._aiohttp.AiohttpDownloadHandler"}},
            {"aiohttp"},
        ),
        ({"DOWNLOAD_HANDLERS": {"https": "a.http2.H2DownloadHandler"}}, {"http2"}),
        ({"DOWNLOAD_HANDLERS": {"http": "a._httpx.HttpxDownloadHandler"}}, {"httpx"}),
        ({"DOWNLOAD_HANDLERS": {"ftp": "a._aiohttp.X", "https": None}}, set()),
    ],
)
def test_http_clients_are_recognised_by_their_download_handlers(
    settings: dict[str, Any], clients: set[str]
) -> None:
    """HTTP clients with special behaviour are recognised by the download
    handlers in Scrapy's settings.
    """
    assert RepSettings(Settings(settings)).clients == clients
