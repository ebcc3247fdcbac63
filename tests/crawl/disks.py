"""Small disks, which tests fill or make read-only."""

from __future__ import annotations

import resource
import shutil
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """Mount a disk at *folder*. Skip the test if nothing can be mounted here."""
    folder.mkdir()
    mount = shutil.which("mount") or "mount"
    options = ["-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if subprocess.run([mount, *options], check=False, capture_output=True).returncode:
        pytest.skip("Nothing can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Fill the disk, to its last octets."""
    for name in ("large", "rest"):
        with suppress(OSError), (folder / name).open("ab", buffering=0) as file:
            while True:
                file.write(b"x" * (65_536 if name == "large" else 64))


def free(folder: Path) -> None:
    """Delete what :func:`fill` has written."""
    for name in ("large", "rest"):
        (folder / name).unlink(missing_ok=True)


def make_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def forbid(folder: Path) -> None:
    """Make the folder and its files read-only for their owner."""
    for path in (*folder.iterdir(), folder):
        path.chmod(0o500 if path.is_dir() else 0o400)


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file grow that this process writes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
