"""Figures are checked by what was drawn (texts, lines, limits), the SVG by its bytes."""

import base64
import io
import math
import re
import tomllib

import numpy as np
import pandas as pd
import pytest
from matplotlib.font_manager import findfont, get_font
from matplotlib.text import Text

from analysis import published_figures
from conftest import DATA
from noisefloor.show import markup, plots
from noisefloor.show.plots import canvas
from noisefloor.text import amounts

CPU = "cpu_per_transaction"
AMOUNTS = tomllib.loads((DATA / "amounts.toml").read_text())


def verdicts(rows, **more):
    """A verdict table from (metric, threads, arm, change, half width, verdict) tuples."""
    columns = ["metric", "threads", "arm", "change_pct", "half", "verdict"]
    frame = pd.DataFrame(rows, columns=columns).astype({"threads": "Int64"})
    half = frame.pop("half")
    known = {"study": "s", "workload": "w", "baseline": "plain", "margin_pct": 2.0}
    known |= {"sittings": 1, "asked": 1, "ranged": False}
    return frame.assign(
        lo_pct=frame["change_pct"] - half,
        hi_pct=frame["change_pct"] + half,
        joint=frame["threads"].isna(),
        **known | more,
    )


TABLE = verdicts(
    [
        ("tps", 1, "encrypted", -4.0, 1.0, "slower"),
        ("tps", 4, "encrypted", -1.0, 2.0, "cannot tell"),
        ("tps", 16, "encrypted", -0.1, 1.2, "same"),
        ("tps", pd.NA, "encrypted", -1.7, 0.8, "slower"),
        ("tps", 4, "plain again", -0.2, 1.9, "same"),
        ("p99", 1, "encrypted", 19.0, 2.0, "slower"),
        ("p99", 4, "encrypted", 3.0, 4.0, "cannot tell"),
    ]
)


def texts(figure):
    found = [t for ax in figure.axes for t in [*ax.texts, ax.title, ax.xaxis.label]]
    return [t.get_text().replace("\u202f", " ") for t in found]


# -- sizes in words --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tell", "given", "text"),
    [
        *AMOUNTS["sizes"],
        *(("interval", ends, shown) for *ends, shown, _ in AMOUNTS["intervals"]),
        *(("bounds", ends, known) for *ends, _, known in AMOUNTS["intervals"]),
        ("percent", (None,), "not known"),
        ("change", (pd.NA, "tps"), "not known"),
        ("change", (None, "tps"), "not known"),
        ("interval", (None, pd.NA, "tps"), "no interval"),
        ("bounds", (None, pd.NA, "tps"), ""),
        ("with_interval", (739, 600, 990, "p95"), "8.4 times slower (7 to 10.9 times)"),
    ],
)
def test_a_size_and_its_interval_are_told_in_one_way(tell, given, text):
    assert str(getattr(amounts, tell)(*given)).replace("\u202f", " ") == text


# -- colours ---------------------------------------------------------------------------------------


def test_an_arm_keeps_its_colour_in_every_table():
    plots.theme(["plain", "plain again", "TLS 1.2", "TLS 1.3"])
    whole = canvas.PAGE.of(pd.DataFrame({"arm": ["TLS 1.3", "plain", "TLS 1.2"]}))
    one = canvas.PAGE.of(pd.DataFrame({"arm": ["TLS 1.3"]}))
    plots.theme()
    assert whole["TLS 1.3"] == one["TLS 1.3"] == canvas.ARMS[1]
    assert (whole["plain"], whole["plain again"]) == (canvas.BASE, canvas.CONTROL)


def test_without_an_order_the_control_names_the_baseline():
    ink = canvas.PAGE.of(pd.DataFrame({"arm": ["b", "z again", "z"]}))
    assert ink == {"z": canvas.BASE, "b": canvas.ARMS[0], "z again": canvas.CONTROL}


# -- what is drawn ---------------------------------------------------------------------------------


def test_threads_draw_the_published_numbers_over_ours():
    published = pd.DataFrame({"threads": [8], "change_pct": [-30.0], "label": ["a blog"]})
    (ax,) = plots.threads_figure(TABLE, "tps", published=published).axes
    assert "a blog" in texts(ax.figure)
    assert ax.get_ylim()[0] < -30
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "4", "8", "16", "all"]
    assert list(ax.get_xticks()[:4]) == [0, 2, 3, 4]  # log2
    points = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert any(np.allclose(p, (0, -4.0)) for p in points)


