"""The catalogue: every normalization rule, once, in the order in which they run.

The names and classes of the rules are those of the article "URI normalization": a rule is
``preserving`` (RFC 3986 proves the two URLs equivalent), ``usually`` preserving, or ``changing``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.rules import escapes, host, options, path, query, sessions
from scrapy_urlnorm.rules.data import IndexNames
from scrapy_urlnorm.rules.options import one_of, switch
from scrapy_urlnorm.text import did_you_mean
from scrapy_urlnorm.url import Url

if TYPE_CHECKING:
    Recorder = Callable[[str, Url, Url, str], None]
    #: Tells, by the name of a parameter, the tests of its value on which a rule depends; name and
    #: value as they are written. There are none for most names.
    ValueTests = Callable[[str], Sequence[Callable[[str], bool]]]

PROFILES = ("safe", "default", "aggressive")

Part = Literal["url", "head", "host", "path", "query", "fragment"]
_PROVED, _CHANGING = "preserving", "changing"
_NOT_SAFE, _STRENGTHS = (False, True, True), (False, "sure", "likely")


def _no_values(_: object) -> ValueTests:
    return lambda name: ()


@dataclass(frozen=True)
class Rule:
    """One row of the catalogue: all that the package knows about a rule.

    ``change`` is the rule, a pure function of a part of a URL and of the option. It returns the
    part as it should be: of ``host`` and ``path`` a text; of ``query`` and ``fragment``, which it
    gets where they are there, a text or ``None``; of ``head`` (scheme and authority) and of ``url``
    (all of it) a `Url`, itself where there is nothing to do.

    ``compile`` turns an option as people write it into the one that ``change`` takes. It raises
    ``ConfigError`` for an option that it does not know. ``profiles`` holds the options that the
    :data:`PROFILES` use, ``False`` where a profile leaves the rule out. Without it, every profile
    uses a ``preserving`` rule, and none another.

    A ``key_only`` rule makes keys equal but may spoil a URL that is then fetched.

    The fast path (:mod:`~scrapy_urlnorm.fast_key`) has the rules run on heads, paths and sets of
    names, and keeps the answers. What it may assume of a plain URL:

    - ``ends`` are the ends, or tells them by the option, of the paths on which a rule on paths may
      act, besides those that are empty, or have an escape or two slashes in a row; ``None``: of none;
    - ``values`` tells, by the option, which values of parameters a rule looks at, where not all is
      decided by their names. A rule on queries or on whole URLs without it switches the fast path
      off: so a new rule is right, and fast as soon as it has them;
    - ``edit`` is what a rule on whole URLs does to a path without ``;``.
    """

    name: str
    semantics: str
    part: Part
    change: Callable[[Any, Any], Any]
    compile: options.Compiler = switch
    profiles: tuple[object, object, object] | None = None
    _: KW_ONLY
    key_only: bool = False
    ends: tuple[str, ...] | Callable[[Any], Iterable[str]] | None = ("",)
    values: Callable[[Any], ValueTests] | None = None
    edit: Callable[[str, Any], str] | None = None

    @property
    def summary(self) -> str:
        """The first line of the rule's documentation, also the reason given in a trace."""
        return self.documentation.partition("\n")[0].replace("``", "")

    @property
    def documentation(self) -> str:
        """The docstring of the rule: what it does, before -> after, semantics, source."""
        return (self.change.__doc__ or "").strip()

    def option(self, profile: str) -> object:
        """Return the option that *profile* uses for this rule."""
        if self.profiles is None:
            return self.semantics == _PROVED
        return self.profiles[PROFILES.index(profile)]

    @cached_property
    def apply(self) -> Callable[[Url, Any], Url]:
        """The rule as a function of a URL and the option; returns the URL itself to leave it."""
        change, part = self.change, self.part
        if part in ("url", "head"):
            return change
        at = Url._fields.index(part)
        faster = {"path": Url.with_path, "query": Url.with_query}
        replaced = faster.get(part, lambda url, new: url._replace(**{part: new}))

        def apply(url: Url, option: Any) -> Url:
            before = url[at]
            if before is None or (new := change(before, option)) == before:
                return url
            return replaced(url, new)

        return apply


