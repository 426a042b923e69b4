"""Figures are checked by what was drawn (texts, lines, limits), the SVG by its bytes."""

import base64
import io
import math
import re

import numpy as np
import pandas as pd
import pytest

from noisefloor import amounts, plots, schedule


def verdicts(rows, **more):
    """A verdict table from (metric, threads, arm, overhead, half width, verdict) tuples."""
    frame = pd.DataFrame(
        [
            {
                "study": "s",
                "workload": "w",
                "metric": metric,
                "threads": threads,
                "baseline": "plain",
                "arm": arm,
                "n_baseline": 12,
                "n_arm": 12,
                "overhead_pct": mid,
                "lo_pct": mid - half,
                "hi_pct": mid + half,
                "level": 0.05,
                "verdict": verdict,
                "same_lo_pct": mid - 0.8 * half,
                "same_hi_pct": mid + 0.8 * half,
                "noise_floor_pct": half,
                "deciding_cv_pct": 1.0,
                "runs_needed": 40,
                "minutes_needed": 6.5,
                "warnings": [],
                "joint": pd.isna(threads),
                "blocks": 3,
                "design": "switched",
            }
            | more
            for metric, threads, arm, mid, half, verdict in rows
        ]
    )
    frame["threads"] = frame["threads"].astype("Int64")
    return frame


TABLE = verdicts(
    [
        ("tps", 1, "encrypted", 4.0, 1.0, "slower"),
        ("tps", 4, "encrypted", 1.0, 2.0, "cannot tell"),
        ("tps", 16, "encrypted", 0.1, 1.2, "same"),
        ("tps", pd.NA, "encrypted", 1.7, 0.8, "cannot tell"),
        ("tps", 4, "plain again", 0.2, 1.9, "same"),
        ("p99", 1, "encrypted", 9.0, 2.0, "slower"),
        ("p99", 4, "encrypted", 3.0, 4.0, "cannot tell"),
    ]
)


def texts(figure):
    return [t.get_text() for ax in figure.axes for t in [*ax.texts, ax.title, ax.xaxis.label]]


@pytest.mark.parametrize(
    ("value", "options", "text"),
    [
        (3.65, {}, "+3.6\u202f%"),
        (-0.24, {}, "−0.2\u202f%"),
        (0.01, {}, "0.0\u202f%"),
        (-0.01, {}, "0.0\u202f%"),
        (2.0, {"sign": False}, "2.0\u202f%"),
        (1.234, {"digits": 2, "sign": False}, "1.23\u202f%"),
        (250.4, {}, "+250\u202f%"),
        (1234.5, {}, "+1,234\u202f%"),
        (99.96, {}, "+100\u202f%"),
        (math.nan, {}, "not known"),
        (None, {}, "not known"),
        (math.inf, {}, "∞"),
    ],
)
def test_a_percentage_is_printed_one_way(value, options, text):
    assert amounts.percent(value, **options) == text


CPU = "cpu_per_transaction"


@pytest.mark.parametrize(
    ("value", "metric", "text"),
    [
        (100.0, "tps", "+100 %"),
        (100.4, "tps", "2 times slower"),
        (739.0, "tps", "8.4 times slower"),
        (1333.0, "tps", "14.3 times slower"),
        (4719.0, "tps", "48 times slower"),
        (1e9, "tps", "more than a million times slower"),
        (math.inf, "tps", "more than a million times slower"),
        (-50.0, "tps", "−50.0 %"),
        (-90.0, "tps", "10 times faster"),
        (130.0, CPU, "2.3 times more"),
        (-90.0, CPU, "−90.0 %"),  # nothing is ten times less
        (pd.NA, "tps", "not known"),
        (None, "tps", "not known"),
    ],
)
def test_a_large_overhead_is_told_as_a_factor(value, metric, text):
    assert amounts.overhead(value, metric).replace("\u202f", " ") == text


