"""The catalogue: every normalization rule, once, in the order in which they run.

A rule is a pure function ``(Url, option) -> Url`` that returns its argument itself when there is
nothing to do. The names and classes are those of the article "URI normalization": a rule is
``preserving`` (RFC 3986 proves the two URLs equivalent), ``usually`` preserving, or ``changing``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.rules import host, options, path, query, sessions, syntax

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.url import Url

PROFILES = ("safe", "default", "aggressive")


@dataclass(frozen=True)
class Rule:
    """One entry of the catalogue.

    ``compile`` turns an option as people write it into what ``apply`` takes and raises
    ``ConfigError`` for what it does not know. ``safe``, ``default`` and ``aggressive`` hold the
    option that a profile uses, ``False`` where it leaves the rule out. A ``key_only`` rule makes
    keys equal but may spoil a URL that is then fetched.
    """

    name: str
    semantics: str
    apply: Callable[[Url, Any], Url]
    compile: options.Compiler
    safe: object = False
    default: object = False
    aggressive: object = False
    key_only: bool = False

    @property
    def needs(self) -> str:
        """What a URL must have to give the rule anything to do; one of ``NEEDS`` or ``""``."""
        module = self.apply.__module__.rpartition(".")[2]
        return _NEEDED.get(self.name, "query" if module == "query" else "")

    @property
    def settles(self) -> bool:
        """Whether a change by the rule leaves no work for a rule that ran before it.

        True of the rules on names, form and order of the parameters: those before them compare
        decoded names and values, which these do not change.
        """
        return self.name in _SETTLING

    @property
    def summary(self) -> str:
        """The first line of the rule's documentation, also the reason given in a trace."""
        return self.documentation.partition("\n")[0].replace("``", "")

    @property
    def documentation(self) -> str:
        """The docstring of the rule: what it does, before -> after, semantics, source."""
        return (self.apply.__doc__ or "").strip()

    def option(self, profile: str) -> object:
        """Return the option that *profile* uses for this rule."""
        return {"safe": self.safe, "default": self.default, "aggressive": self.aggressive}[profile]


_SETTLING = {
    "drop-params",
    "drop-default-params",
    "keep-params",
    "form-encode-query",
    "sort-query",
    "remove-empty-query",
}
NEEDS = ("untidy escape", "query", "fragment")
_NEEDED = {
    "uppercase-escapes": "untidy escape",
    "decode-unreserved": "untidy escape",
    "remove-fragment": "fragment",
}


def _everywhere(name: str, apply: Callable[[Url, Any], Url]) -> Rule:
    return Rule(name, "preserving", apply, options.switch, True, True, True)


RULES: tuple[Rule, ...] = (
    # Before anything looks at single parameters: it decides where they begin.
    Rule("decode-html-amp", "changing", query.decode_html_amp, options.switch),
    # Escapes first, so that every later rule meets one spelling of a character ("%2e%2e").
    _everywhere("uppercase-escapes", syntax.uppercase_escapes),
    _everywhere("decode-unreserved", syntax.decode_unreserved),
    # After decoding: an escaped letter in a host may be a capital.
    _everywhere("lowercase-scheme-host", host.lowercase_scheme_host),
    Rule("remove-host-dot", "changing", host.remove_host_dot, options.switch),
    # After the case mapping: UTS 46 maps other scripts' digits to ASCII ones.
    _everywhere("normalize-ip-host", host.normalize_ip_host),
    # After the address has its one form: that is what the mapping is asked for.
    Rule("replace-ip-with-domain", "changing", host.replace_ip_with_domain, options.ip_domains),
    # Before www: "m.www.example.com" loses both labels.
    Rule("strip-mobile-host", "changing", host.strip_mobile_host, options.switch),
    Rule("www", "changing", host.www, options.one_of("remove", "add"), aggressive="remove"),
    _everywhere("remove-default-port", host.remove_default_port),
    # After the default port: a port that is still there names one of two servers.
    Rule(
        "force-scheme",
        "changing",
        host.force_scheme,
        options.one_of("http", "https"),
        aggressive="http",
    ),
    Rule("remove-userinfo", "changing", host.remove_userinfo, options.switch),
    _everywhere("add-root-slash", syntax.add_root_slash),
    _everywhere("remove-dot-segments", syntax.remove_dot_segments),
    Rule(
        "decode-path-reserved",
        "changing",
        path.decode_path_reserved,
        options.switch,
        default=True,
        aggressive=True,
        key_only=True,
    ),
    # After all that stock Scrapy merges, so that no removed segment keeps its classes apart
    # ("/(S(...))/.." is "/"); before the index: "index.jsp;jsessionid=...".
    Rule(
        "remove-session-ids",
        "changing",
        sessions.remove_session_ids,
        options.session_ids,
        default="sure",
        aggressive="likely",
    ),
    # After the dot segments: "/a//../b" is "/a/b", not "/b".
    Rule(
        "remove-duplicate-slashes",
        "changing",
        path.remove_duplicate_slashes,
        options.switch,
        aggressive=True,
    ),
    Rule("lowercase-path", "changing", path.lowercase_path, options.switch),
    Rule("strip-amp", "changing", path.strip_amp, options.switch),
    # After lower-casing: the names are compared as they are written.
    Rule(
        "remove-directory-index",
        "changing",
        path.remove_directory_index,
        options.index_names,
        aggressive=True,
    ),
    # After the index, which leaves a slash behind.
    Rule(
        "trailing-slash",
        "usually",
        path.trailing_slash,
        options.one_of("remove", "add"),
        aggressive="remove",
    ),
    Rule("keep-params", "changing", query.keep_params, options.names),
    Rule(
        "drop-params",
        "changing",
        query.drop_params,
        options.dropped_params,
        default="sure",
        aggressive="likely",
    ),
    Rule("drop-default-params", "changing", query.drop_default_params, options.default_values),
    # After dropping: there is less to encode and to sort.
    Rule(
        "form-encode-query",
        "changing",
        query.form_encode_query,
        options.switch,
        default=True,
        aggressive=True,
        key_only=True,
    ),
    # After encoding: equal pairs have equal text by now.
    Rule(
        "sort-query",
        "changing",
        query.sort_query,
        options.sort_mode,
        default="pairs",
        aggressive="pairs",
    ),
    # After whatever may have emptied the query.
    Rule(
        "remove-empty-query",
        "changing",
        query.remove_empty_query,
        options.switch,
        default=True,
        aggressive=True,
    ),
    Rule(
        "remove-fragment",
        "changing",
        syntax.remove_fragment,
        options.kept_fragments,
        default=True,
        aggressive=True,
    ),
)

RULE_NAMES = tuple(rule.name for rule in RULES)
"""The names of the catalogue, in the order of :data:`RULES`."""

__all__ = ["NEEDS", "PROFILES", "RULES", "RULE_NAMES", "Rule"]