def test_there_is_a_diamond_for_all_thread_counts_where_there_is_a_joint_row():
    for table, shown in ((TABLE, True), (TABLE[~TABLE["joint"]], False)):
        (ax,) = plots.threads_figure(table, "tps").axes
        assert ("D" in [line.get_marker() for line in ax.lines]) == shown
        assert ("all" in [t.get_text() for t in ax.get_xticklabels()]) == shown


@pytest.mark.parametrize(
    ("metric", "ends"),
    [
        ("tps", "(↑ faster, ↓ slower)"),
        (CPU, "(↑ more, ↓ less)"),
        ("p99", "(↑ slower, ↓ faster)"),
        ("disk_bytes_per_transaction", "(↑ larger, ↓ smaller)"),
    ],
)
def test_the_ends_of_an_axis_are_called_by_the_metric(metric, ends):
    table = verdicts([(metric, 4, "encrypted", 1.0, 3.0, "cannot tell")])
    assert any(ends in t for t in texts(plots.threads_figure(table, metric)))
    larger, smaller = (word[2:] for word in ends[1:-1].split(", "))
    assert {f"← {smaller}", f"{larger} →"} <= set(texts(plots.dots(table)))


def test_ends_of_several_metrics_have_no_word_for_better_and_worse():
    table = verdicts([(m, 4, "a", 1.0, 3.0, "cannot tell") for m in ("tps", CPU)])
    assert {"← smaller", "larger →"} <= set(texts(plots.dots(table)))


def test_the_band_is_the_margin_of_the_rows():
    table = verdicts([("tps", 4, "encrypted", 1.0, 3.0, "cannot tell")], margin_pct=5.0)
    for figure, words in (
        (plots.threads_figure(table), "within ±5 %\ncounts as same"),
        (plots.dots(table), "±5 % counts as same"),
    ):
        assert words in texts(figure)
    assert "shaded: counts as same" in texts(plots.dots(pd.concat([table, TABLE])))


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"sittings": 1, "asked": 3}, "provisional"),
        ({"sittings": 2, "asked": 1, "ranged": True}, "2 boots"),
    ],
)
def test_without_its_sittings_a_question_has_no_word(known, said, narrow):
    table = verdicts([("tps", 4, "encrypted", -4.0, 1.0, "provisional")], **known)
    for draw in (plots.threads_figure, plots.dots):
        words = " ".join(texts(draw(table, narrow=narrow))).replace("\n", " ")
        assert said in words
        assert ("provisional" in words) == (said == "provisional")
    assert said in plots.alt(table)


@pytest.mark.parametrize("narrow", [False, True])
def test_a_row_without_a_word_is_drawn_with_its_numbers_alone(narrow):
    rows = [("mean_latency", n, "encrypted", 4.0, 1.0, "") for n in range(1, 13)]
    table = verdicts(rows)
    one = table.head(1)
    drawn = [texts(plots.threads_figure(t, "mean_latency", narrow=narrow)) for t in (one, table)]
    signs = {*markup.GLYPHS.values(), *markup.GLYPHS}  # where words have no room
    assert [t for part in drawn for t in part if t.strip() in signs] == []
    assert ("+4.0 %" in drawn[0]) == (not narrow)
    numbers = "+4.0 % (+3.0 to +5.0 %)"
    assert (numbers in texts(plots.dots(one, narrow=narrow))) == (not narrow)
    assert plots.alt(one).replace("\u202f", " ").endswith(f"against plain: {numbers}.")
    ranged = one.assign(sittings=2, asked=1, ranged=True)
    assert "range of 2 boots" in " ".join(texts(plots.dots(ranged, narrow=narrow)))


@pytest.mark.parametrize(
    ("more", "metric", "panels"),
    [
        ({}, ["tps", "p99"], ["Transactions per second", "99th percentile latency"]),
        ({"workload": {"w": "throttled disk"}}, "tps", ["w", "throttled disk"]),
        ({"arm": {"encrypted": "TLS"}}, "tps", ["encrypted against plain", "TLS against plain"]),
    ],
)
def test_threads_make_small_multiples_of_what_differs(more, metric, panels):
    table = pd.concat([TABLE, TABLE.replace(more)] if more else [TABLE], ignore_index=True)
    figure = plots.threads_figure(table, metric)
    assert [ax.get_title(loc="left") for ax in figure.axes if ax.get_visible()] == panels
    named = "TPS: change (↑ faster, ↓ slower)"  # where no title says it
    assert texts(figure).count(named) == (0 if isinstance(metric, list) else 2)


