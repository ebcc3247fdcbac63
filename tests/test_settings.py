"""Settings, read and checked once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scrapy.settings import Settings
from scrapy.utils.spider import DefaultSpider
from scrapy.utils.test import get_crawler

from scrapy_rep import settings as settings_module
from scrapy_rep.downloadermiddlewares.indexing import IndexingMiddleware
from scrapy_rep.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.robotparser import RobotParser
from scrapy_rep.settings import DEFAULTS, RepSettings
from scrapy_rep.spidermiddlewares.indexing import IndexingGateMiddleware
from scrapy_rep.stores.memory import MemoryStore

MINE = replace(RFC9309, name="mine", index_html_quirk=True)


class OwnStore(MemoryStore):
    pass


def read(**settings: Any) -> RepSettings:
    return RepSettings.from_settings(Settings(settings))


def test_defaults() -> None:
    """Without any setting, the defaults of the table hold."""
    settings = read()
    assert settings.dialect is RFC9309
    assert settings.download_timeout == DEFAULTS["REP_DOWNLOAD_TIMEOUT"]
    assert settings.retry_times == DEFAULTS["REP_RETRY_TIMES"]
    assert list(settings.request_meta_keys) == DEFAULTS["REP_REQUEST_META_KEYS"]
    assert (settings.overrides, settings.agents, settings.obey) == ((), (), False)
    assert read(**DEFAULTS) == settings


@pytest.mark.parametrize(
    ("settings", "dialect"),
    [
        ({"REP_DIALECT": "google"}, GOOGLE),
        ({"REP_DIALECT": "classic"}, CLASSIC),
        ({"REP_DIALECT": GOOGLE}, GOOGLE),
        ({"REP_DIALECT": f"{__name__}.MINE"}, MINE),
        ({"REP_GOOGLE_COMPATIBLE": "True", "REP_DIALECT": "classic"}, GOOGLE),
        ({"REP_GOOGLE_COMPATIBLE": False, "REP_DIALECT": "classic"}, CLASSIC),
    ],
)
def test_dialect(settings: dict[str, Any], dialect: Any) -> None:
    """A dialect is chosen by its name, by the path of an object, or by the switch."""
    assert read(**settings).dialect == dialect


def test_the_components_of_a_crawl_share_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many components ask for the settings of a crawl, they are read once."""
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
    """A store is chosen by its address, or by the path of a class, as a dialect is."""
    assert read(REP_STORE=value).store is OwnStore
    recorded = settings_module.recorded(
        Settings({"REP_STORE": value}), read(REP_STORE=value)
    )
    assert recorded["REP_STORE"] == f"{__name__}.OwnStore"


@pytest.mark.parametrize(
    "value", [f"{__name__}.MINE", f"{__name__}.Missing", "redis", "no.such.module", 3]
)
def test_what_is_no_store(value: Any) -> None:
    """What is neither an address nor the path of a Store stops the start, and says so."""
    with pytest.raises(SettingError, match=r"or the import path of a Store\.$"):
        read(REP_STORE=value)


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
    """Tokens are taken as they are, or out of a header, one or several."""
    assert read(ROBOTSTXT_USER_AGENT=value).agents == agents


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("REP_DIALECT", "gogle", "'google'"),
        ("REP_DIALECT", 3, "'google'"),
        ("REP_DIALECT", "os.path", "'google'"),
        ("REP_DIALECT", [], "'google'"),
        ("REP_GOOGLE_COMPATIBLE", "perhaps", "True or False"),
        ("REP_DOWNLOAD_TIMEOUT", -1, "greater than 0"),
        ("REP_DOWNLOAD_TIMEOUT", 0, "greater than 0"),
        ("REP_DOWNLOAD_TIMEOUT", "soon", "greater than 0"),
        ("REP_DOWNLOAD_TIMEOUT", float("inf"), "greater than 0"),
        ("REP_DOWNLOAD_TIMEOUT", float("nan"), "greater than 0"),
        ("REP_RETRY_TIMES", -1, "0 or greater"),
        ("REP_RETRY_TIMES", 1.5, "0 or greater"),
        ("REP_REQUEST_META_KEYS", 3, "list"),
        ("REP_REQUEST_META_KEYS", [3], "list"),
        ("REP_OVERRIDES", {"example.com": "ignor"}, '"ignore"'),
        ("REP_OVERRIDES", {"example.com": True}, '"ignore"'),
        ("REP_OVERRIDES", {"http://example.com/": "ignore"}, '"*.example.com"'),
        ("REP_OVERRIDES", {"": "ignore"}, '"*.example.com"'),
        ("REP_OVERRIDES", {3: "ignore"}, '"*.example.com"'),
        ("REP_OVERRIDES", "example.com", '"ignore"'),
        ("REP_OVERRIDES", ["example.com"], '"ignore"'),
        ("REP_PURPOSES", "training", "train-ai, ai-use, search, tdm"),
        ("REP_PURPOSES", ["train-ai", "Search"], "train-ai, ai-use, search, tdm"),
        ("REP_PURPOSES", 3, "list"),
        ("REP_USAGE", "refuse", "'annotate'"),
        ("REP_USAGE", True, "'annotate'"),
        ("REP_USAGE_UNKNOWN", "no", "'deny'"),
        ("REP_AGENTS", "mybot", "by purpose"),
        ("REP_AGENTS", {"training": "mybot"}, "by purpose"),
        ("REP_AGENTS", {"train-ai": ""}, "by purpose"),
        ("REP_AGENTS", {"train-ai": 3}, "by purpose"),
        ("ROBOTSTXT_USER_AGENT", "my bot", "would be 'my'"),
        ("ROBOTSTXT_USER_AGENT", " ", "letters"),
        ("ROBOTSTXT_USER_AGENT", ["mybot", "Bot 1"], "'Bot 1' would be 'Bot'"),
        ("ROBOTSTXT_USER_AGENT", "böt", "letters"),
        ("ROBOTSTXT_USER_AGENT", "Mozilla/5.0 (X11) Firefox/140.0", "letters"),
    ],
)
def test_2_2_1_what_can_not_be(name: str, value: Any, allowed: str) -> None:
    """A bad setting is named, with its value and what is allowed, in one sentence."""
    with pytest.raises(SettingError) as caught:
        read(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name} is {value!r}, but it must be ")
    assert allowed in message
    assert "\n" not in message


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
    """A host beats ``*.``, the longer beats the shorter, and a port beats none."""
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


