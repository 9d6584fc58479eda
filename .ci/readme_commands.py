"""Print the commands of the README's quick start, one a line, as a reader would paste them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

text = Path(sys.argv[1]).read_text(encoding="utf-8")
section = text.partition("## Try it")[2].partition("\n## ")[0]
for block in re.findall(r"```(?:sh|bash)\n(.*?)```", section, re.DOTALL):
    lines = [line for line in block.strip().splitlines() if line and not line.startswith("#")]
    print("\n".join(lines))