def test_a_crowded_figure_explains_the_signs_that_are_drawn():
    at = [(2**k, arm) for k in range(6) for arm in ("encrypted", "TLS")]
    rows = [("tps", threads, arm, -4.0, 1.0, "slower") for threads, arm in at]
    rows[0] = ("tps", 1, "encrypted", -1.0, 2.0, "cannot tell")
    label = plots.threads_figure(verdicts(rows), by="workload").axes[0].get_xlabel()
    assert label.replace("\u00a0", " ").split("\n")[1:] == ["✗ worse, ? cannot tell"]


def test_a_metric_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no row of metric 'p95'"):
        plots.threads_figure(TABLE, "p95")


@pytest.mark.parametrize("half", [math.nan, math.inf])
def test_a_comparison_without_a_finite_interval_is_drawn_all_the_same(half):
    table = verdicts([("tps", 4, "encrypted", 3.0, half, "cannot tell")])
    for figure in (plots.threads_figure(table), plots.dots(table)):
        assert any(t.startswith("cannot tell") for t in texts(figure))
        assert "<svg" in plots.svg(figure)


def test_dots_have_a_row_a_comparison_with_its_verdict_in_words():
    assert texts(plots.dots(TABLE)).count("cannot tell") == 2


def test_rows_under_thread_counts_keep_the_joint_effect_apart():
    two = pd.concat([TABLE, TABLE.assign(arm="other")]).drop(columns="workload")
    shown = texts(plots.dots(two[two["metric"] == "tps"], by=("workload", "threads")))
    assert {"all thread counts", "4 threads"} <= set(shown)


def paired(blocks=5, each=4, move=0.01):
    """Pairs of one comparison, whose log changes scatter by 3 % around `move`."""
    n = blocks * each
    pairs = {"threads": 4, "metric": "tps", "baseline": "plain", "arm": "encrypted"}
    pairs |= {"pair": np.arange(n), "block": np.repeat(np.arange(blocks), each)}
    pairs |= {"change": np.random.default_rng(1).normal(move, 0.03, n)}
    return pd.DataFrame(pairs).astype({"threads": "Int64"})


def test_pairs_show_blocks_and_the_mean_of_each():
    pairs = paired()
    ax = plots.pairs_figure(pairs).axes[0]
    assert ax.get_xlabel() == "pair (line: mean of a block; dotted: a new block)"
    lines = ax.lines
    upright = [line.get_xdata()[0] for line in lines if len(set(line.get_xdata())) == 1]
    assert {4.5, 8.5, 12.5, 16.5} <= set(upright)
    means = 100 * np.expm1(pairs.groupby("block")["change"].mean())
    level = [line.get_ydata()[0] for line in lines if len(line.get_ydata()) == 2]
    assert all(any(np.isclose(mean, y) for y in level) for mean in means)


def test_pairs_far_outside_are_arrows_at_the_edge_not_a_wider_axis():
    pairs = paired()
    pairs.loc[3, "change"] = 1.5  # +348 %
    ax = plots.pairs_figure(pairs).axes[0]
    assert ax.get_ylim()[1] < 100
    assert "^" in [line.get_marker() for line in ax.lines]


def sat(*changes, processor="A", **more):
    """Campaigns of one comparison on a processor, an hour from each other."""
    rows = verdicts([("tps", 4, "encrypted", change, 1.0, "slower") for change in changes])
    dates = [f"2026-11-2{day}T10:00" for day in range(len(changes))]
    known = {"processor": processor, "steal_pct": 3.14, "series": "MySQL 9.7.4"}
    return rows.assign(campaign=dates, date=dates, **known | more)


def whole(change, *, processor="A", sittings=3, ahead=4.0, **more):
    """What they say together."""
    rows = verdicts([("tps", 4, "encrypted", change, 0.5, more.pop("verdict", "slower"))])
    ends = {"next_lo_pct": change - ahead, "next_hi_pct": change + ahead}
    return rows.assign(processor=processor, sittings=sittings, asked=3, **ends | more)