def _aggressive(option: object) -> tuple[object, object, object]:
    return False, False, option


RULES: tuple[Rule, ...] = (
    # Before all rules on single parameters: this one decides where parameters begin.
    Rule("decode-html-amp", _CHANGING, "query", query.decode_html_amp, values=_no_values),
    # Escapes first, so that every later rule meets one spelling of a character ("%2e%2e").
    Rule("uppercase-escapes", _PROVED, "url", escapes.uppercase_escapes, values=_no_values),
    Rule("decode-unreserved", _PROVED, "url", escapes.decode_unreserved, values=_no_values),
    # After decoding: an escaped letter in a host may be a capital.
    Rule("lowercase-scheme-host", _PROVED, "head", host.lowercase_scheme_host),
    Rule("remove-host-dot", _CHANGING, "host", host.remove_host_dot),
    # After the case mapping: UTS 46 maps other scripts' digits to ASCII ones.
    Rule("normalize-ip-host", _PROVED, "head", host.normalize_ip_host),
    # After the address has its one form, the one that the mapping lists.
    Rule(
        "replace-ip-with-domain", _CHANGING, "host", host.replace_ip_with_domain, options.ip_domains
    ),
    # Before www: "m.www.example.com" loses both labels.
    Rule("strip-mobile-host", _CHANGING, "host", host.strip_mobile_host),
    Rule("www", _CHANGING, "host", host.www, one_of("remove", "add"), _aggressive("remove")),
    Rule("remove-default-port", _PROVED, "head", host.remove_default_port),
    # After the default port: a port that is still there names one of two servers.
    Rule(
        "force-scheme", _CHANGING, "head", host.force_scheme, one_of("http", "https"),
        _aggressive("http"),
    ),
    Rule("remove-userinfo", _CHANGING, "head", host.remove_userinfo),
    Rule("add-root-slash", _PROVED, "path", path.add_root_slash, ends=()),
    Rule("remove-dot-segments", _PROVED, "path", path.remove_dot_segments, ends=None),
    Rule(
        "decode-path-reserved", _CHANGING, "url", path.decode_path_reserved, switch, _NOT_SAFE,
        key_only=True, ends=(), values=_no_values, edit=path.decode_reserved,
    ),
    # After all rules that merge what stock Scrapy merges: "/(S(...))/.." has to be "/" first.
    # Before the index: "index.jsp;jsessionid=...".
    Rule(
        "remove-session-ids", _CHANGING, "url", sessions.remove_session_ids, options.session_ids,
        _STRENGTHS, values=lambda sessions: sessions.value_tests,
    ),
    # After the dot segments: "/a//../b" is "/a/b", not "/b".
    Rule(
        "remove-duplicate-slashes", _CHANGING, "path", path.remove_duplicate_slashes, switch,
        _aggressive(True), ends=(),
    ),
    Rule("lowercase-path", _CHANGING, "path", path.lowercase_path),
    # A path or a query may bear its marks in too many ways for the fast path.
    Rule("strip-amp", _CHANGING, "url", path.strip_amp),
    # After lower-casing: index names are compared letter by letter.
    Rule(
        "remove-directory-index", _CHANGING, "path", path.remove_directory_index,
        options.index_names, _aggressive(True), ends=IndexNames.endings,
    ),
    # After the index, which leaves a slash behind.
    Rule(
        "trailing-slash", "usually", "path", path.trailing_slash, one_of("remove", "add"),
        _aggressive("remove"), ends=lambda mode: ("/",) if mode == "remove" else ("",),
    ),
    Rule(
        "keep-params", _CHANGING, "query", query.keep_params, options.names, values=_no_values
    ),
    Rule(
        "drop-params", _CHANGING, "query", query.drop_params, options.dropped_params, _STRENGTHS,
        values=_no_values,
    ),
    Rule(
        "drop-default-params", _CHANGING, "query", query.drop_default_params,
        options.default_values, values=query.default_value_tests,
    ),
    # After dropping: there is less to encode and to sort.
    Rule(
        "form-encode-query", _CHANGING, "query", query.form_encode_query, switch, _NOT_SAFE,
        key_only=True, values=_no_values,
    ),
    # After encoding: equal pairs have equal text by now.
    Rule(
        "sort-query", _CHANGING, "query", query.sort_query, one_of("pairs", "stable"),
        (False, "pairs", "pairs"), values=_no_values,
    ),
    # After all rules that may empty the query.
    Rule(
        "remove-empty-query", _CHANGING, "query", query.remove_empty_query, switch, _NOT_SAFE,
        values=_no_values,
    ),
    Rule(
        "remove-fragment", _CHANGING, "fragment", query.remove_fragment, options.kept_fragments,
        _NOT_SAFE,
    ),
)  # fmt: skip

