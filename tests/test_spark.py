"""Mining a frame of PySpark gives the rules that mining the same rows from a file gives.

Needs the extra ``spark`` and Java; PySpark runs on this machine.
"""

from __future__ import annotations

import json
import os
import sys

import pytest

from scrapy_urlnorm import save_site_rules, spark
from scrapy_urlnorm.exceptions import LogFormatError, MissingExtraError
from scrapy_urlnorm.learning import evidence, mine
from scrapy_urlnorm.logs import read_log

# PySpark warns of pandas, of sockets that its workers leave open, and of its own future.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def session():
    """Return a session of Spark on this machine, on loopback."""
    sql = pytest.importorskip("pyspark.sql")
    pytest.importorskip("pyarrow")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    builder = sql.SparkSession.builder.master("local[1]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def rows():
    """Yield rows of three sites, in turns: content, redirects, one with a name of its own."""
    for n in range(60):
        for host in ("shop.example", "www.b.example", "é.example"):
            page = {"status": 200, "mime": "text/html", "digest": f"{host} {n // 2}"}
            view = f"?view={n % 7}" if n % 2 else ""
            yield {"url": f"http://{host}/item/{n // 2}{view}", **page, "simhash": f"{n:016x}"}
        yield {
            "url": f"http://b.example/{n}",
            "status": 301,
            "location": f"http://www.b.example/{n}",
        }


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return str(path)


def test_the_rules_are_those_of_a_file(session, log, tmp_path):
    """Byte by byte, whatever partitions the rows are in."""
    known = mine(read_log(log))
    assert {rule.site for rule in known} >= {"shop.example", "xn--9ca.example"}
    save_site_rules(tmp_path / "known.toml", known)
    frame = session.read.json(log)
    for number, given in enumerate((frame, frame.repartition(5))):
        save_site_rules(tmp_path / f"{number}.toml", spark.mine(given))
        assert (tmp_path / f"{number}.toml").read_bytes() == (tmp_path / "known.toml").read_bytes()


def test_a_giant_site_is_sampled_alike(session, log, monkeypatch):
    """The same paths of it are looked at."""
    whole = mine(read_log(log))
    monkeypatch.setattr(evidence, "MAX_ROWS", 50)
    known = mine(read_log(log))
    assert known != whole
    assert spark.mine(session.read.json(log)) == known


def test_a_frame_without_urls_is_refused(session):
    """The error names the columns that there are."""
    with pytest.raises(LogFormatError, match="no column 'url'; the frame has 'address'"):
        spark.mine(session.createDataFrame([("http://a.example/",)], ["address"]))


def test_the_extra_is_named(monkeypatch):
    """Without PySpark, the error says what to install."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pyspark\[sql\]'"):
        spark.mine(None)
