"""Print the tests that a report of pytest (--junitxml) calls skipped, one a line, for pytest."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

found: dict[str, None] = {}
for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
    if case.find("skipped") is not None:
        module, name = case.get("classname", ""), case.get("name", "")
        if module:
            found[f"{module.replace('.', '/')}.py::{name}"] = None
        else:  # a whole file
            found[f"{name.replace('.', '/')}.py"] = None
print("\n".join(found))
