"""Settings are read and checked once, at the start."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timezone
from math import inf
from typing import Any

import pytest
from scrapy.settings import Settings
from scrapy.utils.spider import DefaultSpider
from scrapy.utils.test import get_crawler

from scrapy_rep import settings as settings_module
from scrapy_rep.downloadermiddlewares.indexing import IndexingMiddleware
from scrapy_rep.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.access.overrides import Override, override_for
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.robotparser import RobotParser
from scrapy_rep.settings import DEFAULTS, RepSettings, unknown_names
from scrapy_rep.spidermiddlewares.indexing import IndexingGateMiddleware
from tests.stores.places import SharedMemory

MINE = replace(RFC9309, name="mine", index_html_quirk=True)


class OwnStore(SharedMemory):
    pass


def read(**settings: Any) -> RepSettings:
    return RepSettings.from_settings(Settings(settings))


def test_defaults() -> None:
    """Without settings, the defaults hold."""
    settings = read()
    assert settings.dialect is RFC9309
    assert settings.max_age == DEFAULTS["REP_MAX_AGE"]
    assert list(settings.request_meta_keys) == DEFAULTS["REP_REQUEST_META_KEYS"]
    assert (settings.overrides, settings.agents, settings.obey) == ((), (), False)
    assert read(**DEFAULTS) == settings


def test_what_the_dialect_decides() -> None:
    """The Google dialect has no delays and visiting hours, whatever the settings say, and
    values of rel of its own unless the setting has a list, be it an empty one.
    """
    google = read(REP_DIALECT="google", REP_CRAWL_DELAY=True)
    assert google.crawl_delay is False
    assert google.rel == {"nofollow", "ugc", "sponsored"}
    assert read(REP_DIALECT="google", REP_REL=[]).rel == set()
    assert (read().crawl_delay, read().rel) == (True, set())


def test_the_components_of_a_crawl_share_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The settings of a crawl are read once, however many components use them."""
    reads = []
    once = RepSettings.from_settings
    monkeypatch.setattr(
        RepSettings, "from_settings", lambda found: reads.append(found) or once(found)
    )
    crawler = get_crawler(DefaultSpider, {"ROBOTSTXT_OBEY": True})
    for component in (
        RobotsTxtMiddleware,
        IndexingMiddleware,
        IndexingGateMiddleware,
    ):
        component.from_crawler(crawler)
    RobotParser.from_crawler(crawler, b"")
    assert reads == [crawler.settings]


@pytest.mark.parametrize("value", [f"{__name__}.OwnStore", OwnStore])
def test_a_store_of_ones_own(value: Any) -> None:
    """REP_STORE can be the import path of a Store class."""
    assert read(REP_STORE=value).store is OwnStore
    recorded = settings_module.recorded(
        Settings({"REP_STORE": value}), read(REP_STORE=value)
    )
    assert recorded["REP_STORE"] == f"{__name__}.OwnStore"


