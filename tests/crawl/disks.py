"""Small file systems that tests can fill or make read-only, and other faults of disks."""

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
    """Mount a tmpfs file system of *kilobytes* KB at *folder*. Skip the test if this process may not mount."""
    folder.mkdir()
    mount = shutil.which("mount") or "mount"
    options = ["-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if subprocess.run([mount, *options], check=False, capture_output=True).returncode:
        pytest.skip("This process may not mount file systems")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Fill the file system of *folder* to the last byte."""
    for name in ("large", "rest"):
        with suppress(OSError), (folder / name).open("ab", buffering=0) as file:
            while True:
                file.write(b"x" * (65_536 if name == "large" else 64))


def free(folder: Path) -> None:
    """Delete the files that :func:`fill` has written."""
    for name in ("large", "rest"):
        (folder / name).unlink(missing_ok=True)


def make_read_only(folder: Path) -> None:
    """Remount the file system at *folder* read-only."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def forbid(folder: Path) -> None:
    """Remove the write permission of *folder* and of its files. Root can still write to them."""
    for path in (*folder.iterdir(), folder):
        path.chmod(0o500 if path.is_dir() else 0o400)


@contextmanager
def full_disk() -> Iterator[None]:
    """Inside the ``with`` block, this process cannot make a file grow, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