@pytest.mark.parametrize(
    ("lo", "hi", "metric", "shown", "known"),
    [
        (-1.2, 2.9, "tps", "−1.2 to +2.9 %", "at most 2.9 % slower, at most 1.2 % faster"),
        (-1.2, 2.9, CPU, "−1.2 to +2.9 %", "at most 2.9 % more, at most 1.2 % less"),
        (0.5, 2.9, "tps", "+0.5 to +2.9 %", "between 0.5 and 2.9 % slower"),
        (48, 117, "tps", "1.5 to 2.2 times slower", "between 1.5 and 2.2 times slower"),
        (3, 117, "tps", "+3.0 % to 2.2 times slower", "between 3.0 % and 2.2 times slower"),
        (-90, -60, "tps", "2.5 to 10 times faster", "between 2.5 and 10 times faster"),
        (-90, -60, CPU, "−90.0 to −60.0 %", "between 60.0 and 90.0 % less"),
        (-8, 120, CPU, "−8.0 % to 2.2 times more", "at most 2.2 times more, at most 8.0 % less"),
        (math.nan, 2.9, "tps", "no interval", ""),
        (None, pd.NA, "tps", "no interval", ""),
    ],
)
def test_an_interval_is_told_in_one_unit_and_says_what_is_known(lo, hi, metric, shown, known):
    assert amounts.interval(lo, hi, metric).replace("\u202f", " ") == shown
    assert amounts.known(lo, hi, metric).replace("\u202f", " ") == known


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (0.05, "8.4 times slower (7 to 10.9 times)"),
        (0.0125, "8.4 times slower (98.8 % interval 7 to 10.9 times)"),
        (0.0006, "8.4 times slower (99.94 % interval 7 to 10.9 times)"),
        (0.04, "8.4 times slower (96 % interval 7 to 10.9 times)"),
        (math.nan, "8.4 times slower (7 to 10.9 times)"),
        (None, "8.4 times slower (7 to 10.9 times)"),
    ],
)
def test_a_level_other_than_95_percent_is_named(level, text):
    assert amounts.told(739, 600, 990, "tps", level).replace("\u202f", " ") == text


def test_an_arm_keeps_its_colour_in_every_table():
    plots.theme(["plain", "plain again", "TLS 1.2", "TLS 1.3"])
    whole = plots.colours(pd.DataFrame({"arm": ["TLS 1.3", "plain", "TLS 1.2"]}))
    one = plots.colours(pd.DataFrame({"arm": ["TLS 1.3"]}))
    assert whole["TLS 1.3"] == one["TLS 1.3"] == plots.ARMS[1]
    assert whole["plain"] == plots.BASE
    assert whole["plain again"] == plots.CONTROL
    plots.theme()


def test_without_an_order_the_control_names_the_baseline():
    ink = plots.colours(pd.DataFrame({"arm": ["b", "z again", "z"]}))
    assert ink == {"z": plots.BASE, "b": plots.ARMS[0], "z again": plots.CONTROL}


def test_overhead_says_everything_in_the_drawing():
    figure = plots.overhead(TABLE, "tps", margin_pct=2.0)
    words = texts(figure)
    assert len(figure.axes) == 1
    assert "cannot tell\n+1.0\u202f%" in words  # at 4 threads
    assert "cannot tell\n+1.7\u202f%" in words  # the joint effect
    assert {"slower\n+4.0\u202f%", "same\n+0.1\u202f%", "noise floor:\nless is noise"} <= set(words)
    assert "within ±2\u202f%\ncounts as same" in words
    assert "encrypted against plain" in words
    assert "plain again (A/A control)" in words
    assert "overhead, with its interval (↑ slower, ↓ faster)" in words
    ax = figure.axes[0]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "4", "16", "all"]
    assert list(ax.get_xticks()[:3]) == [0, 2, 4]  # log2
    points = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert any(np.allclose(p, (0, 4.0)) for p in points)


def test_overhead_draws_the_published_numbers_over_ours():
    published = pd.DataFrame({"threads": [8], "overhead_pct": [30.0], "label": ["a blog"]})
    figure = plots.overhead(TABLE, "tps", published=published)
    assert "a blog" in texts(figure)
    assert figure.axes[0].get_ylim()[1] > 30


@pytest.mark.parametrize(
    ("table", "metric", "panels"),
    [
        (TABLE, ["tps", "p99"], ["Transactions per second", "99th percentile latency"]),
        (
            pd.concat([TABLE, TABLE.assign(workload="throttled disk")]),
            "tps",
            ["w", "throttled disk"],
        ),
        (
            pd.concat([TABLE, TABLE.assign(arm=TABLE["arm"].replace("encrypted", "TLS"))]),
            "tps",
            ["encrypted against plain", "TLS against plain"],
        ),
    ],
)
def test_overhead_makes_small_multiples_of_what_differs(table, metric, panels):
    figure = plots.overhead(table.reset_index(drop=True), metric)
    seen = [ax.get_title(loc="left") for ax in figure.axes if ax.get_visible()]
    assert seen == panels


