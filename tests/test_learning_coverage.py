"""What the comparisons behind a rule cover: values, pages, and sections of a host."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest
from log_rows import active, page, taught_by

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import evaluate
from scrapy_urlnorm.learning.corpus import Corpus, Hasher
from scrapy_urlnorm.learning.cover import Found
from scrapy_urlnorm.learning.coverage import count_upward, is_coincidence
from scrapy_urlnorm.learning.trials import Count
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.site_rules.operations import DropParam, Replace

# --- Wary mining: what the log of a crawl that still runs has to show


def at(path, content):
    return Observation(f"http://h.example{path}", 200, content, mime="text/html")


def rules(rows, **options):
    """The active rules of a log: kind and parameters, or what is exchanged."""
    return [
        (rule.kind, *(rule.param or sorted(rule.default.items())))
        for rule in active(rows, **options)
    ]


def both(rows):
    """The rules of a whole log, and those of a log that is still being written."""
    return rules(rows), rules(rows, wary=True)


COUNTING = {
    "1 2 3": True,
    "0 1 2": True,
    "2 3 4 5 7": True,
    "20 40 60": True,
    "0 25 50 100": True,
    "1": True,
    "0": False,
    "": False,
    "a b c": False,
    "1 2 x": False,
    "1032 88 4521": False,
    "17 18 19": False,
    "2010 2011 2012": False,
    "1 2 5000": False,
    "²": False,
    "12345678901 12345678902": False,
}


@pytest.mark.parametrize("values", COUNTING)
def test_values_that_count_upward(values):
    """Steps from the beginning of a list; numbers of tickets and years are none."""
    assert count_upward(values.split(" ")) is COUNTING[values]


def test_a_rule_about_pages_of_a_list_holds_for_those_that_were_tried():
    """Lists of the first sections are short: any page shows the only one. Later ones are long."""
    rows = []
    for number in range(40):
        rows.append(at(f"/list{number}", f"list {number}"))
        rows += [at(f"/list{number}?nr={nr}", f"list {number}") for nr in (1, 2, 3)]
    long = [at(f"/long?nr={nr}", f"long {nr}") for nr in range(4, 30)]
    assert evaluate(taught_by(rows), long).lost == 25
    wary = taught_by(rows, wary=True)
    assert evaluate(wary, long).lost == 0
    assert evaluate(wary, rows).found == 1


def test_a_rule_grows_with_the_values_that_were_tried():
    """The rule for more values takes the place of the one for fewer."""
    rows, known = [], []
    for values in (3, 6, 9):
        for number in range(20):
            name = f"/l{values}-{number}"
            rows.append(at(name, name))
            rows += [at(f"{name}?nr={nr}", name) for nr in range(values)]
        known = active(rows, accepted=known, wary=True)
        assert len(known) == 1
        assert evaluate(Normalizer("default", site_rules=known), rows).found == 1


def test_of_parameters_dropped_together_each_has_to_vary_alone():
    """Here ``b`` changes only where ``a`` does, and means something where it does not."""
    rows = []
    for number in range(30):
        rows.append(at(f"/p{number}", f"{number}"))
        rows += [at(f"/p{number}?a={n}x&b={n}y", f"{number}") for n in range(4)]
    whole, wary = both(rows)
    assert whole == [("drop-param", "a", "b")]
    assert "drop-param" not in {kind for kind, *_ in wary}
    for number in range(30):
        rows += [at(f"/p{number}?a={n}x&b={m}y", f"{number}") for n in (1, 2) for m in (3, 4)]
    assert ("drop-param", "a", "b") in rules(rows, wary=True)


def test_one_value_for_none_needs_more_contents():
    """In nine folders one order is that without one; a tenth may have more files."""
    rows = []
    for number in range(19):
        rows += [at(f"/{number}/", f"{number}"), at(f"/{number}/?by=size", f"{number}")]
        rows.append(at(f"/{number}/?by=time", f"{number} by time"))
    assert both(rows) == ([("drop-default", ("by", "size"))], [])
    rows += [at("/z/", "z"), at("/z/?by=size", "z")]
    assert rules(rows, wary=True) == [("drop-default", ("by", "size"))]


COINCIDENCES = {
    "a value for another": (Replace((("q:c", "m"),), (("q:c", "d"),)), 19, True),
    "with more contents": (Replace((("q:c", "m"),), (("q:c", "d"),)), 20, False),
    "a value for none": (Replace((("q:c", "m"),)), 19, True),
    "a value that says as usual": (Replace((("q:c", "1"),)), 9, False),
    "both": (Replace((("q:c", "1"), ("q:d", "m"))), 9, True),
    "a segment": (Replace((("s0", "latest"),), (("s0", "3"),)), 9, False),
    "a host": (Replace((("host", "www.h.example"),), (("host", "h.example"),)), 3, False),
    "a parameter": (DropParam(("q:c",)), 9, False),
}


@pytest.mark.parametrize("name", COINCIDENCES)
def test_coincidences(name):
    op, support, expected = COINCIDENCES[name]
    found = Found((), Count(support, 0, support), 0.01)
    assert is_coincidence(op, found, Corpus((), Hasher())) is expected


def versions(articles, edited):
    """The text of articles, by their address and as version 1. Some have a second version."""
    rows = [at("/other?v=7", "other")]  # so the parameter has more than one value
    for number in range(articles):
        rows += [at(f"/wiki/{number}", f"{number}"), at(f"/wiki/{number}?v=1", f"{number}")]
    return rows + [at(f"/wiki/{number}?v=2", f"{number} v2") for number in range(edited)]


def test_the_only_value_of_a_page_says_nothing_of_a_default():
    """The first version of an article that was never edited is the article; not so of others."""
    default = [("drop-default", ("v", "1"))]
    assert both(versions(60, 0)) == (default, [])
    assert both(versions(60, 2)) == (default, [])
    assert both(versions(60, 3)) == (default, default)


def test_a_value_without_others_may_be_a_default():
    """Where the log has no other value at all, no page could tell."""
    assert both(versions(60, 0)[1:]) == ([("drop-default", ("v", "1"))],) * 2


def lists(section, count):
    """Lists of one section that are so short that their order does not show."""
    orders = ("", "?k=name", "?k=size", "?k=date", "?k=type")
    return [
        at(f"/{section}/{number}{order}", f"{section} {number}")
        for number in range(count)
        for order in orders
    ]


def test_two_sections_do_not_prove_a_rule_together():
    """What is a dozen pages of one part of a site, and three of another, is known of the first."""
    rows = lists("files", 12) + lists("tickets", 3)
    long = [at(f"/tickets/all?k={order}", order) for order in ("name", "size", "date")]
    for wary, lost in ((False, 2), (True, 0)):
        normalizer = taught_by(rows, wary=wary)
        assert evaluate(normalizer, long).lost == lost
        assert evaluate(normalizer, lists("files", 12)).found == 1
    rows += lists("tickets", 12)
    assert evaluate(taught_by(rows, wary=True), rows).found == 1


def test_many_sections_speak_for_all():
    """Though each has a page or two."""
    rows = [row for number in range(8) for row in lists(f"part{number}", 2)]
    others = lists("another", 3)
    for wary in (False, True):
        assert evaluate(taught_by(rows, wary=wary), others).found == 1


def token(to, number):
    """A signed token, of which the second part is JSON in Base64 (RFC 7515)."""
    said = urlsafe_b64encode(f'{{"to": "{to}{number}"}}'.encode()).decode().rstrip("=")
    return f"eyJhbGciOiJIUzI1NiJ9.{said}.Rv4w{number}"


def test_a_page_under_many_values_is_believed_of_log_in_pages_only():
    """A calendar is empty until it is not; a log-in page says where to go afterwards."""
    rows = [at(f"/cal?y=20{n}&m=1", "no event") for n in range(10, 60)]
    rows += [at(f"/login?next=%2Fp{n}", "log in") for n in range(30)]
    rows += [at(f"/ask?to={token('/p', n)}", "ask") for n in range(30)]
    rows += [at(f"/shared?of={token('p', n)}", "it is over") for n in range(30)]
    rows += [at(f"/p{n}", f"{n}") for n in range(30)]
    whole, wary = taught_by(rows), taught_by(rows, wary=True)
    calls, months = ("login?next=%2Fz", "login?next=%2Fy"), ("cal?y=2099&m=1", "cal?y=2098&m=1")
    asks, shared = ([f"{at}={token(to, 99)}" for to in "yz"] for at in ("ask?to", "shared?of"))
    for is_believed, pairs in ((True, (calls, asks)), (False, (months, shared))):
        for pair in pairs:
            one, two = (f"http://h.example/{path}" for path in pair)
            assert whole.normalize(one) == whole.normalize(two)
            assert (wary.normalize(one) == wary.normalize(two)) is is_believed


# --- What one section of a host shows is believed of that section, until enough others agree

HOST = "http://h.example"


def pairs(section, change, count=300):
    """Yield two URLs of each of many pages of a section."""
    for number in range(count):
        path = f"/page{number}"
        yield page(f"{HOST}{section}{path}", f"{section} {number}")
        yield page(f"{HOST}{section}{change(path)}", f"{section} {number}")


upper, slash = str.upper, "{}/".format


def scripts(suffix, plain):
    """Yield 60 programs at the root that show one page whatever their ``id``."""
    for number in range(60):
        url = f"{HOST}/s{number}{suffix}"
        if plain:
            yield page(url, f"{number}")
        yield from (page(f"{url}?id={n}", f"{number}") for n in range(20))


def accounts(name):
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
def test_nothing_of_a_neighbour_is_merged(kind):
    rows, neighbours = POISONED[kind]
    normalize = taught_by(rows).normalize
    assert len({normalize(url) for url in neighbours}) == len(neighbours)


@pytest.mark.parametrize("change", [upper, slash])
def test_the_section_itself_gets_its_rule(change):
    normalize = taught_by(pairs("/docs", change)).normalize
    new = "/page1234"
    assert normalize(f"{HOST}/docs{change(new)}") == normalize(f"{HOST}/docs{new}")
    assert normalize(f"{HOST}/new{change(new)}") != normalize(f"{HOST}/new{new}")


@pytest.mark.parametrize("change", [upper, slash])
def test_others_that_agree_open_the_host(change):
    """Two sections keep a rule to themselves, three make it one of the host."""
    two = [*pairs("/a", change, 20), *pairs("/b", change, 20)]
    kept = taught_by(two).normalize
    free = taught_by([*two, *pairs("/c", change, 20)]).normalize
    for section in ("/a", "/b"):
        one, other = f"{HOST}{section}/page99", f"{HOST}{section}{change('/page99')}"
        assert kept(one) == kept(other)
    one, other = f"{HOST}/new/page99", f"{HOST}/new{change('/page99')}"
    assert kept(one) != kept(other)
    assert free(one) == free(other)


def test_a_rule_names_no_end_of_sections(monkeypatch):
    monkeypatch.setattr("scrapy_urlnorm.learning.coverage.MOST", 29)
    assert not active(accounts("u"))


def test_spellings_of_one_section_are_one_voice():
    """``/evil``, ``/Evil`` and ``/EVIL`` do not make three."""
    rows = [row for name in ("/evil", "/Evil", "/EVIL") for row in pairs(name, slash, 20)]
    normalize = taught_by(rows).normalize
    assert normalize(f"{HOST}/bob/doc/") != normalize(f"{HOST}/bob/doc")


def test_homes_speak_for_themselves_alone():
    rows = [row for n in range(9) for row in pairs(f"/~u{n}", lambda path: f"{path}?x={path}", 10)]
    normalize = taught_by(rows).normalize
    assert normalize(f"{HOST}/~u3/new?x=1") == f"{HOST}/~u3/new"
    assert normalize(f"{HOST}/~bob/new?x=1") == f"{HOST}/~bob/new?x=1"


def test_programs_keep_the_meaning_of_their_parameters():
    """What ``x`` means in four programs says nothing of a fifth; the final slash is the host's."""
    rows = []
    for name in ("view", "list", "show", "find"):
        for n in range(20):
            url = f"{HOST}/{name}.php?n={n}"
            rows += [page(url, f"{name} {n}"), page(f"{url}&x={n % 7}", f"{name} {n}")]
    normalize = taught_by(rows).normalize
    assert normalize(f"{HOST}/show.php?n=99&x=1") == f"{HOST}/show.php?n=99"
    assert normalize(f"{HOST}/shop.php?n=99&x=1") == f"{HOST}/shop.php?n=99&x=1"


