"""Learning: from a crawl log to the rules of its sites.

One rule, step by step. The log of a small forum has 44 pages, with what was in each (a digest):
``/topic/1`` to ``/topic/12``, each once more with ``?pos=0`` to ``3`` and the same content; and
five lists ``/forum/1``, each with three more pages ``?pos=1`` to ``3`` of other content.

1. *Evidence* (`rows_by_site`, `evidence`, `corpus`). The rows of ``/topic/1`` and
   ``/topic/1?pos=1`` become items: the slots of the normalized URL (``s0 = topic``, ``s1 = 1``,
   ``q:pos = 1``), its hash, and the number of its content. Redirects have the content of their target. What is no
   HTML has the content of its bytes, and less to say (`media`).
2. *Candidates* (`candidates`). The two URLs have one content and differ in ``q:pos`` alone.
   Other topics do, too, so "drop pos" is worth a trial; so are "pos=1 is the default", and
   whatever a kind of rule thinks may make one of two such URLs (`Operation.between`).
3. *Trials* (`trials`). Without ``pos``, URLs of 12 topics and 5 lists fall on one that is there,
   and the further pages of each list fall together: 22 comparisons. In 12 the contents agree, in 10 they
   do not. Each of 12 contents has one vote for the rule; 25 contents speak against it.
4. *Where it holds* (`cover`, `corpus.Vocabulary`). 25 of 37 against: not everywhere. A search over
   conditions (what the path is like, which parameters there are and which not) finds that all
   12 agree where the first segment is ``topic``, and no comparison there fails. To avoid 10
   failures of 22 with 12 trials by chance has a probability of 1 in 646,646: that condition
   explains the failures.
5. *The risk* (`priors`, `risk`). Before the site said anything, dropping a parameter of which
   nothing is known was right with a probability of 0.4; under one condition, which was chosen
   to fit, 0.27. After 12 contents for it and none against it, the expected share of wrong merges
   is 0.0127. At most 0.02 is accepted, so nine contents would do.
6. *Doubts* (`coverage`, `cover.stands`). Four different values of ``pos`` were tried,
   three are enough. Of exchanges such as "C=N is C=D" the whole family is judged: how often its
   members fail tells how easily seven agreements are luck. What was seen in one section of
   a host holds for others only if three sections agree; here the rule keeps to ``topic``.
7. *Acceptance* (`miner`, `rules`). The rule becomes a `SiteRule`, as a rule file holds it::

       SiteRule(site="forum.example", kind="drop-param", param=("pos",),
                when={"segments": {"0": "topic"}}, support=12, false_merge_upper=0.0127, ...)

   All items are rewritten by it: what is equal now is one item, and the next round learns from
   these. When no stage accepts anything any more, the rules are done. `forms`,
   `range_tables` and `value_tables` find rules that no single candidate carries.
8. *Audit* (`audit`, `mining`). The rules run over the whole log in the normalizer that a crawl
   uses. A rule that merges different contents there is taken back. What is not proven is
   proposed, with what it lacks (`proposals`).

A crawl that runs has the same miner (`mined`, in a process of its own: `worker`), more wary
(`coverage`), with two sources of evidence more: permanent redirects, which also say which URL has the page (`mined`), and the parameters
that robots.txt names (`robots`). What pages say of their own other names is apart from all this
(`aliases`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_urlnorm.learning.evaluation import Evaluation, evaluate
    from scrapy_urlnorm.learning.mining import SiteReport, mine, survey

__all__ = ["Evaluation", "SiteReport", "evaluate", "mine", "survey"]

_MODULES = {"Evaluation": "evaluation", "evaluate": "evaluation"}


def __getattr__(name: str) -> Any:
    """Import on demand: a crawl needs parts of this package, and the miner not at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES.get(name, 'mining')}", __name__), name)