@pytest.mark.parametrize("half", [math.nan, math.inf])
def test_a_comparison_without_a_finite_interval_is_drawn_all_the_same(half):
    table = verdicts([("tps", 4, "encrypted", 3.0, half, "cannot tell")])
    for figure in (plots.overhead(table), plots.dots(table)):
        assert any(t.startswith("cannot tell") for t in texts(figure))
        assert "<svg" in plots.svg(figure)


def test_overhead_of_a_metric_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no row of metric 'p95'"):
        plots.overhead(TABLE, "p95")


def pair_frames(blocks=5, each=4):
    rng = np.random.default_rng(1)
    n = blocks * each
    pairs = pd.DataFrame(
        {
            "threads": pd.array([4] * n, dtype="Int64"),
            "baseline": "plain",
            "arm": "encrypted",
            "block": np.repeat(np.arange(blocks), each),
            "pair": np.arange(n),
            "overhead": rng.normal(0.01, 0.03, n),
        }
    )
    steps = np.arange(1, n + 1)
    path = pd.DataFrame({"n": steps, "overhead_pct": 1.0, "lo_pct": -4.0, "hi_pct": 6.0})
    return pairs, path.assign(verdict=["cannot tell"] * (n - 1) + ["same"])


def test_pairs_show_restarts_the_path_and_where_it_stopped():
    pairs, path = pair_frames()
    ax = plots.pairs(pairs, path).axes[0]
    assert "after 20 pairs: same" in [t.get_text() for t in ax.texts]
    upright = [line.get_xdata()[0] for line in ax.lines if len(set(line.get_xdata())) == 1]
    assert {4.5, 8.5, 12.5, 16.5} <= set(upright)


def test_a_path_has_a_step_a_block():
    pairs, path = pair_frames()
    path = path.iloc[3::4].assign(
        lo_pct=[math.nan, -9.0, -5.0, -4.0, -3.0]
    )  # one block: no interval
    ax = plots.pairs(pairs, path).axes[0]
    assert "after 20 pairs: same" in [t.get_text() for t in ax.texts]
    assert [4, 8, 12, 16, 20] in [list(line.get_xdata()) for line in ax.lines]


def test_pairs_far_outside_are_arrows_at_the_edge_not_a_wider_axis():
    pairs, _ = pair_frames()
    pairs.loc[3, "overhead"] = 1.5  # +348 %
    ax = plots.pairs(pairs).axes[0]
    assert ax.get_ylim()[1] < 50
    assert "^" in [line.get_marker() for line in ax.lines]


def rows(threads=(4,)):
    return pd.DataFrame(
        [
            {"run": f"{t}-{r}", "arm": arm, "t_s": s, "tps": 100 + s + r, "warmup": r == 0}
            | {"threads": t, "start_s": 10.0 * r}
            for t in threads
            for r, arm in enumerate(["plain", "plain", "encrypted"])
            for s in (1, 2, 3)
        ]
    )


def test_timeline_leaves_the_warm_up_out_of_the_medians():
    figure = plots.timeline(rows())
    words = texts(figure)
    assert "encrypted: median 104" in words
    assert "plain: median 103" in words
    assert "dashed grey: warm-up, not judged" in words


def test_timeline_gives_each_thread_count_a_panel():
    titles = [ax.get_title(loc="left") for ax in plots.timeline(rows((1, 4))).axes]
    assert titles == ["1 thread", "4 threads"]


def test_quantiles_show_the_ratio_to_the_baseline():
    frame = pd.DataFrame(
        [
            {"arm": a, "q": q, "value_s": v * k, "lo": math.nan, "hi": math.nan}
            for a, k in (("plain", 1.0), ("encrypted", 1.1))
            for q, v in ((0.5, 0.01), (0.99, 0.05), (0.999, 0.2))
        ]
    )
    top, low = plots.quantiles(frame, baseline="plain").axes
    assert top.get_yscale() == "log"
    assert [t.get_text() for t in low.get_xticklabels()] == ["p50", "p99", "p99.9"]
    drawn = [line for line in low.lines if len(line.get_ydata()) == 3]
    assert np.allclose(drawn[0].get_ydata(), 10.0)


def test_dots_have_a_row_a_comparison_with_its_verdict_in_words():
    figure = plots.dots(TABLE)
    words = texts(figure)
    assert words.count("cannot tell") == 3
    assert {"Transactions per second", "99th percentile latency"} <= set(words)
    assert "1 thread" in words
    assert "4 threads, A/A control" in words
    assert "4 threads, A/A control" not in texts(plots.dots(TABLE, control=False))


