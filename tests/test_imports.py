"""Imports within the package: they go down the house, in one direction and in no circle.

Read from the source, with imports inside functions and those for types only. No import linter is
needed for that: the graph is a dict.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import scrapy_urlnorm

PACKAGE = "scrapy_urlnorm"
ROOT = Path(scrapy_urlnorm.__file__).parent

#: The house, the upper floors first. A module imports from its own part and from lower floors,
#: never from another part of its floor. The command line knows no crawl; `scrapy urlnorm` hands
#: it the settings of a project. The package's own names are on top: they are loaded lazily.
FLOORS = (
    ("__init__", "__main__", "testing"),
    ("crawl",),
    ("cli", "spark"),
    ("report",),
    ("learning",),
    ("normalizer",),
    ("fast_key",),
    ("logs", "stores"),
    ("site_rules",),
    ("masking",),
    ("rules",),
    ("domains", "url"),
    ("caches", "exceptions", "text"),
)
#: Within crawl/, the same: what stands above may import what stands below.
CRAWL_FLOORS = (
    ("addon", "command"),
    ("middleware",),
    ("shared_scheduler",),
    ("scheduler",),
    ("online",),
    ("frontier",),
    ("dupefilter",),
    ("awaiting",),
    ("merges",),
    ("crawl_log", "database", "fingerprinter"),
    ("components", "got"),
    ("settings", "requests", "miner"),
)
#: Modules outside of crawl/ that import Scrapy.
USES_SCRAPY = {
    "testing": "when it reads the settings of a project",
    "logs.archives": "it makes rows of responses of Scrapy",
    "logs.whole": "it reads a response of Scrapy whole",
    "logs.self_links": "it reads what a response of Scrapy says about its names",
    "logs.page_identity": "it names the content of a response of Scrapy",
}
_ENGINES = {"asyncio", "scrapy", "threading", "time", "twisted"}
#: What a crawl that learns imports before its first page, besides crawl/ and what a URL alone needs.
#: The rest waits until there is something to learn: that is half of the time that a start takes.
AT_START = {
    *("learning", "learning.aliases", "learning.media", "learning.risk", "learning.worker"),
    *("logs", "logs.blocks", "logs.asides", "logs.comparison", "logs.differences", "logs.echoes"),
    *("logs.nodes", "logs.observation", "logs.page_identity", "logs.self_links", "logs.source"),
    *("logs.units", "logs.whole", "masking", "report", "report.filtered"),
    *("stores", "stores.memory", "stores.seen", "stores.sqlite"),
}


@cache
def imports(*, at_once=False):
    """By module, the modules of the package that it imports. Names are without the package's.

    If *at_once*, only what is imported when the module is, with the packages around that.
    """
    files = {_name(path): path for path in ROOT.rglob("*.py")}
    return {name: _imported(path, files, at_once) - {name} for name, path in files.items()}


def _name(path):
    return (
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").strip(".")
    )


def _imported(path, known, at_once):
    found = set()
    for name in _names(path, at_once):
        package, _, rest = name.partition(".")
        if package == PACKAGE:
            found.add(rest if rest in known else rest.rpartition(".")[0])
    return found | ({name.rpartition(".")[0] for name in found} if at_once else set())


def _names(path, at_once=False):
    """Yield the full names of all that a file imports, or of what it imports *at_once*."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if at_once else ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}, line {node.lineno}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _part(module):
    return module.partition(".")[0] or "__init__"


def _wrong_way(floors, graph):
    height = {part: -number for number, parts in enumerate(floors) for part in parts}
    return {
        (module, target)
        for module, targets in graph.items()
        for target in targets
        if _part(module) != _part(target) and height[_part(module)] <= height[_part(target)]
    }


def test_imports_go_down_the_house():
    """A part of the package knows only the parts below it."""
    assert _wrong_way(FLOORS, imports()) == set()


def test_imports_go_down_within_crawl():
    """As in the house, so in its largest room."""
    crawl = {
        name.removeprefix("crawl."): {
            target.removeprefix("crawl.") for target in targets if target.startswith("crawl.")
        }
        for name, targets in imports().items()
        if name.startswith("crawl.")
    }
    assert _wrong_way(CRAWL_FLOORS, crawl) == set()


def test_there_are_no_circles():
    """No module needs one that needs it, not even for types."""
    reached = {module: _reached(module) for module in imports()}
    circles = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in reached
        if module in reached[module]
    }
    assert circles == set()


def _reached(module, *, at_once=False):
    """Return the modules that *module* imports, and those that these import, and so on."""
    found = set()
    rest = [module]
    while rest:
        new = imports(at_once=at_once)[rest.pop()] - found
        found |= new
        rest += new
    return found


def test_learning_knows_no_engine():
    """`crawl.frontier` does what it wants done: so a simulation can stand in the place of that."""
    core = [name for name in imports() if name.startswith("crawl.online")]
    inside = set[str]().union(*(imports(at_once=True)[name] for name in core))
    assert not inside & {"crawl.components", "crawl.frontier", "crawl.miner"}
    outside = {
        name for path in ROOT.glob("crawl/online/*.py") for name in _names(path, at_once=True)
    }
    found = {name for name in outside if name.partition(".")[0] in _ENGINES}
    assert found == {"scrapy.http.HtmlResponse", "time"}  # the report says when


def test_learning_knows_no_request_of_scrapy():
    """A request is read once, by `crawl.requests`; not even for its type is it known beyond that."""
    users = {name for path in ROOT.glob("crawl/online/*.py") for name in _names(path)}
    assert not {name for name in users if name.endswith((".Request", ".request_in"))}
    assert "scrapy_urlnorm.crawl.requests.Asked" in users


def test_what_learning_needs_is_imported_when_it_is_needed():
    """A crawl begins before there is anything to learn."""
    first = {"crawl.addon", "crawl.online.learner"}
    found = set[str]().union(*(_reached(module, at_once=True) for module in first))
    by_urls = _reached("normalizer", at_once=True) | {"normalizer"}
    assert {name for name in found - by_urls if _part(name) != "crawl"} == AT_START


def test_only_crawl_imports_scrapy():
    """Everything else works without a crawl."""
    users = {
        _name(path)
        for path in ROOT.rglob("*.py")
        if any(name.partition(".")[0] == "scrapy" for name in _names(path))
    }
    assert {name for name in users if _part(name) != "crawl"} == set(USES_SCRAPY)


def test_a_module_has_at_most_500_lines():
    """What does not fit wants to be cut by responsibility."""
    lengths = {
        _name(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in ROOT.rglob("*.py")
    }
    assert {name for name, lines in lengths.items() if lines > 500} == set()
