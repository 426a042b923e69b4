"""One theme, and one colour an arm."""

import re

import matplotlib as mpl
import pandas as pd
import seaborn as sns

from noisefloor.model import AGAIN
from noisefloor.show.markup import TEMPLATE

_RC = mpl.rc_params_from_file(TEMPLATE / "figures.mplstyle", use_default_template=False)
# Drawn colours are stand-ins: `svg` replaces each by a CSS variable with the light colour as
# fall-back, because no single ink reads on both white and black. Arms after Okabe and Ito,
# darkened or lightened until text in them has a contrast of 4.5:1 on either ground.
INK, MUTED, RULE = (_RC[k] for k in ("text.color", "axes.labelcolor", "grid.color"))
BAND, BASE, CONTROL = "#22718f", "#56616d", "#8b949e"
ARMS = ("#0067a3", "#b84a00", "#00755a", "#a03d74", "#846000")
_NAMES = {"muted": MUTED, "rule": RULE, "band": BAND, "base": BASE, "control": CONTROL}
_NAMES |= {f"arm{i}": ink for i, ink in enumerate(ARMS, 1)}
CSS = {INK: "currentColor"} | {ink: f"var(--nf-{name},{ink})" for name, ink in _NAMES.items()}
WIDE, NARROW = 760, 360  # CSS pixels; one unit of the drawing is one pixel
PARTS_CSS = TEMPLATE / "parts.css"
LAB = '<style class="nf-lab">'  # how the output of `theme` begins; a page brings its own style
_order: list[str] = []  # arms of the study at hand, baseline first, as `theme` was told


def theme(arms=()):
    """Set the style of every figure and, once for a notebook, the order of its arms (names or
    objects with a `name`, baseline first) so that an arm keeps its colour in all figures. In a
    notebook it also shows the style sheet that makes boxes, tables and captions look right."""
    order(arms)
    _style()
    from IPython import get_ipython
    from IPython.display import HTML, display

    if get_ipython() is not None:
        display(HTML(_lab_css()))


def order(arms):
    """Set the order of the arms alone, as `theme` does."""
    _order[:] = [getattr(a, "name", a) for a in arms]


def _style():
    sns.set_theme(style="ticks", rc=_RC)


def _lab_css() -> str:
    """The parts' style for JupyterLab, whose theme and not the system says light or dark, and whose
    own rules for what a cell shows give way."""
    inks, rules = re.split(r"(?=/\* verdict \*/)", PARTS_CSS.read_text())
    system = r"@media screen and \(prefers-color-scheme: dark\) \{\s*:root"
    inks = re.sub(system, '@media all { body[data-jp-theme-light="false"]', inks)
    page = "--nf-paper: var(--jp-layout-color0, #fff); counter-reset: figure table"
    return f"{LAB}{inks}body {{ {page} }} body[data-jp-theme-light] {{ {rules} }}</style>"


def colours(frame) -> dict:
    """Colour of every arm in `frame`: grey for the baseline, light grey for its A/A control."""
    bases = list(pd.unique(frame["baseline"].dropna())) if "baseline" in frame else []
    names = list(dict.fromkeys([*_order, *bases, *pd.unique(frame["arm"].dropna())]))
    if not _order and not bases:  # no roles known: a control names its baseline, else by name
        known = set(names)
        names.sort(key=lambda n: (f"{n}{AGAIN}" not in known, str(n)))
    bases = bases or names[:1]
    inks = iter(ARMS * (1 + len(names) // len(ARMS)))
    return {
        n: BASE if n in bases else CONTROL if str(n).endswith(AGAIN) else next(inks) for n in names
    }
