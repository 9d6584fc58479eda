"""For every kind of site rule: URLs that it maps, and URLs that a looser one would lose."""

from __future__ import annotations

from scrapy_urlnorm.site_rules import SiteRule

HTTP = "http://shop.example"


def rule(**fields: object) -> SiteRule:
    """Make a rule of shop.example."""
    return SiteRule(**{"site": "shop.example", **fields})


def path_and_query(text: str) -> str:
    """Put the host of the site before a path."""
    return HTTP + text if text.startswith("/") else text


#: One rule, the URLs that it maps, and those that it leaves alone although they look alike.
CASES: list[tuple[SiteRule, dict[str, str], list[str]]] = [
    (
        rule(kind="drop-param", param="sid"),
        {
            "/a?sid=1": "/a",
            "/a?b=2&sid=1&a=%41": "/a?b=2&a=%41",
            "/a?sid": "/a",
            "/a?sid=1&sid=2&x": "/a?x",
            "/a?s%69d=1": "/a",
        },
        ["/a?SID=1", "/a?xsid=1", "/a?sid2=1", "/sid=1", "/a?x=sid", "/a?"],
    ),
    (
        rule(kind="drop-param", param="h", when={"has": "id"}),
        {"/log?h=stable&id=1": "/log?id=1"},
        ["/log?h=stable", "/log?h=stable&id2=1"],
    ),
    (
        rule(kind="drop-param", param="id2", path="/*/diff/**"),
        {"/w3lib/diff/?id=1&id2=2": "/w3lib/diff/?id=1", "/w3lib/diff?id2=2": "/w3lib/diff"},
        ["/w3lib/log/?id2=2", "/diff/?id2=2", "/a/b/diff/?id2=2"],
    ),
    (
        rule(kind="drop-param", param=("C", "O")),
        {"/d/?C=N;O=D": "/d/", "/d/?C=N%3BO%3DD": "/d/", "/d/?C=N;O=D;P=1": "/d/?P=1"},
        ["/d/?c=N;o=D", "/d/?q=C;O", "/d/?u=http://x/?C=1;O=2"],
    ),
    (
        rule(kind="drop-param", semicolons=True),
        {"/g?p=x;a=y": "/g?p=x&a=y", "/g?p=x%3Ba%3Dy": "/g?p=x&a=y"},
        ["/g?q=tl;dr", "/g?p=x"],
    ),
    (
        rule(kind="drop-param", bare=True),
        {"/s.css?20210101": "/s.css", "/s.css?20210101=": "/s.css"},
        ["/s.css?v=20210101", "/s.css?print", "/s.css?v"],
    ),
    (
        rule(kind="drop-param", param="sid", slash=True, path="/forum/**"),
        {"/forum/a/?sid=1": "/forum/a", "/forum/a/": "/forum/a"},
        ["/blog/a/?sid=1", "/"],
    ),
    (
        rule(kind="drop-param", param="returnto", when={"params": {"title": "Special:UserLogin"}}),
        {
            "/w?title=Special:UserLogin&returnto=A": "/w?title=Special:UserLogin",
            "/w?returnto=A&title=Special%3AUserLogin": "/w?title=Special%3AUserLogin",
        },
        ["/w?title=Special:Upload&returnto=A", "/w?returnto=A", "/w?title=A&title=Special:UserLogin&returnto=A"],
    ),
    (
        rule(kind="drop-param", param=("C", "O"), when={"among": {"C": ["N", "M"]}}),
        {"/?C=N&O=A": "/", "/?O=A": "/"},
        ["/?C=S&O=A"],
    ),
    (
        rule(kind="drop-param", param="id", when={"rest": "/w3lib/refs/"}),
        {"/w3lib/refs/?id=1": "/w3lib/refs/"},
        ["/w3lib/refs/?id=1&h=2", "/w3lib/log/?id=1", "/w3lib/refs?id=1"],
    ),
    (
        rule(kind="drop-param", param="x", when={"segments": {"-1": ["a", "b"]}, "slash": False}),
        {"/1/a?x=1": "/1/a", "/b?x=1": "/b"},
        ["/a/?x=1", "/a/c?x=1", "/?x=1"],
    ),
    (
        rule(kind="drop-param", param="x", when={"no": "id", "scheme": "http"}),
        {"/?x=1": "/"},
        ["/?x=1&id=2", "https://shop.example/?x=1"],
    ),
    (
        rule(kind="keep-param", param="id"),
        {"/a?x=1&id=2&y=3": "/a?id=2", "/a?x=1": "/a"},
        ["/a?id=2", "/a?id=2&id=3"],
    ),
    (rule(kind="keep-param", path="/dp/**"), {"/dp/1?x=1": "/dp/1"}, ["/s?k=1"]),
    (
        rule(kind="drop-default", default={"page": "1"}),
        {"/a?page=1": "/a", "/a?page=1&q=x": "/a?q=x"},
        ["/a?page=10", "/a?page=", "/a?page=1&page=2", "/page=1"],
    ),
    (
        rule(kind="drop-default", default={"h": "HEAD"}),
        {"/log?h=HEAD": "/log"},
        ["/log?h=head", "/log?h=stable"],
    ),
    (
        rule(kind="drop-default", default={"st": "0", "sk": "t", "sd": "a"}),
        {"/f?f=2&sd=a&sk=t&st=0": "/f?f=2"},
        ["/f?f=2&sk=t&st=0", "/f?f=2&sd=d&sk=t&st=0"],
    ),
    (
        rule(kind="drop-default", default={"status": ["new", "open"]}),
        {"/q?status=open&status=new": "/q"},
        ["/q?status=new", "/q?status=new&status=open&status=closed"],
    ),
    (
        rule(kind="edit-value", edit="drop-repeats", slots="q:a"),
        {"/?a=1&b=2&a=1": "/?a=1&b=2"},
        ["/?a=1&a=2", "/?b=1&b=1"],
    ),
    (
        rule(kind="edit-value", edit="fold-accents", slots=("q:name", "s0")),
        {"/a?name=caf%C3%A9": "/a?name=cafe", "/cr%C3%AApe": "/crepe"},
        ["/a?title=caf%C3%A9", "/a/cr%C3%AApe", "/a?name=stra%C3%9Fe", "/a?name=%D0%B9%FF"],
    ),
    (
        rule(kind="edit-value", edit="utc", slots="q:max"),
        {
            "/?max=2010-07-12T16:35:00%2B02:00": "/?max=2010-07-12T14%3A35%3A00Z",
            "/?max=2010-07-12T07:35:00-07:00": "/?max=2010-07-12T14%3A35%3A00Z",
            "/?max=2010-07-12T16:35:00.120+02:00": "/?max=2010-07-12T14%3A35%3A00.120000Z",
        },
        ["/?max=2010-07-12", "/?max=2010-07-12T16:35:00", "/?max=2010-07-12T14:35:00Z",
         "/?max=2010-06-31T16:35:00%2B02:00", "/?max=0000-01-01T00:00:00Z", "/?min=2010-07-12T1:0Z"],
    ),
    (
        rule(kind="edit-value", edit="leading-zeros", slots=("q:n", "s-1")),
        {"/a?n=007": "/a?n=7", "/2010/07": "/2010/7", "/a?n=00": "/a?n=0"},
        ["/a?n=7", "/a?n=0", "/a?n=0x7", "/07/a", "/a?n=", "/a?n=%D9%A0%D9%A1"],
    ),
    (
        rule(kind="edit-value", edit="cut-after", slots="q:from", text="#-#-#"),
        {
            "/t?from=2026-11-01T06:00:00Z": "/t?from=2026-11-01",
            "/t?from=2026-11-01+06:00": "/t?from=2026-11-01",
        },
        ["/t?from=2026-11-01", "/t?from=2026-11", "/t?from=x2026-11-01-3", "/t?from=2026-11-01a",
         "/t?to=2026-11-01T06:00:00Z"],
    ),
    (
        rule(kind="edit-value", edit="cut-after", slots="s-1", text="topic-#"),
        {"/f/topic-12-any-words": "/f/topic-12", "/f/topic-12.html": "/f/topic-12"},
        ["/f/topic-12", "/f/topic-12b", "/f/topic-a-12", "/f/my-topic-12-a", "/f/topic-12-a/b"],
    ),
    (
        rule(kind="edit-value", edit="lowercase", slots="q:id"),
        {"/?id=AbC&x=Y": "/?id=abc&x=Y", "/?id=%C3%84": "/?id=%C3%A4"},
        ["/?q=AbC", "/ABC", "/?id=%c3%a4"],
    ),
    (
        rule(kind="replace", old={"q:do": "index"}, new={"q:idx": "{namespace}"},
             prefix="/doku.php"),
        {"/doku.php/a/b/c?do=index": "/doku.php/a/b/c?idx=a%3Ab",
         "/doku.php/a%20b/c?do=index": "/doku.php/a%20b/c?idx=a+b"},
        ["/doku.php/c?do=index", "/doku.php/a/c?do=index&idx=b", "/a/b/c?do=index",
         "/doku.php/a/c?do=recent"],
    ),
    (
        rule(kind="drop-param", param="ns", when={"params": {"ns": "{namespace}"}}),
        {"/a/b/c?ns=a:b": "/a/b/c"},
        ["/a/b/c?ns=a", "/c?ns=", "/a/b/c?ns=a:b:c"],
    ),
    (
        rule(kind="replace", old={"scheme": "http"}, new={"scheme": "https"}, path="/login"),
        {"/login": "https://shop.example/login"},
        ["/"],
    ),
    (
        rule(kind="replace", old={"s1": "stable", "q:v": "1"}, new={"s1": "3.2"}),
        {"/django/stable/x?v=1": "/django/3.2/x"},
        ["/django/stable/x", "/stable/x?v=1", "/django?v=1", "/django/x/stable?v=1"],
    ),
    (
        rule(kind="replace", old={"q:sort": "name", "slash": "1"}, new={"slash": "1"}),
        {"/a/?sort=name": "/a/"},
        ["/a?sort=name"],
    ),
    (
        rule(kind="replace", old={"slash": "1"}, path="/a/*/"),
        {"/a/b/": "/a/b"},
        ["/a/b", "/a/"],
    ),
    (
        rule(kind="replace", old={"slash": "1", "scheme": "http"}, new={"scheme": "http"}),
        {"/a/": "/a"},
        ["/", "/a", "https://shop.example/a/"],
    ),
    (
        rule(kind="replace", old={"q:d": "1"}, new={"slash": "1"}),
        {"/a?d=1": "/a/"},
        ["/a/?d=1", "/a?d=2"],
    ),
    (
        rule(kind="replace", old={"q:d": "1"}, new={"q:e": "{namespace}"}),
        {"/a/b?d=1": "/a/b?e=a"},
        ["/a?d=1", "/?d=1"],
    ),
    (
        rule(kind="drop-segment", slots=("s0", "s2", "s9"), path="/*/dp/**"),
        {"/t/dp/x/1": "/dp/1", "/t/dp": "/dp"},
        ["/dp/x/1"],
    ),
    (
        rule(kind="strip-tail", tail="/x", by="/"),
        {"/a/x": "/a/", "/a/x/x": "/a/x/"},
        ["/a/x/", "/x/a"],
    ),
    (
        rule(kind="drop-param", param="a", path="/*.html"),
        {"/b.html?a=1": "/b.html"},
        ["/.html?a=1", "/b.htm?a=1", "/b/c.html?a=1"],
    ),
    (
        rule(kind="drop-param", param="a", path="/d/#.html"),
        {"/d/12.html?a=1": "/d/12.html"},
        ["/d/x12.html?a=1", "/d/12.htm?a=1", "/d/.html?a=1"],
    ),
    (
        rule(kind="drop-param", param="a", path="/d/**/#"),
        {"/d/1?a=1": "/d/1", "/d/x/y/1?a=1": "/d/x/y/1"},
        ["/d?a=1", "/d/x?a=1", "/1?a=1", "/d/1/?a=1"],
    ),
    (
        rule(kind="drop-param", param="a", when={"segments": {"1": "x"}}),
        {"/b/x?a=1": "/b/x", "/b/x/c?a=1": "/b/x/c"},
        ["/x?a=1", "/?a=1", "/b/y?a=1"],
    ),
    (
        rule(kind="host-alias", host=("www.shop.example", "m.shop.example"), by="shop.example"),
        {"http://www.shop.example/a": "/a", "https://m.shop.example/": "https://shop.example/",
         "http://www.shop.example:8080/": "http://shop.example:8080/"},
        ["http://en.shop.example/a", "http://www.other.example/", "/www.shop.example/"],
    ),
    (
        rule(kind="prefix-alias", prefix="/python/latest", by="/python/3.11"),
        {"/python/latest/a": "/python/3.11/a", "/python/latest/": "/python/3.11/",
         "/python/latest": "/python/3.11"},
        ["/python/latest.html", "/python/latest2/a", "/latest/a", "/a/python/latest/b"],
    ),
    (
        rule(kind="param-to-path", param="id", path="/doku.php", by="/doku.php/{}", separator=":"),
        {"/doku.php?id=a:b": "/doku.php/a/b", "/doku.php?do=edit&id=a%2Fb": "/doku.php/a%2Fb?do=edit"},
        ["/doku.php?id=", "/doku.php?id=a:..:b", "/doku.php?id=a::b", "/doku.php?id=a&id=b",
         "/doku.php/x?id=a", "/doku.php/?id=a"],
    ),
    (
        rule(kind="param-to-path", param="title", path="/index.php", by="/wiki/{}", separator="/"),
        {"/index.php?title=Talk:A/B&action=raw": "/wiki/Talk:A/B?action=raw"},
        ["/index.php?title=.", "/index.php", "/wiki/A?title=A"],
    ),
    (
        rule(kind="param-to-path", param="id", path="/story", by="/story_{}"),
        {"/story?id=xyz": "/story_xyz", "/story?id=a/b": "/story_a%2Fb"},
        ["/story?id=", "/stories?id=xyz"],
    ),
    (
        rule(kind="split-segment", separator=":", prefix="/doku.php"),
        {"/doku.php/a:b:c": "/doku.php/a/b/c", "/doku.php/a%3Ab": "/doku.php/a/b"},
        ["/wiki/Talk:A", "/doku.php/a::b", "/doku.php/:a"],
    ),
    (
        rule(kind="strip-segment", prefix="/", segment="en"),
        {"/en/a": "/a", "/en": "/", "/en/": "/", "/en/en/a": "/a"},
        ["/a/en", "/english/a", "/EN/a"],
    ),
    (
        rule(kind="strip-segment", prefix="/s", shape="hex", min_length=8),
        {"/s/0123abcd/a": "/s/a"},
        ["/s/0123abc/a", "/s/catalogue/a", "/t/0123abcd/a"],
    ),
    (
        rule(kind="strip-segment", prefix="/", shape="digits", min_length=6),
        {"/123456/a": "/a"},
        ["/12345/a", "/12345x/a", "/a/123456"],
    ),
    (
        rule(kind="drop-segment", slots=("s0",), path="/*/dp/**"),
        {"/a-title/dp/B00": "/dp/B00"},
        ["/dp/B00", "/a/b/dp/B00", "/a-title/gp/B00"],
    ),
    (
        rule(kind="strip-tail", tail="/index.html", by="/"),
        {"/a/index.html": "/a/", "/index.html": "/"},
        ["/a/index.html/", "/a/xindex.html", "/a/index.htm", "/index.html/a"],
    ),
    (
        rule(kind="strip-tail", tail="/comment-page-1/", by="/", path="/#/*/comment-page-1/"),
        {"/2024/a/comment-page-1/": "/2024/a/"},
        ["/2024/a/comment-page-2/", "/blog/a/comment-page-1/", "/2024/a/comment-page-1"],
    ),
    (
        rule(kind="strip-tail", tail="/page/1", by=""),
        {"/a/page/1": "/a", "/page/1": "/", "/a/page/1/page/1": "/a"},
        ["/a/page/11", "/a/1", "/a/page/1/"],
    ),
    (
        rule(kind="edit-value", slots="s-1", edit="strip-suffix", text=".html", slash=True),
        {"/a.html": "/a/", "/b/c.html?d=1": "/b/c/?d=1"},
        ["/a.html/b", "/.html", "/a.htm", "/a.html/"],
    ),
    (
        rule(kind="edit-value", slots="q:v", edit="strip-suffix", text="-1"),
        {"/?v=a-1": "/?v=a"},
        ["/?v=a-11", "/?v=-1", "/?w=a-1"],
    ),
    (
        rule(kind="edit-value", slots="?", edit="strip-suffix", text="-1"),
        {"/t?thread-149-1": "/t?thread-149", "/t?thread-149-1=": "/t?thread-149="},
        ["/t?thread-1", "/t?v=thread-149-1", "/t?thread-149-1=x"],
    ),
    (
        rule(kind="edit-value", edit="replace-text", slots="q:title", text=" ", by="_"),
        {"/?title=A+b%20c": "/?title=A_b_c"},
        ["/?q=A+b", "/A%20b", "/?title=A%2Bb"],
    ),
    (
        rule(kind="edit-value", edit="replace-text", slots="s0", text="ab", by=""),
        {"/xaabb": "/x"},
        ["/ab", "/x/ab"],
    ),
    (
        rule(kind="edit-value", slots="s-1", edit="number-before"),
        {"/news/12-a-slug": "/news/12"},
        ["/news/12", "/news/a-12", "/news/3.11-notes", "/news/12-"],
    ),
    (
        rule(kind="edit-value", slots="q:p", edit="number-after"),
        {"/?p=a-slug-12": "/?p=12"},
        ["/?p=12-a", "/?p=a-1b", "/?p=-12"],
    ),
    (
        rule(kind="edit-value", edit="lowercase-first", slots="s1", path="/wiki/**"),
        {"/wiki/Unix": "/wiki/unix", "/wiki/UNIX/Talk": "/wiki/uNIX/Talk",
         "/wiki/%C3%84rger": "/wiki/%C3%A4rger"},
        ["/wiki/uNIX", "/wiki", "/Wiki/Unix", "/wiki/12"],
    ),
    (
        rule(kind="edit-value", edit="lowercase-first", slots=("s0", "q:title")),
        {"/?title=Main+Page": "/?title=main+Page", "/?title=A&title=B": "/?title=a&title=b",
         "/Wiki/A?title=a": "/wiki/A?title=a"},
        ["/?title=", "/?Title=a", "/title/A"],
    ),
    (
        rule(kind="param-to-path", param="target", path="/index.php", separator="/",
             by="/wiki/Special:Links/{}", default={"title": "Special:Links"}),
        {"/index.php?title=Special:Links&target=A/UX": "/wiki/Special:Links/A/UX",
         "/index.php?limit=5&target=B&title=Special:Links": "/wiki/Special:Links/B?limit=5"},
        ["/index.php?title=Special:Log&target=B", "/index.php?target=B", "/?target=B&title=Special:Links",
         "/index.php?title=Special:Links", "/index.php?title=Special:Links&target=.."],
    ),
    (
        rule(kind="replace", old={"?": "topic-1", "q:a": "b"}, new={"q:t": "1"}),
        {"/f?topic-1&a=b": "/f?t=1", "/f?a=b&topic-1=&c=d": "/f?t=1&c=d"},
        ["/f?topic-1", "/f?topic-12&a=b", "/f?topic-1=2&a=b", "/f?topic-1&topic-2&a=b"],
    ),
    (
        rule(kind="drop-param", param="view", when={"starts": {"q:page": ["Report:", "Log:"]}}),
        {"/w?page=Report:12&view=1": "/w?page=Report:12", "/w?page=Log:&view=1": "/w?page=Log:"},
        ["/w?page=report:12&view=1", "/w?page=12&view=1", "/w?view=1", "/w?page=a&page=Log:1&view=1"],
    ),
    (
        rule(kind="drop-param", param="view", when={"starts": {"s-1": "Report:"}}),
        {"/w/Report:12?view=1": "/w/Report:12"},
        ["/w/Reports?view=1", "/Report:1/w?view=1", "/?view=1"],
    ),
    (
        rule(kind="range-alias", slots="q:p", by="", ranges="/t/5?a=1&p={} -88 89-130"),
        {"/t/5?p=88&a=1": "/t/5?a=1", "/t/5?a=1&p=0": "/t/5?a=1", "/t/5?a=1&p=090": "/t/5?a=1&p=89"},
        ["/t/5?a=1&p=131", "/t/5?a=1&p=89", "/t/5?p=88", "/t/6?a=1&p=88", "/t/5?a=1&p=8&p=9",
         "/t/5?a=1&p=-1", "/t/5?a=1&p=%D9%A1", "/t/5?a=1&p=" + "1" * 19, "/t/5?a=1&q=88"],
    ),
    (
        rule(kind="range-alias", slots="s1", text="w,#.m{}.html", by="w,#.0.html",
             ranges=["/t/w,5.m{}.html -20 21-40", "/t/w,6.m{}.html 1-9"]),
        {"/t/w,5.m3.html": "/t/w,5.0.html", "/t/w,5.m22.html": "/t/w,5.m21.html", "/t/w,6.m9.html": "/t/w,6.m1.html"},
        ["/t/w,5.m41.html", "/t/w,7.m3.html", "/t/x,5.m3.html", "/t/w,5.m3.htm", "/w,5.m3.html",
         "/t/w,5.0.html", "/t/w,6.0.html"],
    ),
    (
        rule(kind="value-alias", slots="q:h", within="q:p",
             values=["q:p=a - q:h=HEAD q:h=v1%202", "q:p=b q:h=HEAD q:h=refs/v2"]),
        {"/?h=HEAD&p=a": "/?p=a", "/?p=a&h=v1+2": "/?p=a", "/?p=b&h=refs%2Fv2": "/?p=b&h=HEAD",
         "/?p=b;a=log;h=refs/v2": "/?p=b;a=log;h=HEAD"},
        ["/?p=a", "/?p=b", "/?p=b&h=HEAD", "/?h=HEAD", "/?p=c&h=HEAD", "/?p=a&h=HEAD&h=HEAD",
         "/?p=a&h=head", "/?p=a&p=b&h=HEAD", "/?p=a&h=", "/?p=b&h=v1+2"],
    ),
    (
        rule(kind="value-alias", slots=("s0", "q:id"), values=["s0=x s0=user&q:id=5 s0=user&q:id=05"]),
        {"/user/posts?id=5": "/x/posts", "/user?id=05": "/x"},
        ["/user", "/user/posts?id=6", "/x/posts", "/users?id=5", "/"],
    ),
    (
        rule(kind="ignore-value", slots=("s1", "q:t"), when={"has": "id"}),
        {"/p/a-slug?id=1": "/p/*?id=1", "/p/?id=1&t=x": "/p/?id=1&t=%2A"},
        ["/p/a-slug", "/p?id=1"],
    ),
    (
        rule(kind="lowercase-path", option=True, path="/wiki/**"),
        {"/wiki/A/B": "/wiki/a/b"},
        ["/Wiki/A", "/a/Wiki"],
    ),
    (
        rule(kind="trailing-slash", option="add", path="/blog/**"),
        {"/blog/a": "/blog/a/"},
        ["/shop/a", "/blog/a/"],
    ),
]  # fmt: skip
