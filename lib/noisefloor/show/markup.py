"""What a notebook shows, as HTML: every piece is a macro of ``template/parts.html.j2``."""

import base64
import gzip
import html
import re
import tomllib
from functools import cache
from pathlib import Path

from noisefloor.model import METRICS
from noisefloor.stats import verdict as verdicts
from noisefloor.text import sheet

TEMPLATE = Path(__file__).parent / "template"
TOLD = tomllib.loads((TEMPLATE / "pages.toml").read_text(encoding="utf-8"))
# the signs of what `kind` tells of a verdict
GLYPHS = {"worse": "▲", "better": "▼", "same": "=", "cannot tell": "?", "not yet": "○"}
_WORSE = {m.word(m.worse_up) for m in METRICS.values()}  # a word is worse for every metric or none
MOST = 1_000  # characters of a piece, where only its plain text can be shown
PACKED = 40_000  # bytes of data above which a page carries them compressed
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?\+00:00")


class Shown:
    """HTML with the same in plain text, for the last line of a notebook cell."""

    def __init__(self, markup, text=""):
        self.markup, self.text = markup, text or plain(markup)

    def _repr_mimebundle_(self, include=None, exclude=None):
        words = re.sub(r"\s*\n\s*", "\n", self.text).strip()
        more = f"\n… {len(words) - MOST:,} characters more" if len(words) > 1.2 * MOST else ""
        text = words[:MOST] + more if more else words
        return {"text/html": str(self.markup), "text/plain": text}


@cache
def environment():
    """The templates; what goes into one is escaped, but for what came out of one."""
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["glyph"] = GLYPHS
    found.tests["filled"] = lambda value: value not in (None, "", [], {})
    found.filters |= {"caption": caption, "cell": cell, "kind": kind}
    found.filters |= {"look": lambda verdict: f"nf-{kind(verdict)}".replace(" ", "-")}
    return found


def kind(verdict) -> str:
    """Of a verdict's word alone what `stats.verdict.kind` tells: worse, better, same, cannot tell or
    not yet."""
    if not verdicts.differs(verdict):
        return verdict
    return "worse" if verdict in _WORSE else "better"


def piece(name, *given, **more):
    """The macro `name` with these arguments, as markup that is not escaped again."""
    return getattr(_macros(), name)(*given, **more)


@cache
def _macros():
    return environment().get_template("parts.html.j2").module


def safe(text):
    """`text`, which is HTML already, as a piece."""
    from jinja2.utils import markupsafe

    return markupsafe.Markup(text)


def joined(pieces):
    """Several pieces as one."""
    return safe("").join(pieces)


def say(name, *given, **facts) -> str:
    """The sentence of this name in ``template/pages.toml``, with these facts in it."""
    return TOLD["says"][name].format(*given, **facts)


def plain(markup) -> str:
    """The text of a piece."""
    return html.unescape(re.sub("<[^>]+>", "", str(markup)))


def caption(text):
    """A caption: percent signs stay with their number, a full stop at the end."""
    text = re.sub(r"(?<=\d) %", "\u202f%", text.strip())
    return safe(html.escape(text if not text or text[-1] in ".?!:" else f"{text}."))


def csv_link(frame, name):
    """A link that carries `frame` as CSV inside the page: nothing is fetched. Above PACKED bytes it is
    a .csv.gz, a tenth as long, which pandas and R read as they are."""
    data = sheet.cells(frame).to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()
    kind, ending = "text/csv;charset=utf-8", ".csv"
    if len(data) > PACKED:
        data, kind, ending = gzip.compress(data, mtime=0), "application/gzip", ".csv.gz"
    href = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return piece("data", name + ending, href, len(frame))


def csv_data(packed) -> bytes:
    """The CSV that a link of `csv_link` carries; packed: its base64 text."""
    data = base64.b64decode(packed)
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def known(value) -> bool:
    """Whether a cell of a table holds something."""
    import pandas as pd

    return value is not None and (isinstance(value, str) or not pd.isna(value))


def cell(value) -> str:
    """A value of a table as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return "; ".join(map(str, value))
    if not known(value) or value == "":
        return "–"
    if isinstance(value, float):
        text = f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:,.4g}"
        return text.replace("-", "−")
    return _STAMP.sub("\\1\u00a0\\2\u00a0UTC", str(value))
