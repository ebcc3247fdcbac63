"""The browser of the tests."""

from __future__ import annotations

import shutil

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""The path of Chromium, if it is there. The shell draws no window, and takes half the time."""

PATIENCE = 120_000
"""Milliseconds until the browser is given up."""
