"""The versions and the packages that this one is run with. docs/guide/troubleshooting.md lists them.

nox -f .ci/noxfile.py                    all of it
nox -f .ci/noxfile.py -s oldest          the oldest version of each dependency
nox -f .ci/noxfile.py -s neighbours      packages that people run Scrapy with; needs Chromium
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent.parent
nox.options.error_on_missing_interpreters = False

#: Sync with the dependencies in pyproject.toml.
OLDEST = ["scrapy==2.14.0", "w3lib==2.1.2", "tldextract==5.1.3", "idna==3.4"]
SCRAPY = ["2.14.2", "2.15.2", "2.16.0", "2.17.0", "2.18.0", "2.19.0"]
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]

#: Keys, and each way in which Scrapy meets us.
CRAWLS = [
    *("test_frozen", "test_stores_resume", "test_scrapy_addon", "test_scrapy_dupefilter"),
    *("test_scrapy_fingerprinter", "test_scrapy_merges"),
    *("test_scrapy_neighbours", "test_scrapy_own_keys", "test_scrapy_components"),
    *("test_scrapy_scheduler", "test_scrapy_settings", "test_scrapy_traps"),
    "test_scrapy_example",
]


def run(session: nox.Session, names: list[str], *options: str) -> None:
    """Run the tests, and print what they ran with."""
    session.run("python", "-c", VERSIONS)
    files = [f"tests/{name}.py" for name in names]
    python = str(Path(session.bin, "python"))
    tests = (python, "-m", "pytest", "-q", *files)
    session.run(python, ".ci/tests.py", python, *tests, env={"PYTEST_ADDOPTS": " ".join(options)})


VERSIONS = """
import platform, scrapy, twisted
print("Python", platform.python_version(), "Scrapy", scrapy.__version__, "Twisted", twisted.__version__)
"""


def the(python: str) -> str | None:
    """Return *python* if this machine has it, else the one that runs nox."""
    try:  # pyenv has a command for a Python that is not in use
        run = subprocess.run([f"python{python}", "-V"], check=False, capture_output=True)
    except FileNotFoundError:
        return None
    return python if run.returncode == 0 else None


@nox.session(python=the("3.10"))
def oldest(session: nox.Session) -> None:
    """The same keys with the oldest versions, which give warnings of their own."""
    session.install(f"{ROOT}[test]", *OLDEST)
    session.chdir(ROOT)
    rules = ["test_rules", "test_normalizer", "test_site_rules"]
    run(session, [*rules, *CRAWLS], "-n", "3", "-W", "default")


@nox.session(python=PYTHONS)
def pythons(session: nox.Session) -> None:
    """Each Python with the newest Scrapy."""
    session.install(f"{ROOT}[test]", "httpx")
    session.chdir(ROOT)
    run(session, CRAWLS)


@nox.session(python=the("3.12"))
@nox.parametrize("scrapy", SCRAPY)
def scrapies(session: nox.Session, scrapy: str) -> None:
    """Each Scrapy with one Python."""
    session.install(f"{ROOT}[test]", f"scrapy=={scrapy}", "httpx")
    session.chdir(ROOT)
    run(session, CRAWLS, "-W", "default")


@nox.session(python=the("3.12"))
def neighbours(session: nox.Session) -> None:
    """Packages beside us in one project: none of their tests may be skipped."""
    session.install(
        *(f"{ROOT}[all,test]", "scrapy-poet", "scrapy-zyte-api", "zyte-common-items"),
        *("scrapy-redis", "scrapy-playwright", "spidermon", "scrapyd", "httpx", "pillow"),
    )
    session.chdir(ROOT)
    names = [
        *("test_scrapy_neighbours", "test_scrapy_addon", "test_scrapy_own_keys"),
        *("test_scrapy_redis", "test_shared_scheduler", "test_scrapy_example_many"),
    ]
    report = Path(session.create_tmp(), "tests.xml")
    run(session, names, f"--junitxml={report}")
    skipped = session.run("python", ".ci/skipped_tests.py", str(report), silent=True)
    if skipped.strip():
        session.error(f"tests were skipped: {skipped}")
