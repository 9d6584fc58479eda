"""What one section of a host shows is believed of that section, until enough others agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.logs import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOST = "http://h.example"


def page(url: str, content: str) -> Observation:
    """Return a row of a page."""
    return Observation(url, 200, content, mime="text/html")


def learned(rows: list[Observation]) -> Callable[[str], str]:
    """Return how URLs are normalized with the rules of a log."""
    return Normalizer("default", site_rules=mine(rows)).normalize


def pairs(section: str, change: Callable[[str], str], count: int = 300) -> Iterator[Observation]:
    """Yield two URLs of each of many pages of a section."""
    for number in range(count):
        path = f"/page{number}"
        yield page(f"{HOST}{section}{path}", f"{section} {number}")
        yield page(f"{HOST}{section}{change(path)}", f"{section} {number}")


def upper(path: str) -> str:
    """Return a path in capitals."""
    return path.upper()


def slash(path: str) -> str:
    """Return a path with a final slash."""
    return path + "/"


def scripts(suffix: str, plain: bool) -> Iterator[Observation]:
    """Yield 60 programs at the root that show one page whatever their ``id``."""
    for number in range(60):
        url = f"{HOST}/s{number}{suffix}"
        if plain:
            yield page(url, f"{number}")
        yield from (page(f"{url}?id={n}", f"{number}") for n in range(20))


def accounts(name: str) -> Iterator[Observation]:
    """Yield pages of 30 accounts, which do not change with their ``id``."""
    for number in range(30):
        for title in "abcde":
            url = f"{HOST}/{name}{number}/{title}"
            yield page(url, f"{number} {title}")
            yield from (page(f"{url}?id={n}", f"{number} {title}") for n in range(5))


#: Logs of which one tenant wrote everything, and the URLs of the different pages of another.
POISONED = {
    "case": (
        list(pairs("/~evil", upper)),
        [f"{HOST}/~bob/{title}{n}" for n in range(100) for title in ("Doc", "doc")],
    ),
    "slash": (
        list(pairs("/~evil", slash)),
        [f"{HOST}/~bob/doc{n}{end}" for n in range(100) for end in ("", "/")],
    ),
    "scripts": (
        list(scripts(".php", plain=False)),
        [f"{HOST}/shop.php?id={n}" for n in range(100)],
    ),
    "scripts, each without id too": (
        list(scripts(".php", plain=True)),
        [f"{HOST}/shop.php?id={n}" for n in range(100)],
    ),
    "scripts without a suffix": (
        list(scripts("", plain=True)),
        [f"{HOST}/shop?id={n}" for n in range(100)],
    ),
    "accounts": (
        list(accounts("~u")),
        [f"{HOST}/~bob/{n}?id={i}" for n in range(40) for i in range(5)],
    ),
    "accounts without a tilde": (
        list(accounts("u")),
        [f"{HOST}/bob/{n}?id={i}" for n in range(40) for i in range(5)],
    ),
}


@pytest.mark.parametrize("kind", POISONED)
def test_nothing_of_a_neighbour_is_merged(kind: str) -> None:
    """Whatever one tenant shows of its own pages, those of another keep their keys."""
    rows, neighbours = POISONED[kind]
    normalize = learned(rows)
    assert len({normalize(url) for url in neighbours}) == len(neighbours)


@pytest.mark.parametrize("change", [upper, slash])
def test_the_section_itself_gets_its_rule(change: Callable[[str], str]) -> None:
    """Below the segment where it was seen, the rule holds for pages that the log has not."""
    normalize = learned(list(pairs("/docs", change)))
    new = "/page1234"
    assert normalize(f"{HOST}/docs{change(new)}") == normalize(f"{HOST}/docs{new}")
    assert normalize(f"{HOST}/new{change(new)}") != normalize(f"{HOST}/new{new}")


@pytest.mark.parametrize("change", [upper, slash])
def test_others_that_agree_open_the_host(change: Callable[[str], str]) -> None:
    """Two sections keep a rule to themselves, three make it one of the host."""
    two = [*pairs("/a", change, 20), *pairs("/b", change, 20)]
    kept, free = learned(two), learned([*two, *pairs("/c", change, 20)])
    for section in ("/a", "/b"):
        one, other = f"{HOST}{section}/page99", f"{HOST}{section}{change('/page99')}"
        assert kept(one) == kept(other)
    one, other = f"{HOST}/new/page99", f"{HOST}/new{change('/page99')}"
    assert kept(one) != kept(other)
    assert free(one) == free(other)


def test_a_rule_names_no_end_of_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a rule would have to name more sections than a file should hold, there is none."""
    monkeypatch.setattr("scrapy_urlnorm.learning.tenants.MOST", 29)
    assert not [rule for rule in mine(list(accounts("u"))) if rule.active]


