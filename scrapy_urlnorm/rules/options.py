"""Options of rules: compilers turn the options that people write into arguments of rule functions.

A compiler takes the option (never ``False``, which switches a rule off) and returns two values:
the option in one canonical JSON form, which goes into the digest, and the argument of the rule
function. It raises ``ConfigError`` for a bad option, and says which options are accepted; the
caller adds the name of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.rules import data
from scrapy_urlnorm.rules.host import canonical_host, canonical_ipv4, canonical_ipv6
from scrapy_urlnorm.rules.query import dropped_names
from scrapy_urlnorm.rules.sessions import SessionMatcher

Compiler = Callable[[object], tuple[Any, Any]]


def _refuse(option: object, accepted: str) -> NoReturn:
    raise ConfigError(f"{option!r} is not an option; accepted: {accepted}")


def _strings(option: object, accepted: str) -> list[str]:
    if (
        isinstance(option, (str, bytes, Mapping))
        or not hasattr(option, "__iter__")
        or not all(isinstance(item, str) and item for item in option)
    ):
        _refuse(option, accepted)
    return sorted(set(option))


def switch(option: object) -> tuple[Any, Any]:
    if option is not True:
        _refuse(option, "True, False")
    return True, True


def one_of(*choices: str) -> Compiler:
    """Return the compiler of a rule with a few modes; ``True`` is the first of them."""

    def compile_choice(option: object) -> tuple[Any, Any]:
        if option is True:
            return choices[0], choices[0]
        if option not in choices:
            _refuse(option, ", ".join(map(repr, choices)) + ", False")
        return option, option

    return compile_choice


def names(option: object) -> tuple[Any, Any]:
    found = _strings(option, "a list of parameter names, False")
    return found, frozenset(found)


def index_names(option: object) -> tuple[Any, Any]:
    if option is True:
        return True, data.USUAL_INDEX_NAMES
    usual = "index.html, and default.asp and default.aspx in any case"
    found = _strings(option, f"True ({usual}), a list of file names such as ['index.php'], False")
    return found, data.IndexNames(frozenset(found))


def dropped_params(option: object) -> tuple[Any, Any]:
    accepted = (
        "'sure' or 'likely' (of the curated list; True is 'sure'), a list of names "
        "('name*' for a beginning), {'list': 'sure', 'add': [...], 'except': [...]}, False"
    )
    added: list[str] = []
    excepted: list[str] = []
    strength = option
    if isinstance(option, Mapping):
        if unknown := set(option) - {"list", "add", "except"}:
            _refuse(dict(option), f"{accepted}; not {sorted(map(str, unknown))}")
        strength = option.get("list", True)
        added = _strings(option.get("add", ()), accepted)
        excepted = _strings(option.get("except", ()), accepted)
    elif option is not True and not isinstance(option, str):
        found = _strings(option, accepted)
        return found, dropped_names(found)
    if strength is True:
        strength = data.STRENGTHS[0]
    if strength not in data.STRENGTHS:
        _refuse(option, accepted)
    dropped = dropped_names(added, excepted, data.tracking_params(strength))
    if not added and not excepted:
        return strength, dropped
    return {"list": strength, "add": added, "except": excepted}, dropped


def session_ids(option: object) -> tuple[Any, Any]:
    strength, _ = one_of(*data.STRENGTHS)(option)
    return strength, SessionMatcher(strength)


def default_values(option: object) -> tuple[Any, Any]:
    accepted = "a mapping of parameter name to default value, or to a list of values; False"
    if not isinstance(option, Mapping) or not option:
        _refuse(option, accepted)
    canonical: dict[str, list[str]] = {}
    for name, value in option.items():
        values = [value] if isinstance(value, (str, int)) else value
        if (
            not isinstance(name, str)
            or isinstance(value, bool)
            or not hasattr(values, "__iter__")
            or not all(isinstance(item, (str, int)) for item in values)
        ):
            _refuse(option, accepted)
        canonical[name] = sorted({str(item) for item in values})
    return canonical, {name: frozenset(values) for name, values in canonical.items()}


def kept_fragments(option: object) -> tuple[Any, Any]:
    if option is True:
        return True, ()
    accepted = "True, a list of beginnings to keep such as ['#!', '#/'], False"
    found = [prefix.removeprefix("#") for prefix in _strings(option, accepted)]
    return found, tuple(found)


def ip_domains(option: object) -> tuple[Any, Any]:
    accepted = "a mapping of IP address to domain, such as {'192.0.2.1': 'example.com'}; False"
    if not isinstance(option, Mapping) or not option:
        _refuse(option, accepted)
    domains = {}
    for address, domain in option.items():
        if not isinstance(address, str) or not isinstance(domain, str):
            _refuse(option, accepted)
        bracketed = address if address.startswith("[") else f"[{address}]"
        canonical = canonical_ipv6(bracketed) if ":" in address else canonical_ipv4(address)
        if canonical is None:
            _refuse(address, accepted)
        # If the domain were an address, the mapping might change it again, and never end.
        if not domain or any(c in domain for c in "/:@?#[] ") or canonical_ipv4(domain):
            _refuse(domain, accepted)
        domains[canonical] = canonical_host(domain)
    return dict(sorted(domains.items())), domains