@pytest.mark.parametrize("narrow", [False, True])
def test_sittings_stand_by_processor_with_what_they_say_together(narrow):
    each = pd.concat([sat(-3.0, -4.0, -3.5), sat(-7.0, processor="B", steal_pct=math.nan)])
    both = pd.concat([whole(-3.5), whole(-7.0, processor="B", sittings=1, verdict="provisional")])
    shown = texts(figure := plots.sittings_figure(each, both, narrow=narrow))
    row = "2026-11-20, MySQL 9.7.4"
    assert {"A", "B", f"{row}, steal 3.1 %", row} <= set(shown)
    assert {"3 boots together", "1 boot", "expected of the next campaign"} <= set(shown)
    words = " ".join(shown)
    assert words.count("slower") == 2  # of all sittings, and the end of the axis
    assert "provisional" in words
    assert "−7.5 to +0.5 %" in words
    lines = figure.axes[0].lines
    assert [line.get_marker() for line in lines if line.get_marker() in "oD"] == [*"oooDoD"]
    ends = [tuple(line.get_xdata()) for line in lines if line.get_linewidth() == 2]
    assert (-7.5, 0.5) in ends  # the range of the next one: a thin bar


def test_campaigns_of_one_day_are_told_by_the_hour():
    each = sat(-3.0, -4.0)
    each["date"] = ["2026-11-20T10:00", "2026-11-20T16:30"]
    shown = texts(plots.sittings_figure(each, whole(-3.5)))
    assert "2026-11-20 16:30, MySQL 9.7.4, steal 3.1 %" in shown


def test_a_range_of_sittings_is_no_interval():
    both = whole(-3.5, sittings=2, verdict="provisional", ranged=True)
    for figure in (drawn := plots.sittings_figure(sat(-3.0, -4.0), both), drawn.narrow()):
        words = " ".join(texts(figure))
        assert "range of 2 boots" in words
        assert "−4.0 to −3.0 %" in words
        assert "−3.5 % (" not in words
    said = plots.sittings_alt(sat(-3.0, -4.0), both).replace("\u202f", " ")
    assert said == (
        "A: 2026-11-20 −3.0 % (−4.0 to −2.0 %); 2026-11-21 −4.0 % (−5.0 to −3.0 %); 2 boots together:"
        " range of 2 boots, −4.0 to −3.0 %; the next campaign is expected at −7.5 to +0.5 %."
    )


def seconds():
    runs = enumerate(["plain", "plain", "encrypted"])
    return pd.DataFrame(
        {"run": r, "arm": arm, "t_s": s, "tps": 100 + s + r, "warmup": r == 0, "start_s": 10.0 * r}
        for r, arm in runs
        for s in (1, 2, 3)
    )


RESTARTED = pd.DataFrame(
    {"run": f"{arm}{i}", "arm": arm, "t_s": t / 10, "tps": base * t / 10 + i}
    for arm, base in (("plain", 100), ("encrypted", 80))
    for i in range(3)
    for t in range(1, 11)
)


def test_a_warm_up_shows_the_median_run_of_each_arm():
    lines = (
        plots.over_time(RESTARTED, "tps", "transactions per second", "the server answered again")
        .axes[0]
        .lines
    )
    assert sorted(line.get_ydata()[-1] for line in lines) == [81, 101]


def test_quantiles_show_the_ratio_to_the_baseline():
    frame = pd.DataFrame(
        {"arm": a, "q": q, "value_s": v * k, "lo": math.nan, "hi": math.nan}
        for a, k in (("plain", 1.0), ("encrypted", 1.1))
        for q, v in ((0.5, 0.01), (0.99, 0.05), (0.999, 0.2))
    )
    top, low = plots.quantiles_figure(frame, baseline="plain").axes
    assert top.get_yscale() == "log"
    assert [t.get_text() for t in low.get_xticklabels()] == ["p50", "p99", "p99.9"]
    drawn = [line for line in low.lines if len(line.get_ydata()) == 3]
    assert np.allclose(drawn[0].get_ydata(), 10.0)


def test_runs_draw_the_median_in_shown_units_without_warm_ups():
    tidy = pd.DataFrame(
        {"arm": arm, "threads": 4, "metric": CPU, "value": v, "warmup": v > 1}
        for arm in ("plain", "encrypted")
        for v in (0.001, 0.002, 0.003, 9.0)
    )
    (ax,) = plots.runs_figure(tidy, CPU).axes
    assert {line.get_ydata()[0] for line in ax.lines} == {2.0}  # ms
    assert any("Server CPU per transaction, ms" in t for t in texts(ax.figure))