def test_a_store_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that needs a missing package raises SettingError, which names the package and
    hides the password.
    """
    for name in ("redis", "redis.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SettingError, match=r"scrapy-rep\[redis\]") as raised:
        read(REP_STORE="redis://:secret@localhost:6379/0")
    assert "REP_STORE" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "agents"),
    [
        (None, ()),
        ("", ()),
        ("mybot", ("mybot",)),
        ("mybot/1.0 (+https://example.com/bot)", ("mybot",)),
        ("mybot-images, mybot", ("mybot-images", "mybot")),
        ("AI2Bot", ("AI2Bot",)),
        ("MJ12bot/1.4", ("MJ12bot",)),
        ("my.bot-2, my_bot", ("my.bot-2", "my_bot")),
        (["mybot-images", "mybot", "mybot"], ("mybot-images", "mybot")),
        ("Mozilla/5.0 (KHTML, like Gecko; compatible; mybot/1.0)", ("mybot",)),
    ],
)
def test_agents(value: Any, agents: tuple[str, ...]) -> None:
    """ROBOTSTXT_USER_AGENT can be one or several product tokens, or a User-Agent
    header that contains one.
    """
    assert read(ROBOTSTXT_USER_AGENT=value).agents == agents


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("REP_DIALECT", "gogle", "'google'"),
        ("REP_DIALECT", "os.path", "'google'"),
        ("REP_WAIT_MAX", -1, "0 or greater"),
        ("REP_WAIT_MAX", True, "number of seconds"),
        ("REP_CRAWL_DELAY_MAX", -1, "greater than 0"),
        ("REP_CRAWL_DELAY_MAX", 0, "greater than 0"),
        ("REP_CRAWL_DELAY_MAX", "soon", "greater than 0"),
        ("REP_CRAWL_DELAY_MAX", float("inf"), "greater than 0"),
        ("REP_CRAWL_DELAY_MAX", float("nan"), "greater than 0"),
        ("REP_REQUEST_META_KEYS", 3, "list"),
        ("REP_REQUEST_META_KEYS", [3], "list"),
        ("REP_OVERRIDES", "example.com", '"ignore"'),
        ("REP_OVERRIDES", "[" * 100_000, '"ignore"'),
        ("REP_CRAWL_DELAY_MAX", 10**400, "greater than 0"),
        ("REP_CRAWL_DELAY_MAX", [], "number of seconds"),
        ("REP_LEDGER", False, "a string that is not empty"),
        ("REP_NOINDEX", [], "'annotate'"),
        ("REP_REL", ["nofolow"], "nofollow"),
        ("REP_REL", "nofollow ugc", "nofollow"),
        ("REP_REQUEST_META_KEYS", '["a", 3]', "list"),
        ("REP_REQUEST_META_KEYS", '["a", "b"', "list"),
        ("REP_REQUEST_META_KEYS", {"a": 1}, "list"),
        ("REP_REQUEST_META_KEYS", "a,,b", "list"),
        ("REP_CRAWL_DELAY", "2", "REP_CRAWL_DELAY_MAX"),
        ("ROBOTSTXT_OBEY", "", "True or False"),
        ("ROBOTSTXT_OBEY", [], "True or False"),
        ("ROBOTSTXT_OBEY", "perhaps", "True or False"),
        ("REP_PURPOSES", "training", "train-ai, ai-use, search, tdm"),
        ("REP_PURPOSES", ["train-ai", "Search"], "train-ai, ai-use, search, tdm"),
        ("REP_USAGE", "refuse", "'annotate'"),
        ("REP_USAGE_UNKNOWN", "no", "'deny'"),
        ("REP_AGENTS", "mybot", "by purpose"),
        ("REP_AGENTS", {"training": "mybot"}, "by purpose"),
        ("REP_AGENTS", {"train-ai": ""}, "by purpose"),
        *(
            ("REP_STORE", value, "or the import path of a Store.")
            for value in (f"{__name__}.MINE", f"{__name__}.Missing", "redis", "a.b", 3)
        ),
        ("ROBOTSTXT_USER_AGENT", 5, "letters"),
        ("ROBOTSTXT_USER_AGENT", b"mybot", "letters"),
        ("ROBOTSTXT_USER_AGENT", {"mybot": 1}, "letters"),
        ("ROBOTSTXT_USER_AGENT", "my bot", "letters"),
        ("ROBOTSTXT_USER_AGENT", " ", "letters"),
        ("ROBOTSTXT_USER_AGENT", [""], "letters"),
        ("ROBOTSTXT_USER_AGENT", "[]", "letters"),
        ("ROBOTSTXT_USER_AGENT", ["mybot", "Bot 1"], "letters"),
        ("ROBOTSTXT_USER_AGENT", "böt", "letters"),
        ("ROBOTSTXT_USER_AGENT", "Mozilla/5.0 (X11) Firefox/140.0", "letters"),
    ],
)
def test_2_2_1_what_can_not_be(name: str, value: Any, allowed: str) -> None:
    """The error for an invalid setting names the setting, its value, and the valid
    values, in one sentence.
    """
    with pytest.raises(SettingError) as caught:
        read(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name} is {value!r}, but it must be ")
    assert allowed in message
    assert "\n" not in message


def of(entry: object) -> dict[str, object]:
    return {"a.example": entry}


@pytest.mark.parametrize(
    ("name", "written", "where", "value", "allowed"),
    [
        *(
            ("REP_OVERRIDES", of(value), "['a.example']", value, '"obey", ')
            for value in (
                "ignor",
                True,
                {},
                {"obey": True, "robotstxt": "User-agent: *"},
                {"obey": True, "delay": 3},
            )
        ),
        *(
            ("REP_OVERRIDES", {key: "obey"}, None, key, "a host pattern: ")
            for key in ("http://a.example/", "", "a.example:65536", "a.example:0")
        ),
        *(
            (
                "REP_OVERRIDES",
                of({"obey": False, name: value}),
                f"['a.example'][{name!r}]",
                value,
                allowed,
            )
            for name, value, allowed in (
                ("obey", "no", "True or False."),
                ("reason", 3, "a text."),
                ("until", "", "an ISO "),
                ("until", "01.01.2027", "an ISO "),
                ("until", "2027-13-01", "an ISO "),
                ("until", "9999-12-31", "an ISO "),
                ("until", "2027-01-01T00:00:00", "an ISO "),
                ("until", 2027, "an ISO "),
            )
        ),
        (
            "REP_OVERRIDES",
            of({"robotstxt": "ignore"}),
            "['a.example']['robotstxt']",
            "ignore",
            "the text ",
        ),
        ("REP_OVERRIDES", {3: "ignore"}, "", {3: "ignore"}, "a dict of "),
        *(
            ("REP_AGENTS", {"search": "a", "tdm": value}, "['tdm']", value, "")
            for value in ("my bot", 3, [""])
        ),
    ],
)
def test_a_part_that_can_not_be(
    name: str, written: Any, where: str | None, value: object, allowed: str
) -> None:
    """The error for a part of an invalid setting names that part, or its key."""
    with pytest.raises(SettingError) as caught:
        read(**{name: written})
    place = f"A key of {name}" if where is None else f"{name}{where}"
    sentence = f"{place} is {value!r}, but it must be {allowed}"
    assert str(caught.value).startswith(sentence)


VALUES: dict[str, list[tuple[object, object]]] = {
    "REP_AGENTS": [
        ("", {}),
        ({"search": "a-bot, b"}, {"search": ("a-bot", "b")}),
        ('{"search": ["a-bot/1.0"]}', {"search": ("a-bot",)}),
    ],
    "REP_BACKOFF_MAX": [("0", 0.0), ("300", 300.0)],
    "REP_CRAWL_DELAY": [("0", False), ("true", True)],
    "REP_CRAWL_DELAY_MAX": [("2.5", 2.5)],
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
    "REP_STORE": [("sqlite:///a.sqlite", "sqlite:///a.sqlite")],
    "REP_USAGE": [("ignore", "ignore")],
    "REP_USAGE_UNKNOWN": [("deny", False), ("allow", True)],
    "REP_WAIT_MAX": [("0", 0.0), ("60", 60.0)],
    "ROBOTSTXT_OBEY": [("True", True), ("0", False)],
    "ROBOTSTXT_USER_AGENT": [("", ()), ("a-bot, b", ("a-bot", "b")), ('["b"]', ("b",))],
}
FIELDS = {
    "REP_AGENTS": "purpose_agents",
    "ROBOTSTXT_OBEY": "obey",
    "ROBOTSTXT_USER_AGENT": "agents",
}


@pytest.mark.parametrize("name", [*DEFAULTS, "ROBOTSTXT_OBEY", "ROBOTSTXT_USER_AGENT"])
def test_values(name: str) -> None:
    """Every setting can be given as text, as in ``-s NAME=value``; lists and dicts as such, too."""
    field = FIELDS.get(name, name.removeprefix("REP_").lower())
    for value, expected in VALUES[name]:
        assert getattr(read(**{name: value}), field) == expected, value


@pytest.mark.newest
@pytest.mark.parametrize(
    "value",
    [None, "", " ", "x", "{", "[", [], [[]], {}, {"x": []}, b"x", object, 1.5, -1, 10**400,
     float("nan"), "\ud800", "\0"],
    ids=ascii,
)  # fmt: skip
def test_nothing_but_a_sentence(value: Any) -> None:
    """Every value is either accepted, or raises SettingError."""
    for name in (*DEFAULTS, "ROBOTSTXT_OBEY", "ROBOTSTXT_USER_AGENT"):
        with suppress(SettingError):
            read(**{name: value})


def test_names_that_are_no_settings() -> None:
    """An unknown REP_ name is reported with the nearest known name."""
    settings = Settings(
        {"REP_CRAWL_DELAYS": 1, "REP_XYZZY": 1, "REP_REL": [], "REPRO": 1}
    )
    assert dict(unknown_names(settings)) == {
        "REP_CRAWL_DELAYS": "REP_CRAWL_DELAY",
        "REP_XYZZY": None,
    }


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("http://example.com/", "example.com"),
        ("https://example.com/", "example.com"),
        ("http://EXAMPLE.com:8080/", "example.com:8080"),
        ("http://www.example.com/", "*.example.com"),
        ("http://a.www.example.com/", "*.www.example.com"),
        ("http://notexample.com/", "*"),
        ("http://[::1]:8000/", "[::1]"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
    ],
)
def test_the_most_precise_override_decides(url: str, pattern: str) -> None:
    """The most precise override decides: a host before ``*.``, a longer pattern before a
    shorter one, and one with a port before one without.
    """
    settings = read(
        REP_OVERRIDES=dict.fromkeys(
            [
                "*",
                "*.example.com",
                "Example.com",
                "example.com:8080",
                "*.www.example.com",
                "[::1]",
                "xn--bcher-kva.example",
            ],
            "ignore",
        )
    )
    where = origin_of(url)
    assert where is not None
    found = next(one for one in settings.overrides if one.covers(where))
    assert found.pattern.lower() == pattern


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
def test_the_end_of_an_override(until: object, ends: str) -> None:
    """A day is the last one on which an override applies, in UTC; a time is its end."""
    entry = {"obey": False, "reason": " written\npermission ", "until": until}
    settings = read(REP_OVERRIDES={"a.example": entry, "*": "obey"})
    (override, _) = settings.overrides
    assert (override.kind, override.robots) == ("ignore", None)
    assert str(override) == f"a.example: ignore (written permission; until {until})"
    end = datetime.fromisoformat(ends).timestamp()
    where = origin_of("http://a.example/")
    assert where is not None
    deciding = [
        override_for(settings.overrides, where, now) for now in (end - 1, end, end + 1)
    ]
    assert [one and one.pattern for one in deciding] == ["a.example", "*", "*"]


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
def test_the_long_form_of_an_override(written: dict[str, object], shown: str) -> None:
    """The long form of an override needs neither a reason nor an end."""
    (override,) = read(REP_OVERRIDES={"a.example": written}).overrides
    assert (str(override), override.ends) == (shown, inf)
    assert (override.robots is None) == ("robotstxt" not in written)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("redis://:secret@host/x", "redis://***@host/x"),
        ("redis://user:s@cret@host/x", "redis://***@host/x"),
        ("redis:/:secret@host/x", "***@host/x"),
        (["redis://:secret@host"], "['redis://***@host']"),
        (b"redis://:secret@host", "b'redis://***@host'"),
        ("rdeis://host", "rdeis://host"),
        ("", ""),
        (3, 3),
    ],
)
def test_a_bad_store_is_shown_without_its_password(uri: Any, shown: Any) -> None:
    """The error for an invalid REP_STORE hides the password, since it is logged."""
    with pytest.raises(SettingError) as caught:
        read(REP_STORE=uri)
    assert str(caught.value).startswith(f"REP_STORE is {shown!r}, ")


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
def test_clients(settings: dict[str, Any], clients: set[str]) -> None:
    """HTTP clients with special behaviour are recognised by the download
    handlers in Scrapy's settings.
    """
    assert RepSettings.from_settings(Settings(settings)).clients == clients
