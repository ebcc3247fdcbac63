"""Tests of :class:`RepSettings`, which reads and checks the settings of a crawl once, when the crawl starts."""

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

OWN_DIALECT = replace(RFC9309, name="mine", index_html_quirk=True)
AGENTS = "ROBOTSTXT_USER_AGENT"
OBEY = "ROBOTSTXT_OBEY"


class OwnStore(SharedMemory):
    pass


def read(**settings: Any) -> RepSettings:
    return RepSettings(Settings(settings))


def error_of(**settings: Any) -> str:
    """Return the message of the SettingError that *settings* raise."""
    with pytest.raises(SettingError) as caught:
        read(**settings)
    return str(caught.value)


def origin_at(url: str) -> Origin:
    """Return the origin of *url*, which must be valid."""
    origin = origin_of(url)
    assert origin is not None
    return origin


def test_an_import_error_of_a_project_is_the_cause_of_the_setting_error() -> None:
    with pytest.raises(SettingError) as caught:
        read(REP_STORE="no_such_module.Store")
    assert isinstance(caught.value.__cause__, ImportError)


@pytest.mark.parametrize("store", ["redis:/:s3cret@host/0", "user:s3cret@host:6379"])
def test_an_error_shows_no_password(store: str) -> None:
    """A password in an invalid address is in no part of the traceback."""
    with pytest.raises(SettingError) as caught:
        read(REP_STORE=store)
    assert "s3cret" not in "".join(format_exception(caught.value))


def test_without_settings_the_defaults_are_used() -> None:
    settings = read()
    assert settings.dialect is RFC9309
    assert settings.max_age == DEFAULTS["REP_MAX_AGE"]
    assert list(settings.request_meta_keys) == DEFAULTS["REP_REQUEST_META_KEYS"]
    assert (settings.overrides, settings.agents, settings.obey) == ((), (), False)
    assert vars(read(**DEFAULTS)) == vars(settings)


def test_googles_dialect_has_no_delays_and_its_own_rel_values() -> None:
    """The Google dialect has no delays, even if a setting enables them. It has its own values of rel, unless REP_REL is
    set. REP_REL may be an empty list.
    """
    google = read(REP_DIALECT="google", REP_CRAWL_DELAY_OBEY=True)
    assert google.crawl_delay_obey is False
    assert google.rel == {"nofollow", "ugc", "sponsored"}
    assert read(REP_DIALECT="google", REP_REL=[]).rel == set()
    assert (read().crawl_delay_obey, read().rel) == (True, set())


def test_settings_are_read_once_for_all_components(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = []
    original_init = RepSettings.__init__

    def recording_init(self: RepSettings, settings: Settings) -> None:
        reads.append(settings)
        original_init(self, settings)

    monkeypatch.setattr(RepSettings, "__init__", recording_init)
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
    "REP_DIALECT": [
        ("classic", CLASSIC),
        (GOOGLE, GOOGLE),
        (f"{__name__}.OWN_DIALECT", OWN_DIALECT),
    ],
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
    """Every setting can be text, as in ``-s NAME=value``. Settings whose value is a list, a dict or a class can also be
    such an object.
    """
    field = FIELDS.get(name, name.removeprefix("REP_").lower())
    for value, expected in VALUES[name]:
        assert getattr(read(**{name: value}), field) == expected, value


def test_the_ledger_records_the_import_path_of_a_store_class() -> None:
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
        [f"{__name__}.OWN_DIALECT", f"{__name__}.Missing", "redis", "a.b", "", 3],
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
def test_the_error_for_an_invalid_value_states_the_valid_values(name: str) -> None:
    """The error names the setting, its value and the valid values in one sentence."""
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
    start = (
        f"REP_OVERRIDES['a.example'][{key!r}]" if key else "REP_OVERRIDES['a.example']"
    )
    value = entry[key] if key else entry
    message = error_of(REP_OVERRIDES={"a.example": entry})
    assert message.startswith(f"{start} is {value!r}, but it must be {allowed}")


def test_an_override_with_only_a_page_limit_obeys_the_robotstxt_of_the_host() -> None:
    """A limit of 0 means no limit, even if REP_PAGES_PER_HOST has a limit for all hosts."""
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
    ("text", "line", "mistake", "remedy"),
    [
        ("Disallow: /", 1, "Disallow: /", "write User-agent: * above it"),
        ("User-agent: *\nDisalow: /a", 2, "Disalow: /a", "write Disallow"),
        ("User-agent: *\nDisallow: a", 2, "Disallow: a", "write '/a'"),
        ("# All:\nnothing", 2, "nothing", "below User-agent: *"),
    ],
)
def test_a_mistake_in_the_robotstxt_of_an_override_is_an_error_with_a_remedy(
    text: str, line: int, mistake: str, remedy: str
) -> None:
    """A line that does not do what it seems to do stops the crawl."""
    for entry, key in ((text, ""), ({"robotstxt": text}, "['robotstxt']")):
        message = error_of(REP_OVERRIDES={"a.example": entry})
        start = f"Line {line} of REP_OVERRIDES['a.example']{key}"
        assert message.startswith(
            f"{start} is {mistake!r}, but it must be a line of a robots.txt"
        )
        assert remedy in message
    assert "write User-agent: *" in error_of(
        REP_OVERRIDES={"a.example": "Crawl-delay: 5"}
    )


