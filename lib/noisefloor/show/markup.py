"""What a notebook shows, as HTML: every piece is a macro of ``template/parts.html.j2``."""

import base64
import gzip
import html
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisefloor.stats.verdict import kind
from noisefloor.text import amounts, sheet

if TYPE_CHECKING:
    import pandas as pd

TEMPLATE = Path(__file__).parent / "template"
TOLD = tomllib.loads((TEMPLATE / "pages.toml").read_text(encoding="utf-8"))
# the sign of each `kind` of verdict: no arrows, because the change beside it may point the other way
GLYPHS = {"worse": "✗", "better": "✓", "same": "=", "cannot tell": "?", "provisional": "○"}
_MOST = 1_000  # characters of a piece's plain text that are shown
PACKED = 40_000  # bytes of data above which a page carries them compressed
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?\+00:00")


class Shown:
    """HTML with the same in plain text, for the last line of a notebook cell."""

    def __init__(self, markup: str, text: str = "") -> None:
        self.markup, self.text = markup, text or text_of_html(markup)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        words = re.sub(r"\s*\n\s*", "\n", self.text).strip()
        more = f"\n… {len(words) - _MOST:,} characters more" if len(words) > 1.2 * _MOST else ""
        text = words[:_MOST] + more if more else words
        return {"text/html": str(self.markup), "text/plain": text}


@cache
def environment() -> Any:
    """The Jinja environment of the templates. It escapes text, but no piece."""
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["glyph"] = GLYPHS
    templates.tests["filled"] = lambda value: value not in (None, "", [], {})
    templates.filters |= {"caption": caption, "cell": cell, "kind": kind}
    templates.filters |= {"look": lambda verdict: f"nf-{kind(verdict)}".replace(" ", "-")}
    return templates


def piece(name: str, *given: Any, **more: Any) -> str:
    """The HTML that the macro `name` makes of these arguments, as markup that is not escaped again."""
    return getattr(environment().get_template("parts.html.j2").module, name)(*given, **more)


def safe(text: str) -> str:
    """`text`, which is HTML already, as a piece."""
    from jinja2.utils import markupsafe

    return markupsafe.Markup(text)


def joined(pieces: Iterable[str]) -> str:
    """Several pieces as one; other text among them is escaped."""
    return safe("").join(pieces)


def say(name: str, *given: Any, **facts: Any) -> str:
    """The sentence of this name in ``template/pages.toml``, with these facts in it."""
    return TOLD["says"][name].format(*given, **facts)


def text_of_html(markup: str) -> str:
    """The text of a piece."""
    return html.unescape(re.sub("<[^>]+>", "", str(markup)))


def caption(text: str) -> str:
    """A caption as HTML: no line break before a percent sign, a full stop at the end."""
    text = re.sub(r"(?<=\d) %", "\u202f%", text.strip())
    return safe(html.escape(text if not text or text[-1] in ".?!:" else f"{text}."))


def csv_link(frame: "pd.DataFrame", name: str) -> str:
    """A link that carries `frame` as CSV inside the page: nothing is fetched. Above PACKED bytes it is
    a .csv.gz, a tenth as long, which pandas and R read directly."""
    data = sheet.cells(frame).to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()
    kind, ending = "text/csv;charset=utf-8", ".csv"
    if len(data) > PACKED:
        data, kind, ending = gzip.compress(data, mtime=0), "application/gzip", ".csv.gz"
    href = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return piece("data", name + ending, href, len(frame))


def csv_data(packed: str) -> bytes:
    """The CSV that a link of `csv_link` carries; packed: its base64 text."""
    data = base64.b64decode(packed)
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def has_value(value: Any) -> bool:
    """Whether a cell of a table holds something."""
    import pandas as pd

    return value is not None and (isinstance(value, str) or not pd.isna(value))


def cell(value: Any) -> str:
    """A value of a table as text; `–` for a missing one."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return "; ".join(map(str, value))
    if not has_value(value) or value == "":
        return "–"
    if isinstance(value, float):
        text = f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:,.4g}"
        return text.replace("-", amounts.MINUS)
    return _STAMP.sub("\\1\u00a0\\2\u00a0UTC", str(value))