RULE_NAMES = tuple(rule.name for rule in RULES)
"""The names of the catalogue, in the order of :data:`RULES`."""

_MOST_SITES = 1_024  # sites whose own catalogue is kept
_LONGEST_OPTIONS = 65_536  # characters of JSON


class Catalogue:
    """The rules that are on with their options, compiled once and shared by normalizers.

    ``options`` holds the options as JSON has them, ``compiled`` as the rules take them, both by
    the names of the rules that are on. Raises ``ConfigError``, naming the rule, for an option that
    it does not take, for a profile or a rule that does not exist.
    """

    __slots__ = ("_of_sites", "_steps", "compiled", "options")

    def __init__(self, profile: str, rules: Mapping[str, object]) -> None:
        """Take the options of *rules*, for other rules those of *profile*."""
        if profile not in PROFILES:
            raise ConfigError(f"{profile!r} is not a profile; accepted: {', '.join(PROFILES)}")
        if not isinstance(rules, Mapping):
            accepted = "a mapping of rule names to True, False or an option"
            raise ConfigError(f"{rules!r} is not {accepted}")
        if unknown := [name for name in rules if name not in RULE_NAMES]:
            hint, known = did_you_mean(str(unknown[0]), RULE_NAMES), ", ".join(RULE_NAMES)
            raise ConfigError(f"{unknown[0]!r} is not a rule{hint} Known rules: {known}")
        self.options: dict[str, Any] = {}
        self.compiled: dict[str, Any] = {}
        for rule in RULES:
            option = rules.get(rule.name, rule.option(profile))
            if option is False or option is None:
                continue
            try:
                self.options[rule.name], self.compiled[rule.name] = rule.compile(option)
            except ConfigError as error:
                raise ConfigError(f"rule {rule.name!r}: {error}") from None
        self._steps = [(rule, rule.apply, self.compiled[rule.name]) for rule in self.rules()]
        self._of_sites: BoundedCache[Catalogue] = BoundedCache(
            lambda text: Catalogue("safe", self.all_options() | json.loads(text)),
            most=_MOST_SITES,
            longest=_LONGEST_OPTIONS,
        )

    def rules(self) -> list[Rule]:
        """Return the rules that are on, in the order in which they run."""
        return [rule for rule in RULES if rule.name in self.compiled]

    def all_options(self) -> dict[str, object]:
        """Return an option for every rule of the catalogue: ``False`` for those that are off."""
        return {rule.name: self.options.get(rule.name, False) for rule in RULES}

    def changed(self, options: Mapping[str, object]) -> Catalogue:
        """Return the catalogue of a site that has *options* of its own for some rules."""
        return self._of_sites[json.dumps(options, sort_keys=True)]

    def run(self, url: Url, record: Recorder | None = None) -> Url:
        """Run each rule once on *url*; *record* is told rule, URL before and after, and reason."""
        for rule, apply, option in self._steps:
            new = apply(url, option)
            if new is not url:
                if record is not None:
                    record(rule.name, url, new, rule.summary)
                url = new
        return url

    def runner(self, *parts: Part) -> Callable[[Url], Url | None]:
        """Return what runs the rules once on a URL of which only *parts* are not as they should be.

        It returns ``None`` where another run would change the result.
        """
        steps = [
            (apply, option) for rule, apply, option in self._steps if rule.part in ("url", *parts)
        ]

        def run(url: Url) -> Url:
            for apply, option in steps:
                url = apply(url, option)
            return url

        def run_once(url: Url) -> Url | None:
            new = run(url)
            return new if new is url or run(new) == new else None

        return run_once


__all__ = ["PROFILES", "RULES", "RULE_NAMES", "Catalogue", "Rule"]