def test_spellings_of_one_section_are_one_voice() -> None:
    """``/evil``, ``/Evil`` and ``/EVIL`` do not make three."""
    rows = [row for name in ("/evil", "/Evil", "/EVIL") for row in pairs(name, slash, 20)]
    normalize = learned(rows)
    assert normalize(f"{HOST}/bob/doc/") != normalize(f"{HOST}/bob/doc")


def test_homes_speak_for_themselves_alone() -> None:
    """However many homes agree, a home that nobody has seen has parameters of its own."""
    rows = [row for n in range(9) for row in pairs(f"/~u{n}", lambda path: f"{path}?x={path}", 10)]
    normalize = learned(rows)
    assert normalize(f"{HOST}/~u3/new?x=1") == f"{HOST}/~u3/new"
    assert normalize(f"{HOST}/~bob/new?x=1") == f"{HOST}/~bob/new?x=1"


def test_pages_at_the_root_agree_as_others_do() -> None:
    """On a flat site each page is a first segment: together they speak for the host."""
    rows = [page(f"{HOST}/{n}{query}", f"{n}") for n in range(30) for query in ("", f"?x={n % 7}")]
    assert learned(rows)(f"{HOST}/new?x=1") == f"{HOST}/new"


def test_programs_keep_the_meaning_of_their_parameters() -> None:
    """What ``x`` means in four programs says nothing of a fifth; the final slash is the host's."""
    rows = []
    for name in ("view", "list", "show", "find"):
        for n in range(20):
            url = f"{HOST}/{name}.php?n={n}"
            rows += [page(url, f"{name} {n}"), page(f"{url}&x={n % 7}", f"{name} {n}")]
    normalize = learned(rows)
    assert normalize(f"{HOST}/show.php?n=99&x=1") == f"{HOST}/show.php?n=99"
    assert normalize(f"{HOST}/shop.php?n=99&x=1") == f"{HOST}/shop.php?n=99&x=1"


def test_the_root_page_speaks_for_itself() -> None:
    """What the root page shows under its queries is a rule for the root page."""
    rows = [page(f"{HOST}/?a={n}{query}", f"{n}") for n in range(30) for query in ("", "&x=1&x=2")]
    rows += [page(f"{HOST}/?a={n}&x={n % 7}", f"{n}") for n in range(30)]
    normalize = learned(rows)
    assert normalize(f"{HOST}/?a=99&x=3") == f"{HOST}/?a=99"
    assert normalize(f"{HOST}/shop?a=99&x=3") == f"{HOST}/shop?a=99&x=3"


def test_the_root_page_and_a_section_each_need_evidence() -> None:
    """Where both have enough, each has a rule; no rule reaches from one to a third."""
    rows = []
    for path in ("/", "/index.php"):
        for n in range(30):
            content = f"{path} {n}"
            rows.append(page(f"{HOST}{path}?a={n}", content))
            rows.append(page(f"{HOST}{path}?a={n}&x={n % 7}", content))
    normalize = learned(rows)
    for path in ("/", "/index.php"):
        assert normalize(f"{HOST}{path}?a=99&x=3") == f"{HOST}{path}?a=99"
    assert normalize(f"{HOST}/shop?a=99&x=3") == f"{HOST}/shop?a=99&x=3"


def test_hosts_below_a_private_suffix_are_sites_of_their_own() -> None:
    """``github.io`` is a public suffix of its owner's: its hosts belong to different people."""
    rows = [
        row._replace(url=row.url.replace("h.example", "evil.github.io"))
        for section in "abcd"
        for row in pairs(f"/{section}", slash, 50)
    ]
    normalize = learned(rows)
    assert normalize("http://evil.github.io/z/new/") == "http://evil.github.io/z/new"
    assert normalize("http://bob.github.io/z/new/") == "http://bob.github.io/z/new/"
    assert normalize("http://github.io/z/new/") == "http://github.io/z/new/"