def test_overrides_from_the_command_line() -> None:
    """``-s REP_OVERRIDES='{"example.com": "ignore"}'`` is a dict in JSON."""
    (override,) = read(REP_OVERRIDES='{"example.com": "ignore"}').overrides
    assert (override.pattern, override.kind) == ("example.com", "ignore")


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("redis://:secret@host/x", "redis://***@host/x"),
        ("redis://user:s@cret@host/x", "redis://***@host/x"),
        ("rdeis://host", "rdeis://host"),
        ("", ""),
        (3, 3),
    ],
)
def test_a_bad_store_is_shown_without_its_password(uri: Any, shown: Any) -> None:
    """What stops the start ends in logs, where passwords must not be."""
    with pytest.raises(SettingError) as caught:
        read(REP_STORE=uri)
    assert str(caught.value).startswith(f"REP_STORE is {shown!r}, ")


def test_the_purpose_whose_name_can_not_be() -> None:
    with pytest.raises(SettingError) as caught:
        read(REP_AGENTS={"search": "mybot", "train-ai": "my bot"})
    assert str(caught.value).startswith("REP_AGENTS['train-ai'] is 'my bot', but ")


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("REP_PURPOSES", "", "purposes", ()),
        ("REP_PURPOSES", "search,tdm", "purposes", ("search", "tdm")),
        ("REP_PURPOSES", ["tdm", "search", "tdm"], "purposes", ("tdm", "search")),
        ("REP_USAGE", "annotate", "usage", "annotate"),
        ("REP_USAGE_UNKNOWN", "allow", "usage_unknown", True),
        ("REP_USAGE_UNKNOWN", "deny", "usage_unknown", False),
        ("REP_AGENTS", None, "purpose_agents", {}),
        (
            "REP_AGENTS",
            {"train-ai": "mybot-train, mybot"},
            "purpose_agents",
            {"train-ai": ("mybot-train", "mybot")},
        ),
        (
            "REP_AGENTS",
            '{"search": ["mybot-search/1.0"]}',
            "purpose_agents",
            {"search": ("mybot-search",)},
        ),
    ],
)
def test_what_a_crawl_is_for(name: str, value: Any, field: str, expected: Any) -> None:
    """Purposes and their agents: lists and dictionaries, from the command line as well."""
    assert getattr(read(**{name: value}), field) == expected


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
        ({"DOWNLOAD_HANDLERS": {"ftp": "a._aiohttp.X", "https": None}}, set()),
    ],
)
def test_clients(settings: dict[str, Any], clients: set[str]) -> None:
    """What downloads in a way of its own is known by the settings of Scrapy."""
    assert RepSettings.from_settings(Settings(settings)).clients == clients