def test_a_possible_mistake_in_the_robotstxt_of_an_override_is_a_warning() -> None:
    """A rule that forbids everything is no mistake, because this may be the purpose of the override."""
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
def test_the_error_for_an_invalid_host_pattern_names_the_pattern(pattern: str) -> None:
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
    """No value raises an exception of another class."""
    for name in (*DEFAULTS, OBEY, AGENTS):
        with suppress(SettingError):
            read(**{name: value})


def test_an_unknown_rep_setting_is_reported_with_the_most_similar_known_name() -> None:
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
    """A host name takes precedence over a pattern with ``*.``, a longer pattern over a shorter one, and a pattern with
    a port over a pattern without one.
    """
    settings = read(REP_OVERRIDES=dict.fromkeys(PATTERNS, "ignore"))
    origin = origin_at(PATTERNS[pattern])
    first = next(override for override in settings.overrides if override.covers(origin))
    assert first.pattern == pattern


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
    """If *until* is a day, the override still applies on that day, in UTC. If it is a time, the override ends then."""
    entry = {"obey": False, "reason": " written\npermission ", "until": until}
    settings = read(REP_OVERRIDES={"a.example": entry, "*": "obey"})
    (override, _) = settings.overrides
    assert (override.kind, override.robots) == ("ignore", None)
    assert str(override) == f"a.example: ignore (written permission; until {until})"
    end = datetime.fromisoformat(ends).timestamp()
    origin = origin_at("http://a.example/")
    deciding = [
        override_for(settings.overrides, origin, now) for now in (end - 1, end, end + 1)
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
    (override,) = read(REP_OVERRIDES={"a.example": written}).overrides
    assert (str(override), override.ends) == (shown, inf)
    assert (override.robots is None) == ("robotstxt" not in written)


@pytest.mark.parametrize(
    ("settings", "clients"),
    [
        ({}, {"twisted"}),
        ({"TWISTED_REACTOR_ENABLED": False}, {"aiohttp"}),
        (
            {"DOWNLOAD_HANDLERS": {"https": "a._aiohttp.AiohttpDownloadHandler"}},
            {"aiohttp", "twisted"},
        ),
        (
            {"DOWNLOAD_HANDLERS": {"https": "a.http2.H2DownloadHandler"}},
            {"http2", "twisted"},
        ),
        (
            {
                "TWISTED_REACTOR_ENABLED": False,
                "DOWNLOAD_HANDLERS": {"http": "a._httpx.HttpxDownloadHandler"},
            },
            {"aiohttp", "httpx"},
        ),
        ({"DOWNLOAD_HANDLERS": {"ftp": "a._aiohttp.X", "https": None}}, {"twisted"}),
        (
            {"DOWNLOAD_HANDLERS": {"http": None, "https": "a.http2.H2DownloadHandler"}},
            {"http2"},
        ),
    ],
)
def test_http_clients_are_recognised_by_their_download_handlers(
    settings: dict[str, Any], clients: set[str]
) -> None:
    """These clients send URLs in another form than Twisted does, so the gate must know which client a crawl uses."""
    assert RepSettings(Settings(settings)).clients == clients
