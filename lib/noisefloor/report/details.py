"""What a study's page says behind its answers: all comparisons, what transfers to another machine, the
settings of the arms, and proofs and runs, folded."""

import math

import pandas as pd

from .. import plots, studies
from ..amounts import percent
from ..results import PROCESSOR, THROUGHPUT
from .answers import command
from .pieces import cell, escaped, provenance, table, verdict_table_html
from .words import machine

LEADING = ("p95", "wall_prepared", "restart_s", "recovery_s", "apply_rate", "cipher_rate")
SATURATED = 0.95  # of the highest throughput

# settings whose values a reader asks for first, whether or not the arms differ in them
MATTERS = (
    *("innodb_buffer_pool_size", "innodb_redo_log_capacity", "innodb_log_file_size"),
    *("innodb_flush_log_at_trx_commit", "sync_binlog", "innodb_flush_method", "innodb_doublewrite"),
    *("innodb_io_capacity", "innodb_io_capacity_max", "innodb_change_buffering", "log_bin"),
    *("binlog_format", "binlog_row_image", "gtid_mode", "performance_schema", "thread_handling"),
    *("max_connections", "table_open_cache", "transaction_isolation", "character_set_server"),
)


def fold(title, *shown):
    """These pieces of a page behind a line that opens them; without any, nothing."""
    there = [s for s in shown if s is not None]
    if not there:
        return None
    inner = "".join(s.markup for s in there)
    markup = f'<details class="nf-more"><summary>{escaped(title)}</summary>{inner}</details>'
    return plots.Shown(markup, "\n".join([title, *(s.text for s in there)]))


def together(*shown):
    """Several pieces as one, for the last line of a cell."""
    there = [s for s in shown if s is not None]
    return plots.Shown("".join(s.markup for s in there), "\n".join(s.text for s in there))


def comparisons(r):
    """The verdict table: throughput, processor time and what decides; the rest folded."""
    deciding = {m for w in r.study.workloads for m in w.deciding}
    v = r.verdicts
    first = v["metric"].isin(deciding | {*PROCESSOR, *THROUGHPUT, *LEADING}) & v["lo_pct"].notna()
    rest = v[~first]
    more = None
    if len(rest):
        more = fold(
            f"{len(rest)} more: other metrics, and comparisons without an interval",
            verdict_table_html(_kept(v, rest), name="more-verdicts"),
        )
    return together(verdict_table_html(_kept(v, v[first]), "The verdict table"), more)


def _kept(whole, rows):
    rows.attrs = dict(whole.attrs)
    return rows