def test_rows_under_thread_counts_keep_the_joint_effect_apart():
    two = pd.concat([TABLE, TABLE.assign(arm="other")]).drop(columns="workload", errors="ignore")
    shown = texts(plots.dots(two[two["metric"] == "tps"], by=("workload", "threads")))
    assert "all threads" in shown
    assert "4 threads" in shown


def test_runs_draw_the_median_in_shown_units_without_warm_ups():
    values = [0.001, 0.002, 0.003, 9.0]
    tidy = pd.DataFrame(
        [
            {"arm": arm, "threads": 4, "metric": "cpu_per_transaction", "value": v, "warmup": v > 1}
            for arm in ("plain", "encrypted")
            for v in values
        ]
    )
    ax = plots.runs(tidy, "cpu_per_transaction").axes[0]
    levels = {line.get_ydata()[0] for line in ax.lines if len(line.get_ydata()) == 2}
    assert levels == {2.0}  # ms
    assert any("Server CPU per transaction, ms" in t.get_text() for t in ax.texts)


FIGURES = {
    "overhead": lambda: plots.overhead(TABLE, ["tps", "p99"]),
    "pairs": lambda: plots.pairs(*pair_frames()),
    "timeline": lambda: plots.timeline(rows()),
    "dots": lambda: plots.dots(TABLE),
    "runs": lambda: plots.runs(
        pd.DataFrame({"arm": ["a", "b"] * 5, "threads": 1, "metric": "tps", "value": range(10)})
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_table_gives_the_same_bytes(name):
    first, second = (plots.svg(FIGURES[name](), "title", "words") for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", FIGURES)
def test_the_svg_follows_the_page(name):
    text = plots.svg(FIGURES[name](), "What it costs & why", "in words")
    assert "currentColor" in text
    assert plots.INK not in text
    assert "#ffffff" not in text  # the page's paper shows through, light or dark
    assert 'role="img"' in text
    assert ">What it costs &amp; why</title>" in text
    assert ">in words</desc>" in text
    assert "<text" in text
    assert "metadata" not in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    wanted = re.findall(r'(?:href="#|url\(#)([^")]+)', text)
    assert set(wanted) <= set(ids)
    addresses = set(re.findall(r"https?://[^\"' )]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_two_figures_on_one_page_share_no_id():
    first, second = (plots.svg(FIGURES[n](), n) for n in ("overhead", "dots"))
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (first, second)]
    assert not ids[0] & ids[1]


def test_a_standalone_svg_has_plain_colours():
    text = plots.svg(FIGURES["dots"](), themed=False)
    assert text.startswith("<?xml")
    assert "var(" not in text


def test_a_drawing_in_a_page_has_no_ground_of_its_own():
    """Else it would be a white box by night."""
    assert "#ffffff" not in plots.svg(FIGURES["overhead"]())
    assert "#ffffff" in plots.svg(FIGURES["overhead"](), themed=False)


def test_show_embeds_the_data_and_a_narrow_drawing():
    markup = plots.show(
        FIGURES["overhead"](), alt="words", caption="With 95 % intervals.", data=TABLE, name="o"
    ).markup
    assert markup.count("<svg") == 2
    assert 'class="nf-narrow" style="display:none"' in markup
    assert "95\u202f% intervals" in markup
    data = re.search(r'href="data:text/csv;charset=utf-8;base64,([^"]+)"', markup)[1]
    back = pd.read_csv(io.BytesIO(base64.b64decode(data)))
    assert list(back["overhead_pct"]) == list(TABLE["overhead_pct"])


def test_a_figure_without_alternative_text_is_refused():
    with pytest.raises(ValueError, match="alternative text"):
        plots.show(FIGURES["dots"]())


def test_alternative_text_comes_from_the_verdict_table():
    assert plots.alt(TABLE.head(1)) == (
        "Transactions per second at 1 thread, encrypted against plain: slower, +4.0\u202f% "
        "(+3.0 to +5.0\u202f%)."
    )
    assert "over all thread counts" in plots.alt(TABLE, "tps")


# -- waterfall, warm-up ----------------------------------------------------------------------------

STEPS = pd.DataFrame(
    {
        "step": ["pinned", "new", "pool", "all together"],
        "arm": ["pinned", "new", "pool", "pool"],
        "overhead_pct": [5.0, -8.6, -27.1, -30.0],
        "lo_pct": [3.0, -7.0, math.nan, -33.0],
        "hi_pct": [7.0, -1.0, math.nan, -26.0],
        "verdict": ["slower", "faster", "cannot tell", "faster"],
        "blocks": 8,
        "start_pct": [0.0, 5.0, -4.0, 0.0],
        "end_pct": [5.0, -4.0, -30.0, -30.0],
    }
)


@pytest.mark.parametrize("narrow", [False, True])
def test_a_waterfall_hangs_each_step_on_the_one_before(narrow):
    figure = plots.waterfall(STEPS, narrow=narrow)
    bars = [p for p in figure.axes[0].patches if p.get_width() == 0.56]
    ends = [sorted((b.get_y(), b.get_y() + b.get_height())) for b in bars]
    assert ends == [
        pytest.approx(sorted(e)) for e in zip(STEPS.start_pct, STEPS.end_pct, strict=True)
    ]
    words = " ".join(texts(figure))
    for word in ("slower", "faster", "cannot tell", "+5.0", "−30.0"):
        assert word in words


def test_a_warm_up_shows_the_median_run_of_each_arm():
    frame = pd.DataFrame(
        [
            {"run": f"{arm}{i}", "arm": arm, "t_s": t / 10, "tps": base * t / 10 + i}
            for arm, base in (("plain", 100), ("encrypted", 80))
            for i in range(3)
            for t in range(1, 11)
        ]
    )
    figure = plots.warmup(frame)
    tops = sorted(line.get_ydata()[-1] for line in figure.axes[0].lines)
    assert tops == [81, 101]
    assert "plain (3 runs)" in texts(figure)


@pytest.mark.parametrize(
    "draw", [plots.timeline, plots.dots, plots.pairs, plots.runs, plots.overhead]
)
def test_where_nothing_was_measured_a_sentence_stands(draw):
    shown = plots.show(draw(TABLE[:0]), alt=plots.alt(TABLE[:0]))
    assert "No run of this campaign has a value for this figure." in shown.markup


# -- log axes --------------------------------------------------------------------------------------


def steps(*ends):
    """What a waterfall takes, from (start, end) pairs."""
    rows = [(f"s{i}", "encrypted", b, b, b, "slower", a, b) for i, (a, b) in enumerate(ends)]
    columns = ["step", "arm", "overhead_pct", "lo_pct", "hi_pct", "verdict", "start_pct", "end_pct"]
    return pd.DataFrame(rows, columns=columns)


def followed(table):
    return table.assign(
        campaign="c",
        date="2026-11-20",
        engine="MySQL 9.7",
        machine="m",
        margin_pct=2.0,
        control=False,
    )


def paired(overhead):
    pairs, path = pair_frames()
    ends = {"overhead_pct": overhead, "lo_pct": 0.9 * overhead, "hi_pct": 1.1 * overhead}
    return pairs.assign(overhead=pairs["overhead"] + math.log1p(overhead / 100)), path.assign(
        **ends
    )


DRAWN = {
    "overhead": lambda v: plots.overhead(one(v)),
    "dots": lambda v: plots.dots(one(v)),
    "history": lambda v: plots.history(followed(one(v))),
    "pairs": lambda v: plots.pairs(*paired(v)),
    "waterfall": lambda v: plots.waterfall(steps((0, v), (v, v / 2))),
}


def one(overhead):
    half = 0.2 * min(abs(overhead), 100 + overhead)
    rows = [("tps", t, "encrypted", overhead, half, "slower") for t in (1, 4)]
    return verdicts([*rows, ("tps", 4, "plain again", 0.2, 1.9, "same")])


def ticks(figure, name):
    """(tick labels that are seen, whether the axis of the overhead has a log scale)."""
    axis = figure.axes[0].xaxis if name == "dots" else figure.axes[0].yaxis
    low, high = axis.get_view_interval()
    figure.draw_without_rendering()
    return [
        t.get_text()
        for t in axis.get_ticklabels()
        if low <= t.get_position()[name != "dots"] <= high
    ]


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("overhead", [150.0, 900.0, 5000.0, -80.0])
def test_beyond_100_percent_the_axis_has_factors_on_a_log_scale(name, overhead):
    shown = ticks(DRAWN[name](overhead), name)
    assert "1×" in shown
    assert len(shown) >= 2
    assert not any("%" in t for t in shown)


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("overhead", [3.0, 40.0, -20.0])
def test_below_100_percent_the_axis_is_linear_in_percent(name, overhead):
    shown = ticks(DRAWN[name](overhead), name)
    assert "0\u202f%" in shown
    assert not any("×" in t for t in shown)


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("overhead", [-97.0, -45.0, 60.0, 99.0, 5000.0])
def test_no_axis_reaches_100_percent_below(name, overhead):
    figure = DRAWN[name](overhead)
    for drawn in (figure, figure.narrow()):
        ax = drawn.axes[0]
        low, high = ax.get_xlim() if name == "dots" else ax.get_ylim()
        assert -100 < low < overhead
        assert high > 0
        shown = ticks(drawn, name)
        assert not [
            t for t in shown if "−" in t and float(t.strip("−\u202f%").replace(",", "")) >= 100
        ]


def test_claims_have_no_tick_that_cannot_exist():
    frame = one(-60.0).head(1).assign(title="a claim", label="one")
    frame = pd.concat([frame, one(400.0).head(1).assign(title="a claim", label="two")])
    figure = plots.claims(frame)
    ax = figure.axes[0]
    assert ax.get_xlim()[0] > -100
    labels = [t.get_text() for t in ax.get_xticklabels()]
    assert {"4×", "+10", "−50"} <= set(labels)


def test_a_wide_interval_is_cut_and_marked_not_given_the_whole_axis():
    table = one(3.0)
    table.loc[0, ["lo_pct", "hi_pct"]] = -99.0, 20_000.0
    ax = plots.overhead(table).axes[0]
    assert ax.get_ylim()[1] < 100
    assert {"^", "v"} <= {line.get_marker() for line in ax.lines}


def test_a_verdict_is_told_with_its_direction_once():
    words = texts(plots.overhead(one(739.0)))
    assert "slower\n8.4 times" in words
    assert "8.4× (6.9 to 9.9×)" in " ".join(texts(plots.dots(one(739.0)))).replace("\u202f", " ")


def boxes(figure):
    figure.draw_without_rendering()
    for ax in figure.axes:
        notes = [t for t in [ax.title, ax._left_title, *ax.texts] if t.get_text().strip()]
        yield [(t.get_text(), t.get_window_extent()) for t in notes]


@pytest.mark.parametrize("arms", [1, 2, 3])
@pytest.mark.parametrize("overhead", [3.0, 400.0])
@pytest.mark.parametrize("narrow", [False, True])
def test_no_label_covers_a_title(arms, overhead, narrow):
    table = pd.concat(
        one(overhead * (1 + i / 9))
        .assign(baseline="a server with a long name", metric=metric)
        .replace({"arm": {"encrypted": f"arm {i} whose name is rather long, too"}})
        for metric in ("tps", "written_bytes_per_transaction")
        for i in range(arms)
    ).reset_index(drop=True)
    figure = plots.overhead(table, list(pd.unique(table["metric"])), narrow=narrow)
    for notes, title in zip(boxes(figure), ("Transactions", "Written"), strict=True):
        (words, head), *rest = notes
        assert words.startswith(title)
        assert [words for words, box in rest if box.overlaps(head)] == []


def test_words_for_eyes_that_see_nothing_say_what_was_measured_at_once():
    rows = [("cpu_per_transaction", 4, "encrypted", 14.0, 3.0, "slower")]
    rows += [("tps", 4, "encrypted", 1.0, 3.0, "not judged")]
    table = verdicts(rows, design="duet")
    table.at[0, "warnings"] = [schedule.CONTENDED]
    cpu, tps = plots.alt(table).replace("\u202f", " ").split("; ")
    assert "at 4 threads, both servers loaded at once, encrypted against plain: slower" in cpu
    assert cpu.endswith("+14.0 % (+11.0 to +17.0 %) under contention")
    assert "not judged, +1.0 %" in tps
    assert "contention" not in tps
    assert plots.contended(table.iloc[0])
    assert not plots.contended(table.iloc[1])
    assert "not judged" in texts(plots.dots(table))
    assert len(set(plots.GLYPH.values())) == len(plots.GLYPH)


def test_in_jupyterlab_its_own_rules_give_way():
    css = plots._lab_css()
    assert css.startswith(plots.LAB)
    rules = css.partition("body[data-jp-theme-light] {")[2]
    assert ".nf-verdict dl" in rules
    assert "--nf-ink" not in rules.partition("{")[0]
    assert css.count("{") == css.count("}")
