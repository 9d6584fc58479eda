"""The catalogue: every normalization rule, once, in the order in which they run.

A rule is a pure function ``(Url, option) -> Url`` that returns its argument itself when there is
nothing to do. The names and classes are those of the article "URI normalization": a rule is
``preserving`` (RFC 3986 proves the two URLs equivalent), ``usually`` preserving, or ``changing``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

from scrapy_urlnorm.rules import host, options, path, plain, query, sessions, syntax

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.url import Url

PROFILES = ("safe", "default", "aggressive")

Need = Literal["untidy escape", "query", "fragment"]
NEEDS: tuple[Need, ...] = ("untidy escape", "query", "fragment")


@dataclass(frozen=True)
class Rule:
    """One row of the catalogue: all that the package knows about a rule.

    ``compile`` turns an option as people write it into what ``apply`` takes. It raises
    ``ConfigError`` for an option that it does not know. ``safe``, ``default`` and ``aggressive``
    hold the option that each profile uses, ``False`` where the profile leaves the rule out.

    ``plain_when`` says which URLs the fast path may answer without running the rule, in a word of
    :mod:`~scrapy_urlnorm.rules.plain`. A rule without a word switches the fast path off.

    ``needs`` names a part without which a URL gives the rule nothing to do. ``settles`` is true
    if earlier rules need not run again after this one changed the URL. A ``key_only`` rule makes
    keys equal but may spoil a URL that is then fetched.
    """

    name: str
    semantics: str
    apply: Callable[[Url, Any], Url]
    compile: options.Compiler
    _: KW_ONLY
    safe: object = False
    default: object = False
    aggressive: object = False
    plain_when: plain.Word | None = None
    needs: Need | None = None
    settles: bool = False
    key_only: bool = False

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


def _everywhere(
    name: str,
    apply: Callable[[Url, Any], Url],
    plain_when: plain.Word,
    needs: Need | None = None,
) -> Rule:
    """Return the row of a rule that RFC 3986 proves: every profile uses it."""
    return Rule(
        name,
        "preserving",
        apply,
        options.switch,
        safe=True,
        default=True,
        aggressive=True,
        plain_when=plain_when,
        needs=needs,
    )


RULES: tuple[Rule, ...] = (
    # Before all rules on single parameters: this one decides where parameters begin.
    Rule(
        "decode-html-amp",
        "changing",
        query.decode_html_amp,
        options.switch,
        plain_when=plain.no_entity,
        needs="query",
    ),
    # Escapes first, so that every later rule meets one spelling of a character ("%2e%2e").
    _everywhere("uppercase-escapes", syntax.uppercase_escapes, plain.always, needs="untidy escape"),
    _everywhere("decode-unreserved", syntax.decode_unreserved, plain.always, needs="untidy escape"),
    # After decoding: an escaped letter in a host may be a capital.
    _everywhere("lowercase-scheme-host", host.lowercase_scheme_host, plain.always),
    Rule(
        "remove-host-dot",
        "changing",
        host.remove_host_dot,
        options.switch,
        plain_when=plain.always,
    ),
    # After the case mapping: UTS 46 maps other scripts' digits to ASCII ones.
    _everywhere("normalize-ip-host", host.normalize_ip_host, plain.always),
    # After the address has its one form, the one that the mapping lists.
    Rule(
        "replace-ip-with-domain",
        "changing",
        host.replace_ip_with_domain,
        options.ip_domains,
        plain_when=plain.always,
    ),
    # Before www: "m.www.example.com" loses both labels.
    Rule(
        "strip-mobile-host",
        "changing",
        host.strip_mobile_host,
        options.switch,
        plain_when=plain.always,
    ),
    Rule(
        "www",
        "changing",
        host.www,
        options.one_of("remove", "add"),
        aggressive="remove",
        plain_when=plain.always,
    ),
    _everywhere("remove-default-port", host.remove_default_port, plain.always),
    # After the default port: a port that is still there names one of two servers.
    Rule(
        "force-scheme",
        "changing",
        host.force_scheme,
        options.one_of("http", "https"),
        aggressive="http",
        plain_when=plain.always,
    ),
    Rule(
        "remove-userinfo",
        "changing",
        host.remove_userinfo,
        options.switch,
        plain_when=plain.always,
    ),
    _everywhere("add-root-slash", syntax.add_root_slash, plain.root_slash_is_added),
    _everywhere("remove-dot-segments", syntax.remove_dot_segments, plain.always),
    Rule(
        "decode-path-reserved",
        "changing",
        path.decode_path_reserved,
        options.switch,
        default=True,
        aggressive=True,
        key_only=True,
        plain_when=plain.escapes_are_decoded(path.decode_reserved),
    ),
    # After all rules that merge what stock Scrapy merges: "/(S(...))/.." has to be "/" first.
    # Before the index: "index.jsp;jsessionid=...".
    Rule(
        "remove-session-ids",
        "changing",
        sessions.remove_session_ids,
        options.session_ids,
        default="sure",
        aggressive="likely",
        plain_when=plain.session_ids,
    ),
    # After the dot segments: "/a//../b" is "/a/b", not "/b".
    Rule(
        "remove-duplicate-slashes",
        "changing",
        path.remove_duplicate_slashes,
        options.switch,
        aggressive=True,
        plain_when=plain.path_is_edited(path.with_single_slashes, ends=lambda _: ()),
    ),
    Rule(
        "lowercase-path",
        "changing",
        path.lowercase_path,
        options.switch,
        plain_when=plain.path_is_edited(path.in_lower_case),
    ),
    # No word for plain URLs: a path or a query may bear its marks in too many ways.
    Rule("strip-amp", "changing", path.strip_amp, options.switch),
    # After lower-casing: index names are compared letter by letter.
    Rule(
        "remove-directory-index",
        "changing",
        path.remove_directory_index,
        options.index_names,
        aggressive=True,
        plain_when=plain.path_is_edited(
            path.without_index, ends=lambda names: (f"/{name}" for name in names)
        ),
    ),
    # After the index, which leaves a slash behind.
    Rule(
        "trailing-slash",
        "usually",
        path.trailing_slash,
        options.one_of("remove", "add"),
        aggressive="remove",
        plain_when=plain.path_is_edited(
            path.with_last_slash, ends=lambda mode: ["/" if mode == "remove" else ""]
        ),
    ),
    Rule(
        "keep-params",
        "changing",
        query.keep_params,
        options.names,
        plain_when=plain.names_decide,
        needs="query",
        settles=True,
    ),
    Rule(
        "drop-params",
        "changing",
        query.drop_params,
        options.dropped_params,
        default="sure",
        aggressive="likely",
        plain_when=plain.names_decide,
        needs="query",
        settles=True,
    ),
    Rule(
        "drop-default-params",
        "changing",
        query.drop_default_params,
        options.default_values,
        plain_when=plain.default_values,
        needs="query",
        settles=True,
    ),
    # After dropping: there is less to encode and to sort.
    Rule(
        "form-encode-query",
        "changing",
        query.form_encode_query,
        options.switch,
        default=True,
        aggressive=True,
        key_only=True,
        plain_when=plain.query_is_form_encoded,
        needs="query",
        settles=True,
    ),
    # After encoding: equal pairs have equal text by now.
    Rule(
        "sort-query",
        "changing",
        query.sort_query,
        options.sort_mode,
        default="pairs",
        aggressive="pairs",
        plain_when=plain.names_decide,
        needs="query",
        settles=True,
    ),
    # After all rules that may empty the query.
    Rule(
        "remove-empty-query",
        "changing",
        query.remove_empty_query,
        options.switch,
        default=True,
        aggressive=True,
        plain_when=plain.empty_query_is_removed,
        needs="query",
        settles=True,
    ),
    Rule(
        "remove-fragment",
        "changing",
        syntax.remove_fragment,
        options.kept_fragments,
        default=True,
        aggressive=True,
        plain_when=plain.fragment_is_removed,
        needs="fragment",
    ),
)

RULE_NAMES = tuple(rule.name for rule in RULES)
"""The names of the catalogue, in the order of :data:`RULES`."""

__all__ = ["NEEDS", "PROFILES", "RULES", "RULE_NAMES", "Rule"]
