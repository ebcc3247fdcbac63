"""Versions and files are declared consistently in setup.cfg, the test
command and the workflow.
"""

from __future__ import annotations

import re
import runpy
from configparser import ConfigParser
from pathlib import Path

import pytest

import dev

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[1]
SETUP = ConfigParser(interpolation=None)
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
WORKFLOW = ROOT / ".github" / "workflows" / "tests.yml"


def test_pythons() -> None:
    """setup.cfg, the test command and the workflow name the same versions of Python."""
    text = SETUP["metadata"]["classifiers"]
    declared = re.findall(r":: Python :: (3\.\d+)$", text, re.MULTILINE)
    assert [f"python{version}" for version in declared] == dev.PYTHONS
    assert SETUP["options"]["python_requires"] == f">={declared[0]}"
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == declared
    ends = [declared[0], declared[-1]]
    assert jobs["others"]["strategy"]["matrix"]["python"] == ends


def test_oldest_scrapy() -> None:
    """The oldest allowed version of Scrapy is the one that is tested."""
    oldest = dev.OLDEST_SCRAPY
    assert (
        f"Scrapy>={oldest.removesuffix('.0')}" in SETUP["options"]["install_requires"]
    )
    assert f"scrapy: [scrapy, scrapy=={oldest}]" in WORKFLOW.read_text(encoding="utf-8")


def test_version() -> None:
    """The version is in setup.cfg and the changelog, and not in the code."""
    version = SETUP["metadata"]["version"]
    assert f"\n## {version} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for path in (ROOT / "scrapy_rep").rglob("*.py"):
        assert f'"{version}"' not in path.read_text(encoding="utf-8"), path


def test_data_of_the_package() -> None:
    """Each file of the package that is not Python code is declared as package data,
    so that wheels contain it.
    """
    package = ROOT / "scrapy_rep"
    globs = SETUP["options.package_data"]["scrapy_rep"].split()
    declared = {path for glob in globs for path in package.glob(glob)}
    files = {path for path in package.rglob("*") if path.is_file()}
    assert declared == {
        path
        for path in files
        if path.suffix != ".py" and "__pycache__" not in path.parts
    }
    assert package / "py.typed" in declared


def test_the_description_on_a_package_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package index gets the text of README.md without links and pictures that it does not
    have; where a link was, the text names the file.
    """
    setuptools = pytest.importorskip("setuptools")
    given: dict[str, str] = {}
    monkeypatch.setattr(setuptools, "setup", given.update)
    runpy.run_path(str(ROOT / "setup.py"))
    text = given["long_description"]
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert targets
    assert all(target.startswith("https://") for target in targets)
    assert "tutorial (`docs/tutorial.md`)" in text
    assert "ADDONS = " in text
    assert "long_description" not in SETUP["metadata"]


def test_the_files_that_readme_names() -> None:
    """Each file that README.md links to is in the source distribution, as it says."""
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    # setuptools adds the licence.
    there = {"LICENSE"}
    for command, *names in map(str.split, lines):
        there.update(names if command in {"include", "graft"} else ())
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https:)([^)]*)\)", text):
        assert target.partition("/")[0] in there, target
        assert (ROOT / target.partition("#")[0]).exists(), target
