"""Tests of this repository's own rules, which no linter checks."""

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
    """Return the name of the module at *path*."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
"""The source code of each module of the package, by path."""


@cache
def imports_in(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Return all import statements in the module at *path*, not only those at its top level."""
    nodes = ast.walk(ast.parse(MODULES[path]))
    return [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]


NAMES = {name_of(path) for path in MODULES}
"""The names of the package's modules."""

SETUP = ConfigParser(interpolation=None)
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")


def test_no_module_imports_names_from_the_package_itself() -> None:
    """``scrapy_rep`` itself imports the modules of the package, so these imports would be circular."""
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


def modules_imported_by(path: Path) -> set[str]:
    """Return the names of the package's modules that the module at *path* imports. They include imports for type
    checking.
    """
    imported = set()
    for node in imports_in(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            imported.update(name if name in NAMES else node.module for name in names)
        elif isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
    return imported & NAMES


def test_no_import_is_circular() -> None:
    """Imports for type checking count, too."""
    graph = {
        name_of(path): modules_imported_by(path) - {"scrapy_rep"} for path in MODULES
    }
    del graph["scrapy_rep"]
    TopologicalSorter(graph).prepare()


def test_a_plain_crawl_imports_only_what_it_needs() -> None:
    """A crawl with the add-on and no other setting does not import the tools, nor the modules for workers, browsers,
    dry runs and ledgers, nor the libraries of features that are switched off. The test also limits the number of
    modules and of generated classes (dataclasses), because both take time at each start of a crawl.
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
    crawl = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    modules, dataclasses = crawl.stdout.splitlines()
    loaded = modules.split()
    unneeded = (
        r"tools|redis|playwright|crawl.ledger.(reader|writer)|.*\.(metatags|dates|usage\.sites)"
        r"|crawl.dryrun|.*(sqlitefile|jobfile|sqlitestore|redisstore|robotparser)"
    )
    assert [
        name for name in loaded if re.fullmatch(rf"scrapy_rep\.({unneeded})", name)
    ] == []
    libraries = {"dateutil", "http_sf", "itemadapter", "jinja2", "playwright", "redis"}
    assert libraries.isdisjoint(loaded)
    assert sum(name.partition(".")[0] == "scrapy_rep" for name in loaded) <= 71
    # Scrapy's contextfactory is imported before the components of the package: importing it takes longer if more
    # modules are loaded.
    frontier_index = loaded.index("scrapy_rep.crawl.frontier.frontier")
    assert "scrapy.core.downloader.contextfactory" in loaded[:frontier_index]
    assert dataclasses == "Dialect"


def test_each_logger_escapes_control_characters() -> None:
    """The loggers of ``scrapy_rep.base.log`` escape control characters in messages. No other module gets a logger from
    ``logging``.
    """
    for path, text in MODULES.items():
        assert path.name == "log.py" or "getLogger(" not in text, path


def test_the_protocol_package_imports_neither_scrapy_nor_twisted() -> None:
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
    """Names that are not in ``__all__`` raise AttributeError."""
    for name in scrapy_rep.__all__:
        assert hasattr(scrapy_rep, name)
    with pytest.raises(AttributeError, match="no attribute 'Parser'"):
        scrapy_rep.Parser


def test_setup_cfg_dev_py_and_changelog_name_the_same_versions() -> None:
    """The versions are those of Python, of the oldest Scrapy, and of this package. Only one module contains the version
    of this package.
    """
    classifiers = SETUP["metadata"]["classifiers"]
    pythons = re.findall(r":: Python :: (3\.\d+)$", classifiers, re.MULTILINE)
    assert [f"python{version}" for version in pythons] == dev.PYTHONS
    assert SETUP["options"]["python_requires"] == f">={pythons[0]}"
    required = SETUP["options"]["install_requires"]
    assert f"Scrapy>={dev.OLDEST_SCRAPY.removesuffix('.0')}" in required
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {scrapy_rep.__version__} " in changelog
    literal = f'"{scrapy_rep.__version__}"'
    assert sum(literal in text for text in MODULES.values()) == 1


def test_each_data_file_is_in_the_wheel() -> None:
    """Each file of the package that is not Python code must be declared as package data. Otherwise, wheels do not
    contain it.
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
    """README.md links to files that a package index does not have. In the description for the index, such a link
    becomes the name of the file, and pictures are left out.
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