@pytest.mark.parametrize(
    "draw",
    [plots.timeline, plots.dots, plots.pairs_figure, plots.runs_figure, plots.threads_figure],
)
def test_where_nothing_was_measured_a_sentence_stands(draw):
    shown = plots.show(draw(TABLE[:0]), alt=plots.alt(TABLE[:0]))
    assert shown.markup.count("No run of this campaign has a value for this figure.") == 2


# -- as a piece of a page, and as a file -----------------------------------------------------------

RUNS = {"arm": ["a", "b"] * 5, "threads": 1, "metric": "tps", "value": range(10), "warmup": False}
FIGURES = {
    "threads": lambda: plots.threads_figure(TABLE, ["tps", "p99"]),
    "pairs": lambda: plots.pairs_figure(paired()),
    "timeline": lambda: plots.timeline(seconds()),
    "warmup": lambda: plots.over_time(
        RESTARTED, "tps", "transactions per second", "the server answered again"
    ),
    "dots": lambda: plots.dots(TABLE),
    "sittings": lambda: plots.sittings_figure(sat(-3.0, -4.0), whole(-3.5)),
    "runs": lambda: plots.runs_figure(pd.DataFrame(RUNS), "tps"),
}
SAID = {
    "threads": {
        *("slower\n−4.0 %", "same\n−0.1 %", "shaded: within ±2 % counts as same"),
        *("cannot\ntell\n−1.0 %", "slower\n−1.7 %"),  # at 4 threads, the joint effect
        *("encrypted against plain", "the same twice"),
        "change (↑ faster, ↓ slower)",
    },
    "timeline": {
        *("encrypted: median 104", "plain: median 103", "dashed grey: warm-up, not counted"),
    },
    "warmup": {"plain (3 runs)", "encrypted (3 runs)"},
    "dots": {
        *("Transactions per second", "99th percentile latency", "1 thread", "cannot tell"),
        "4 threads, the same twice",
        "the same twice: nothing differs between the two sides, so it shows chance alone",
    },
}


@pytest.mark.parametrize("name", SAID)
def test_what_a_reader_must_know_stands_in_the_drawing(name):
    assert SAID[name] <= set(texts(FIGURES[name]()))


