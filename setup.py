"""The description of the package on an index. Everything else is in setup.cfg.

It is README.md without what an index does not have: pictures, and links to files of the source,
which become the names of these files.
"""

import re
from pathlib import Path

from setuptools import setup

text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
text = re.sub(r"!\[[^\]]*\]\([^)]*\)\n*", "", text)
text = re.sub(r"\[([^\]]*)\]\((?!https:)([^)]*)\)", r"\1 (`\2`)", text)
setup(long_description=text, long_description_content_type="text/markdown")