def transfers(r):
    """What of the answer holds on another machine, and a formula for one's own: a table of words made
    from the campaign's numbers."""
    rows = [("the processor", f"{machine(r.meta)}.", "Percentages of processor time hold where the "
             "same instructions exist; microseconds shrink with a faster core.")]  # fmt: skip
    if said := _saturation(r):
        rows.append(("the client", said, "It runs on the same machine and takes a part of every core. "
                     "With a client of its own a server saturates later."))  # fmt: skip
    if rates := r.meta.get("cipher_B_per_s"):
        rate = sorted(rates)[len(rates) // 2]
        rows.append(
            (
                "the cipher",
                f"{r.study.cipher['name']}: {rate / 1e6:,.0f} MB/s on one core (openssl speed).",
                "Compare with <code>openssl speed -evp</code> on yours: without AES instructions it is"
                " some ten times slower.",
            )
        )
    rows += _data(r)
    if r.study.keyring:
        rows.append(
            (
                "the keyring",
                "A file beside the server.",
                "One that asks a service is asked when files are opened and keys rotate, not for every"
                " transaction.",
            )
        )
    if formula := _formula(r):
        rows.append(("your number", *formula))
    frame = pd.DataFrame(rows, columns=["what", "here", "elsewhere"])
    return table(frame, "What transfers, and what does not", name="transfers", raw=("elsewhere",))


def _saturation(r) -> str:
    """From which thread count on more threads bring hardly more throughput, in words."""
    rate = next((m for m in THROUGHPUT if m != "wall" and len(r.judged(r.main, m))), "")
    if not rate:
        return ""
    rows = r.judged(r.main, rate)
    middle = rows[rows["arm"] == r.study.baseline.name].groupby("threads")["value"].median()
    if len(middle) < 2:
        return ""
    full = [int(t) for t in middle.index if middle[t] >= SATURATED * middle.max()]
    if len(full) < 2:
        return f"Throughput still grows from {middle.index[-2]} to {middle.index[-1]} threads."
    named = f"{', '.join(map(str, full[:-1]))} and {full[-1]}"
    return (
        f"Client and server share the cores: {named} threads reach the same throughput, so that they "
        "are one point, measured again."
    )


def _data(r) -> list[tuple[str, str, str]]:
    """What there was to read and write, and on which disk."""
    study, disk = r.study, (r.meta.get("host") or {}).get("disk") or {}
    rows = study.profile.rows * study.tables
    pool = study.settings.get("innodb_buffer_pool_size", "")
    held = f" The buffer pool has {pool}B." if pool else ""
    found = [
        (
            "the data",
            f"{study.tables} table{'s' * (study.tables > 1)}, {rows:,} rows.{held}",
            "A restart, a recovery or a backup of much more data takes longer in proportion at best.",
        )
    ]
    if disk.get("kind") == "virtual":
        found.append(
            (
                "the disk",
                "Virtual, and perhaps cached by its host.",
                "A slower disk makes everybody wait longer, so that the same processor time is a"
                " smaller part; a faster one shows it more.",
            )
        )
    return found


_UNITS = {
    "cpu_per_transaction": ("a transaction", 1e6, "µs"),
    "cpu_per_connection": ("a connection", 1e3, "ms"),
}


def _formula(r) -> tuple[str, str] | None:
    """(what it costs here in time of the processor, how to make one's own percentage of it)."""
    lead = next((x for x in r.headlines() if x["metric"] in _UNITS), None)
    if lead is None or math.isnan(lead["lo_pct"]):
        return None
    base = r.judged(lead["workload"], lead["metric"])
    base = base[base["arm"] == lead["baseline"]]["value"].median()
    each, scale, unit = _UNITS[lead["metric"]]
    extra, lo, hi = (scale * base * lead[c] / 100 for c in ("overhead_pct", "lo_pct", "hi_pct"))
    more, least, most = (
        f"{'+' if x > 0 else ''}{cell(float(f'{x:.3g}'))}" for x in (extra, lo, hi)
    )
    whole = cell(float(f"{scale * base:.3g}"))
    return (
        f"{lead['arm']}: {more} {unit} {each} ({least} to {most}) of {whole} {unit}.",
        f"Divide it by the processor time of {each} of yours (CPU seconds of the server, divided by"
        f" what it served): at twice the {whole} {unit} it is half of"
        f" {escaped(percent(lead['overhead_pct']))}.",
    )


def settings(r):
    """The variables that matter and those that were asked for, as read back from the running servers:
    a column an arm."""
    found: dict[str, dict[str, str]] = {}
    for part in reversed(r.parts):
        found |= {arm: values for arm, values in part.variables.items() if arm not in found}
    if not found:
        return None
    arms = [a.name for a in (r.study.baseline, *r.study.arms) if a.name in found]
    asked = {k for a in (r.study.baseline, *r.study.arms) for k in (*a.switch, *a.settings)}
    names = sorted({*MATTERS, *r.study.settings, *asked} & {k for v in found.values() for k in v})
    frame = pd.DataFrame({a: {n: found[a].get(n, "") for n in names} for a in arms})
    return table(
        frame.rename_axis("variable").reset_index(),
        "Settings in force, read back from the servers",
        name="settings",
    )


def again(r):
    """The command that measures the page's first question again, with its versions and its seed."""
    s, meta = r.parts[0].study, r.meta
    if s.name in studies.STUDIES:
        line = f"{command(r, s.key)} --seed {meta['seed']}"
    else:  # its user's own
        asked = meta.get("parameters", {}).get("settings", ())
        line = " ".join(["noisefloor ab", *asked, f"--profile {s.profile.name}"])
    builds = sorted({e["label"] for e in meta.get("engines", {}).values()})
    told = [*builds, f"sysbench {meta.get('tools', {}).get('sysbench', '')}".strip()]
    if meta.get("commit"):
        told.append(f"Noisefloor at {meta['commit']}")
    told.append(f"seed {meta['seed']}")
    markup = (
        f'<p class="nf-open">To measure it again: <code>{escaped(line)}</code><br>'
        f"{escaped(', '.join(told))}.</p>"
    )
    return plots.Shown(markup, f"{line}\n{', '.join(told)}")


def details(r):
    """Doubts, settings, proofs and runs, each folded; then where the numbers come from."""
    warned, left = len(r.warnings), len(r.skipped)
    return together(
        fold(f"Left out on this machine ({left})", table(r.skipped)) if left else None,
        fold(f"Warnings ({warned})", table(r.warnings)) if warned else None,
        fold("Settings of each arm", settings(r)),
        fold("Every variable that differs between the arms", table(r.differences)),
        fold("Proof that each arm was what it is called", table(r.evidence)),
        fold("What was measured, and why", table(r.workloads)),
        fold(f"Every run ({len(r.runs)})", table(r.runs)),
        again(r),
        provenance(r),
    )
