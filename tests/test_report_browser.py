"""The report in a browser: it opens without an error, sorts, filters, and runs nothing of a site.

Skipped without playwright and a Chromium at /usr/bin/chromium; `.ci/report` installs both.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.report.figures import from_logs
from scrapy_urlnorm.report.page import page as page_of
from scrapy_urlnorm.site_rules import SiteRule

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = "no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
FLAGS = [f"--{flag}" for flag in f"{FLAGS} disable-component-update disable-sync".split()]

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no Chromium")

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    '"><svg onload=window.hacked=1>',
    "<!--<script>window.hacked=1",
    "javascript:window.hacked=1",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with playwright.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"), executable_path=str(CHROMIUM), args=FLAGS
        )
        yield context
        context.close()


def small():
    """A log of three hosts, with hostile texts in hosts, paths, parameters and notes of rules."""
    rows = []
    for number in range(120):
        url = f"http://h{number % 3}.test/list?page={number}"
        rows += [Observation(url, 200, f"{number % 50}"), Observation(f"{url}&utm_source=x", 200)]
    rules = []
    for text in HOSTILE:
        urls = [f"http://{text}/a", f"http://h0.test/{text}", f"http://h0.test/{text}?{text}=1"]
        rows += [Observation(url, 200, "A") for url in (*urls, text)]
        param = {"site": "h0.test", "kind": "drop-param", "param": f"x{len(rules)}{text}"}
        rules.append(SiteRule(**param, status="rejected", note=text, examples=[urls[:2]]))
    return from_logs(rows, Normalizer(site_rules=rules), title=f"Crawl log {HOSTILE[0]}")


def large():
    """A log with 1,000 hosts and 1,000 rules, as many as a table shows."""
    rules = [
        SiteRule(
            site=f"h{number}.test",
            kind="drop-param",
            param=f"p{number}",
            source="content",
            support=number,
            conflicts=0,
            false_merge_upper=0.01,
            examples=[[f"http://h{number}.test/a?b={n}&p{number}=value" for n in range(2)]],
        )
        for number in range(1_000)
    ]
    rows = [Observation(f"http://h{number}.test/{number}", 200, "A") for number in range(1000)]
    return from_logs(rows, Normalizer(site_rules=rules), title="A large log")


class Opened:
    """A page in the browser, and what it complained of and asked for."""

    def __init__(self, browser, path, *, width=1280, scheme="light"):
        self.page = browser.new_page()
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme)
        self.errors, self.asked = [], []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri(), timeout=0)  # on a busy machine it takes longer than 30 s

    def table(self, name):
        return self.page.locator(f'[data-table="{name}"]')

    def cells(self, name, column):
        return self.table(name).locator(f"tbody tr td:nth-child({column})").all_text_contents()


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for figures in (small, large):
        found[figures.__name__] = path = folder / f"{figures.__name__}.html"
        path.write_text(page_of(figures()), encoding="utf-8")
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", ["small", "large"])
def test_it_opens_without_an_error(browser, paths, name, width, scheme):
    opened = Opened(browser, paths[name], width=width, scheme=scheme)
    assert opened.errors == []
    assert opened.asked == [paths[name].as_uri()]
    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.cells("hosts", 1)
    opened.page.close()


def test_hostile_texts_are_shown_as_they_are(browser, paths):
    """Wherever they stand, and after every sort and filter."""
    opened = Opened(browser, paths["small"])
    assert opened.page.locator("h1").text_content() == f"Crawl log {HOSTILE[0]}"
    rules = opened.cells("rules", 1)
    assert all(any(text in rule for rule in rules) for text in HOSTILE)
    for name in ("suspicious", "rules", "hosts", "patterns"):
        for button in opened.table(name).locator("th button").all():
            button.click()
            button.click()
        opened.table(name).locator("input").fill("hacked")
        assert "hacked" in opened.table(name).text_content()
    assert opened.page.locator("main img, main script").count() == 0
    for link in opened.page.locator("main a").all():
        assert link.get_attribute("href").startswith("http://")
    assert opened.page.evaluate("window.hacked") is None
    assert opened.errors == []
    opened.page.close()


def test_a_script_that_is_not_ours_does_not_run(browser, paths, tmp_path):
    path = tmp_path / "broken.html"
    text = paths["small"].read_text(encoding="utf-8")
    path.write_text(text.replace("<main>", f"<main>{HOSTILE[0]}{HOSTILE[1]}"), encoding="utf-8")
    opened = Opened(browser, path)
    assert opened.page.evaluate("window.hacked") is None
    assert opened.errors
    assert opened.cells("hosts", 1)
    opened.page.close()


def numbers(cells):
    return [float(cell.replace(",", "")) for cell in cells]


def test_a_table_is_sorted_by_a_click_on_its_heading(browser, paths):
    """All of its rows, not only those that are shown; with the keyboard too."""
    opened = Opened(browser, paths["large"])
    rules = opened.table("rules")
    heading = rules.locator("th", has_text="for it")
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert numbers(opened.cells("rules", 5))[:3] == [999, 998, 997]
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert numbers(opened.cells("rules", 5))[:3] == [0, 1, 2]
    assert rules.locator("[aria-sort]").count() == 1
    opened.page.close()


def test_a_table_is_filtered_by_words(browser, paths):
    """All of them have to be in the row; the others are there again without them."""
    opened = Opened(browser, paths["large"])
    rules = opened.table("rules")
    status = rules.locator("[role=status]")
    assert status.text_content() == "1 to 25 of 1,000"
    rules.get_by_label("Filter").fill("h77.test P77 ")
    assert status.text_content() == "1 to 1 of 1"
    assert "p77" in opened.cells("rules", 1)[0]
    rules.get_by_label("Filter").fill("nowhere")
    assert (status.text_content(), opened.cells("rules", 1)) == ("nothing", [])
    rules.get_by_label("Filter").fill("")
    rules.get_by_role("button", name="Next").click()
    assert status.text_content() == "26 to 50 of 1,000"
    rules.get_by_role("button", name="Previous").click()
    assert rules.get_by_role("button", name="Previous").is_disabled()
    opened.page.close()


def test_a_report_with_many_rules_and_hosts_is_small(paths):
    """1,000 of each."""
    assert paths["large"].stat().st_size < 2_000_000


@pytest.mark.parametrize("name", ["small", "large"])
def test_without_scripts_everything_is_there(browser, paths, tmp_path, name):
    """All rows of all tables; mail previews run no script."""
    path = tmp_path / "bare.html"
    text = paths[name].read_text(encoding="utf-8")
    path.write_text(text.partition("<script>")[0] + "</body></html>", encoding="utf-8")
    opened = Opened(browser, path)
    assert opened.errors == []
    assert len(opened.cells("hosts", 1)) > (25 if name == "large" else 3)
    assert opened.page.locator("th button, input").count() == 0
    for table in ("rules", "hosts", "patterns"):
        assert opened.table(table).locator("tbody tr").first.is_visible()
    opened.page.close()


SCROLLS = "[...document.querySelectorAll('%s')].map(e => e.scrollWidth - e.clientWidth)"


@pytest.mark.parametrize("name", ["small", "large"])
def test_nothing_is_cut_off_at_the_width_of_a_laptop(browser, paths, name):
    opened = Opened(browser, paths[name])
    assert set(opened.page.evaluate(SCROLLS % ".scroll")) == {0}
    opened.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(browser, paths, width, scheme):
    """The rules of axe-core for pages that everybody can read."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    opened = Opened(browser, paths["small"], width=width, scheme=scheme)
    found = axe.Axe().run(opened.page)
    assert found.violations_count == 0, found.generate_report()
    opened.page.close()