@pytest.mark.parametrize("name", FIGURES)
def test_the_svg_follows_the_page_and_is_the_same_to_the_byte(name):
    text, again = (plots.svg(FIGURES[name](), "What it costs & why", "in words") for _ in range(2))
    assert again == text
    told = (">What it costs &amp; why</title>", ">in words</desc>")
    assert all(t in text for t in (*told, "currentColor", 'role="img"', "<text"))
    assert "#ffffff" not in text  # the page's paper shows through, light or dark
    assert canvas.INK not in text
    assert "metadata" not in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', text)) <= set(ids)
    addresses = set(re.findall(r"https?://[^\"' )]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_a_number_in_a_label_keeps_its_decimals():
    figure = FIGURES["dots"]()
    figure.axes[0].set_xlabel("long_query_time=0.001 of 192.168.1.7")
    assert "long_query_time=0.001 of 192.168.1.7</text>" in plots.svg(figure)


def test_a_standalone_svg_has_plain_colours_on_white():
    text = plots.svg(FIGURES["dots"](), "a & b", "in words", themed=False)
    assert text.startswith("<?xml")
    assert "#ffffff" in text
    assert "var(" not in text
    assert "<title>a &amp; b</title><desc>in words</desc>" in text


def test_show_embeds_the_data_and_a_narrow_drawing():
    markup = plots.show(
        FIGURES["threads"](), alt="words", caption="With 95 % intervals.", data=TABLE, name="o"
    ).markup
    assert markup.count("<svg") == 2
    assert 'class="nf-narrow" style="display:none"' in markup
    assert "95 % intervals" in markup
    data = re.search(r'href="data:text/csv;charset=utf-8;base64,([^"]+)"', markup)[1]
    back = pd.read_csv(io.BytesIO(base64.b64decode(data)))
    assert list(back["change_pct"]) == list(TABLE["change_pct"])


def test_long_data_are_carried_compressed():
    frame = pd.DataFrame({"run": [f"in-memory-t4-p{i}" for i in range(20_000)]})
    link = markup.csv_link(frame, "runs")
    assert 'download="runs.csv.gz" href="data:application/gzip;base64,' in link
    assert "data (CSV, gzip, 20000 rows)" in link
    data = re.search(r'base64,([^"]+)"', link)[1]
    assert len(data) < 100_000
    assert pd.read_csv(io.BytesIO(markup.csv_data(data))).equals(frame)
    assert pd.read_csv(io.BytesIO(base64.b64decode(data)), compression="gzip").equals(frame)


def test_alternative_text_comes_from_the_verdict_table():
    with pytest.raises(ValueError, match="alternative text"):
        plots.show(FIGURES["dots"]())
    assert plots.alt(TABLE.head(1)) == (
        "Transactions per second at 1 thread, encrypted against plain: slower, −4.0\u202f% "
        "(−5.0 to −3.0\u202f%)."
    )
    assert plots.alt(TABLE.head(1).assign(rate=math.nan)) == plots.alt(TABLE.head(1))
    assert "over all thread counts" in plots.alt(TABLE)
    some = plots.alt(TABLE.assign(label="1 to 16 threads together"))  # of a published claim
    assert "Transactions per second 1 to 16 threads together, " in some
    assert "over all thread counts" not in some
    assert "at 1 thread, " in some


def test_in_jupyterlab_its_own_rules_give_way():
    css = canvas._lab_css()
    assert css.startswith(plots.LAB)
    rules = css.partition("body[data-jp-theme-light] {")[2]
    assert ".nf-headline" in rules
    assert "--nf-ink" not in rules.partition("{")[0]
    assert css.count("{") == css.count("}")


def test_signs_have_no_direction_and_the_font_of_figures_has_them():
    """A sign beside `+11.7 %` must not point down."""
    signs = "".join(markup.GLYPHS.values())
    assert not re.search("[▲△▴▼▽▾↑↓↗↘⬆⬇]", signs)
    assert {ord(sign) for sign in signs} <= set(get_font(findfont("DejaVu Sans")).get_charmap())


# -- axes ------------------------------------------------------------------------------------------


def one(change, metric="p95"):
    half = 0.2 * min(abs(change), 100 + change)
    rows = [(metric, t, "encrypted", change, half, "slower") for t in (1, 4)]
    return verdicts([*rows, (metric, 4, "plain again", 0.2, 1.9, "same")])


def followed(change):
    campaign = {"campaign": "c", "date": "2026-11-20", "engine": "MySQL 9.7", "machine": "m"}
    return one(change).assign(question="", **campaign)


DRAWN = {
    "threads": lambda v: plots.threads_figure(one(v), "p95"),
    "dots": lambda v: plots.dots(one(v)),
    "history": lambda v: plots.history_figure(followed(v)),
    "pairs": lambda v: plots.pairs_figure(paired(move=math.log1p(v / 100))),
}


@pytest.mark.parametrize(
    "name", ["threads", "dots", "pairs", pytest.param("history", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("change", "unit"),
    [
        *((150.0, "×"), (5000.0, "×"), (-80.0, "×"), (3.0, "%"), (-20.0, "%")),
        *((-97.0, ""), (60.0, "")),  # either: as its interval is
        *(
            pytest.param(change, unit, marks=pytest.mark.slow)
            for change, unit in ((900.0, "×"), (40.0, "%"), (-45.0, ""), (99.0, ""))
        ),
    ],
)
def test_an_axis_is_linear_in_percent_and_beyond_100_has_factors_on_a_log_scale(name, change, unit):
    figure, lying = DRAWN[name](change), name in ("dots", "history")
    for drawn in (figure, figure.narrow()):
        axis = drawn.axes[0].xaxis if lying else drawn.axes[0].yaxis
        low, high = axis.get_view_interval()
        assert -100 < low < change
        assert high > 0
        drawn.draw_without_rendering()
        labels, which = axis.get_ticklabels(), int(not lying)
        shown = [t.get_text() for t in labels if low <= t.get_position()[which] <= high]
        assert len(shown) >= 2
        assert {"×": "1×", "%": "0\u202f%", "": shown[0]}[unit] in shown
        assert len({t[-1] for t in shown if "÷" not in t}) == 1
        below = [float(t.strip("−\u202f%").replace(",", "")) for t in shown if "−" in t]
        assert all(t < 100 for t in below)
        spots = [t.get_window_extent() for t in labels if low <= t.get_position()[which] <= high]
        assert all(s.x0 >= drawn.bbox.x0 and s.x1 <= drawn.bbox.x1 for s in spots)


def test_claims_have_no_tick_that_cannot_exist():
    frame = pd.concat([one(-60.0).head(1).assign(label="one"), one(400.0).head(1)])
    ax = published_figures.claims(frame.assign(title="a claim").fillna({"label": "two"})).axes[0]
    assert ax.get_xlim()[0] > -100
    assert {"4×", "+10", "−10"} <= {t.get_text() for t in ax.get_xticklabels()}


def test_the_grey_bar_of_a_claim_is_what_an_unchanged_server_explains():
    """As far from no change as the ends of the interval are from the claim."""
    frame = one(10.0).head(1).assign(title="a claim", label="one", lo_pct=-1.0, hi_pct=21.0)
    (bar,) = (
        line for line in published_figures.claims(frame).axes[0].lines if line.get_linewidth() == 9
    )
    assert bar.get_xdata() == pytest.approx([-10, 10], abs=1.1)
    bare = frame.assign(lo_pct=math.nan, hi_pct=math.nan)
    assert not [
        line for line in published_figures.claims(bare).axes[0].lines if line.get_linewidth() == 9
    ]


def test_a_wide_interval_is_cut_and_marked_not_given_the_whole_axis():
    table = one(3.0)
    table.loc[0, ["lo_pct", "hi_pct"]] = -99.0, 20_000.0
    ax = plots.threads_figure(table, "p95").axes[0]
    assert ax.get_ylim()[1] < 100
    assert {"^", "v"} <= {line.get_marker() for line in ax.lines}


def test_a_control_does_not_widen_the_axis():
    table = one(3.0)
    table.loc[2, ["lo_pct", "hi_pct"]] = -60.0, 90.0
    ax = plots.threads_figure(table, "p95").axes[0]
    assert ax.get_ylim()[1] < 30


def test_a_verdict_is_told_with_its_direction_once():
    assert "slower\n8.4 times" in texts(plots.threads_figure(one(739.0), "p95"))
    assert "8.4× (6.9 to 9.9×)" in " ".join(texts(plots.dots(one(739.0))))


@pytest.mark.parametrize("counts", [(1, 4, 16, 32, 64, 128, 256, 512), (1, 4, 16, 64)])
def test_words_stand_on_their_own_interval_also_where_points_are_close(counts):
    """In shorter lines then, none raised above its neighbours."""
    rows = [("tps", t, "encrypted", 8.0 + t % 7, 6.0 + t % 5, "cannot tell") for t in counts]
    (ax,) = plots.threads_figure(verdicts(rows)).axes
    words = [note for note in ax.texts if note.get_text().startswith("cannot")]
    assert {note.xyann for note in words} == {(0, 5)}
    assert all(note.get_text().endswith("\u202f%") for note in words)
    short = len(counts) == 8
    assert [note.get_text().count("\n") for note in words] == [1 + short] * len(counts)


@pytest.mark.parametrize("arms", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)), 3])
@pytest.mark.parametrize("change", [3.0, 400.0])
@pytest.mark.parametrize("narrow", [False, True])
def test_no_label_covers_a_title(arms, change, narrow):
    table = pd.concat(
        one(change * (1 + i / 9))
        .assign(baseline="a server with a long name", metric=metric)
        .replace({"arm": {"encrypted": f"arm {i} whose name is rather long, too"}})
        for metric in ("tps", "disk_bytes_per_transaction")
        for i in range(arms)
    ).reset_index(drop=True)
    figure = plots.threads_figure(table, list(pd.unique(table["metric"])), narrow=narrow)
    figure.draw_without_rendering()
    for ax, title in zip(figure.axes, ("Transactions", "Written"), strict=True):
        assert ax._left_title.get_text().startswith(title)
        head, notes = ax._left_title.get_window_extent(), filter(Text.get_text, ax.texts)
        assert [t.get_text() for t in notes if t.get_window_extent().overlaps(head)] == []


def test_a_figure_is_the_same_to_the_byte_where_only_what_is_rounded_differs():
    def drawn(end):
        figure, (ax,) = plots.canvas.sheet(False, 120, 1)
        figure.set_layout_engine("none")
        ax.set_position((0.1, 0.1, end, 0.8))  # its clip is named after it
        ax.plot([0, 1], [0, 1], "o")
        return plots.svg(figure, "a title")

    assert drawn(0.8) == drawn(0.8 + 1e-9)
    assert drawn(0.8) != drawn(0.7)