def test_the_root_page_and_a_section_each_need_evidence():
    """Where both have enough, each has a rule; no rule reaches from one to a third."""
    rows = []
    for path in ("/", "/index.php"):
        for n in range(30):
            content = f"{path} {n}"
            rows.append(page(f"{HOST}{path}?a={n}", content))
            rows.append(page(f"{HOST}{path}?a={n}&x={n % 7}", content))
    normalize = taught_by(rows).normalize
    for path in ("/", "/index.php"):
        assert normalize(f"{HOST}{path}?a=99&x=3") == f"{HOST}{path}?a=99"
    assert normalize(f"{HOST}/shop?a=99&x=3") == f"{HOST}/shop?a=99&x=3"


def test_hosts_below_a_private_suffix_are_sites_of_their_own():
    """``github.io`` is a public suffix of its owner's: its hosts belong to different people."""
    rows = [
        row._replace(url=row.url.replace("h.example", "evil.github.io"))
        for section in "abcd"
        for row in pairs(f"/{section}", slash, 50)
    ]
    normalize = taught_by(rows).normalize
    assert normalize("http://evil.github.io/z/new/") == "http://evil.github.io/z/new"
    assert normalize("http://bob.github.io/z/new/") == "http://bob.github.io/z/new/"
    assert normalize("http://github.io/z/new/") == "http://github.io/z/new/"
