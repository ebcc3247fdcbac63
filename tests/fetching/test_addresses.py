"""Tests of :func:`open_store` and :func:`open_client`, which open the store at an address such as
``redis://localhost/0``.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.redisstore import RedisStore
from scrapy_rep.crawl.fetching.sqlitestore import SqliteStore
from scrapy_rep.crawl.fetching.store import open_client, open_store
from scrapy_rep.exceptions import SettingError, StoreNotInstalled
from tests.fakes import fake_crawler

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.newest


@pytest.mark.parametrize(
    ("uri", "kind", "mb"),
    [
        ("memory://", type(None), 128),
        ("memory://?mb=64", type(None), 64),
        ("sqlite:///robots.db", SqliteStore, 128),
        ("sqlite:////var/lib/robots.db?mb=1", SqliteStore, 1),
        ("redis://localhost", RedisStore, 128),
        ("redis://:secret@localhost:6380/3?mb=64", RedisStore, 64),
        ("redis://[::1]:6380/3?socket_timeout=0.5&mb=64", RedisStore, 64),
        ("rediss://localhost:6380/3?mb=64&socket_timeout=0.5", RedisStore, 64),
        ("unix:///run/redis.sock?db=2", RedisStore, 128),
    ],
)
def test_the_scheme_selects_the_kind_of_store(uri: str, kind: type, mb: int) -> None:
    """The option ``mb`` sets the limit for memory. No file or connection is opened yet."""
    store, max_bytes = open_store(uri)
    assert type(store) is kind
    assert max_bytes == mb * 1_000_000


def test_the_redis_client_gets_all_options_except_mb() -> None:
    """The position of ``mb`` among the options does not matter."""
    for query in ("socket_timeout=7&mb=9", "mb=9&socket_timeout=7"):
        store, _ = open_store(f"redis://h/3?{query}")
        pool = store._redis.connection_pool.connection_kwargs
        assert (pool["db"], pool["socket_timeout"]) == (3, 7)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "memory",
        "memory:",
        "memory://elsewhere",
        "memory://?mb=0",
        "memory://?mb=much",
        "memory://?size=5",
        "mysql://localhost/robots",
        "redis:",
        "redis://localhost:port/0",
        "redis://localhost:0/0",
        "redis://localhost/robots",
        "redis://user:pass/word@localhost/0",
        "redis://localhost?socket_timeout=soon",
        "redis://[::1",
        "robots.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///robots\0.db",
        "sqlite:///robots.db?timeout=5",
        "sqlite://robots.db",
        "unix://",
    ],
)
def test_an_invalid_address_is_refused_without_repeating_it(uri: str) -> None:
    """The error lists the valid forms of an address. It does not repeat the address, which may contain a password."""
    with pytest.raises(ValueError, match=r"^The address of a store must be memory://"):
        open_store(uri)


def error_of(store: Any) -> str:
    """Return the message of the error for this value of REP_STORE."""
    crawler = fake_crawler({"USER_AGENT": "mybot", "REP_STORE": store})
    with pytest.raises(SettingError) as caught:
        open_client(crawler, RepSettings.of(crawler).store)
    return str(caught.value)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("rdeis://host", "rdeis://host"),
        ("redis://:secret@host/x", "redis://***@host/x"),
        ("redis://user:s@cret@host/x", "redis://***@host/x"),
        ("redis:/:secret@host/x", "***@host/x"),
        (["redis://:secret@host"], "['redis://***@host']"),
        (b"redis://:secret@host", "b'redis://***@host'"),
    ],
)
def test_the_error_for_an_invalid_rep_store_hides_the_password(
    uri: Any, shown: str
) -> None:
    """The error is logged, so it must not contain the password. It lists the valid forms of an address."""
    message = error_of(uri)
    assert message.startswith(f"REP_STORE is {shown!r}, ")
    assert message.endswith("or the import path of a Store.")


def test_a_class_that_is_not_a_store_is_refused() -> None:
    assert error_of("pathlib.Path").endswith("or the import path of a Store.")


def test_the_setting_error_names_the_missing_package_of_a_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error hides the password of the address."""
    for name in ("redis", "redis.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    message = error_of("redis://:secret@localhost:6379/0")
    assert "REP_STORE" in message
    assert "scrapy-rep[redis]" in message
    assert "secret" not in message


def test_a_relative_path_is_resolved_when_the_store_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later change of the working directory has no effect."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    store, _ = open_store("sqlite:///folder/robots.db")
    monkeypatch.chdir(elsewhere)
    store.put("http://example.com", b"data", 0)
    store.close()
    assert (tmp_path / "folder" / "robots.db").is_file()


def test_without_the_redis_client_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error hides the password of the address."""
    for name in ("redis", "redis.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(StoreNotInstalled) as raised:
        open_store("redis://:secret@localhost:6379/0")
    assert str(raised.value) == (
        "redis://***@localhost:6379/0: the package redis is not installed: "
        "install it with pip install 'scrapy-rep[redis]'"
    )


def test_a_store_in_memory_needs_neither_sqlite_nor_redis_nor_a_reactor() -> None:
    """Some builds of Python have no SQLite."""
    code = (
        "import sys;"
        "names = ['redis', 'sqlite3', 'twisted.internet.reactor'];"
        "sys.modules.update(dict.fromkeys(names));"
        "from scrapy_rep.crawl.fetching.store import open_store; open_store('memory://')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
