"""Rules of this repository that no linter checks."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from configparser import ConfigParser
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dev
import scrapy_rep

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "scrapy_rep"


def name_of(path: Path) -> str:
    """The name of the module at *path*."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}


@cache
def imports_in(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """The import statements of the module at *path*, anywhere in it."""
    nodes = ast.walk(ast.parse(MODULES[path]))
    return [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]


NAMES = {name_of(path) for path in MODULES}
SETUP = ConfigParser(interpolation=None)
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")


def test_no_module_imports_names_from_the_package_itself() -> None:
    """Modules of the package do not import names from ``scrapy_rep``
    itself, which imports them.
    """
    for path in MODULES:
        for node in imports_in(path):
            if isinstance(node, ast.Import):
                assert all(alias.name != "scrapy_rep" for alias in node.names), path
            elif node.module == "scrapy_rep":
                for alias in node.names:
                    path_of_name = PACKAGE / alias.name
                    is_module = (
                        path_of_name.is_dir()
                        or path_of_name.with_suffix(".py").exists()
                    )
                    assert is_module, (path, alias.name)


def imports_of(path: Path) -> set[str]:
    """The modules of the package that a module imports, anywhere in it and for types alone too."""
    imported = set()
    for node in imports_in(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            imported.update(name if name in NAMES else node.module for name in names)
        elif isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
    return imported & NAMES


def test_no_import_is_circular() -> None:
    """No module imports one that imports it, directly or by others, be it for types alone."""
    graph = {name_of(path): imports_of(path) - {"scrapy_rep"} for path in MODULES}
    del graph["scrapy_rep"]
    TopologicalSorter(graph).prepare()


def test_a_plain_crawl_imports_only_what_it_needs() -> None:
    """A crawl with the add-on and no other setting imports no tool, nothing for workers, browsers,
    dry runs and ledgers, and no library that only a feature needs that is off. What takes time at
    each start is counted: modules, and classes whose code is generated.
    """
    code = """if True:
        import sys
        from scrapy import Spider
        from scrapy.crawler import AsyncCrawlerProcess

        class Empty(Spider):
            name = "empty"
            start_urls = []

        process = AsyncCrawlerProcess({"ADDONS": {"scrapy_rep.Addon": 500}})
        process.crawl(Empty)
        process.start()
        print(*sys.modules)
        from dataclasses import is_dataclass
        print(*{
            value.__name__
            for name, module in list(sys.modules.items()) if name.startswith("scrapy_rep")
            for value in vars(module).values()
            if isinstance(value, type) and is_dataclass(value)
        })
        """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    modules, generated = done.stdout.splitlines()
    loaded = modules.split()
    rooms = (
        r"tools|redis|playwright|crawl.ledger.(reader|writer)|.*\.(metatags|dates|usage\.sites)"
        r"|crawl.dryrun|.*(sqlitefile|jobfile|sqlitestore|redisstore|robotparser)"
    )
    assert [
        name for name in loaded if re.fullmatch(rf"scrapy_rep\.({rooms})", name)
    ] == []
    libraries = {"dateutil", "http_sf", "itemadapter", "jinja2", "playwright", "redis"}
    assert libraries.isdisjoint(loaded)
    assert sum(name.partition(".")[0] == "scrapy_rep" for name in loaded) <= 71
    # While few modules are loaded, see the add-on.
    first = loaded.index("scrapy_rep.crawl.frontier.frontier")
    assert "scrapy.core.downloader.contextfactory" in loaded[:first]
    assert generated == "Dialect"


def test_each_logger_escapes_control_characters() -> None:
    """All loggers come from ``scrapy_rep.base.log``, which escapes control characters in messages."""
    for path, text in MODULES.items():
        assert path.name == "log.py" or "getLogger(" not in text, path


def test_the_protocol_needs_no_scrapy() -> None:
    """The protocol can be imported without Scrapy and Twisted."""
    code = (
        "import sys; import scrapy_rep; from scrapy_rep import RobotsTxt;"
        "from importlib import import_module; from pkgutil import walk_packages;"
        "from scrapy_rep import protocol;"
        "[import_module(module.name) for module in"
        " walk_packages(protocol.__path__, 'scrapy_rep.protocol.')];"
        "print([name for name in ('scrapy', 'twisted') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.check_output(command, text=True).strip() == "[]"


def test_each_public_name_can_be_imported() -> None:
    """Each name in ``__all__`` can be imported, and other names raise AttributeError."""
    for name in scrapy_rep.__all__:
        assert hasattr(scrapy_rep, name)
    with pytest.raises(AttributeError, match="no attribute 'Parser'"):
        scrapy_rep.Parser


def test_the_files_name_the_same_versions() -> None:
    """setup.cfg, the test command and the changelog name the same versions of Python, of the oldest
    Scrapy and of this package, which the code does not repeat.
    """
    classifiers = SETUP["metadata"]["classifiers"]
    pythons = re.findall(r":: Python :: (3\.\d+)$", classifiers, re.MULTILINE)
    assert [f"python{version}" for version in pythons] == dev.PYTHONS
    assert SETUP["options"]["python_requires"] == f">={pythons[0]}"
    required = SETUP["options"]["install_requires"]
    assert f"Scrapy>={dev.OLDEST_SCRAPY.removesuffix('.0')}" in required
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {scrapy_rep.__version__} " in changelog
    written = f'"{scrapy_rep.__version__}"'
    assert sum(written in text for text in MODULES.values()) == 1


def test_each_data_file_is_in_the_wheel() -> None:
    """Each file of the package that is not Python code is declared as package data,
    so that wheels contain it.
    """
    globs = SETUP["options.package_data"]["scrapy_rep"].split()
    declared = {path for glob in globs for path in PACKAGE.glob(glob)}
    files = {path for path in PACKAGE.rglob("*") if path.is_file()}
    data = {path for path in files if path.suffix not in {".py", ".pyc"}}
    assert declared == data
    assert PACKAGE / "py.typed" in declared


def test_the_description_on_a_package_index_has_no_dead_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A package index gets the text of README.md without links and pictures that it does not
    have; where a link was, the text names the file.
    """
    setuptools = pytest.importorskip("setuptools")
    arguments: dict[str, str] = {}
    monkeypatch.setattr(setuptools, "setup", arguments.update)
    runpy.run_path(str(ROOT / "setup.py"))
    text = arguments["long_description"]
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert targets
    assert all(target.startswith("https://") for target in targets)
    assert "Tutorial (`docs/tutorial.md`)" in text
    assert "ADDONS = " in text
    assert "long_description" not in SETUP["metadata"]
