"""The browser of the tests."""

from __future__ import annotations

import shutil

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""The path of Chromium, or None. The headless shell starts in half the time."""

PATIENCE = 120_000
"""Milliseconds to wait for the browser."""
