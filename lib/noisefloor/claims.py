"""Published claims: the facts of ``data/raw/published`` and what their own data can support.

Every source is judged by its own controls where it has any: the in-memory table of the tablespace
document, the two names of one cipher in the backup document, the repetitions of STAR. Where it has
none the verdict is `cannot tell`, with the run-to-run CV below which the difference would be real.
"""

import html
import math

import numpy as np
import pandas as pd

from noisefloor import parse, paths, plots, report
from noisefloor.compare import recorded_floor
from noisefloor.stats import fixed, plan, two

LIKELY_CV_PCT = (
    2.0  # run-to-run CV assumed for a plan; point releases of 8.0 and 8.4 show 0.8-1.7 %
)
COLUMNS = [
    "study", "workload", "metric", "threads", "baseline", "arm", "n_baseline", "n_arm",
    "overhead_pct", "lo_pct", "hi_pct", "p", "p_adjusted", "verdict", "noise_floor_pct",
    "deciding_cv_pct", "runs_needed", "minutes_needed", "warnings",
    "joint", "key", "title", "claim_id", "label", "said", "claimed_pct", "floor_from", "why", "settle",
]  # fmt: skip
FACTS = [
    "source", "claim_id", "arm", "threads", "metric", "value", "unit", "n", "seconds", "where_in_source",
    "url", "date", "environment", "note",
]  # fmt: skip
TITLES = {
    "binlog-encryption": "Binary log encryption, MySQL 8.0",
    "tablespace-encryption": "Tablespace encryption, Percona Server 8.0",
    "backup-encryption": "Encrypted backups: innobackupex, zstd, openssl",
    "ssl-connections": "TLS and the connection rate",
    "version-upgrade": "MySQL 8.0 to 8.4 with thread pool",
    "star-bnl": "TLS for the STAR database API",
    "percona-lab-thread-pool": "Thread pool at 512 threads",
    "mdcallag-versions": "Point queries from MySQL 5.6 to 9.7",
    "alibaba-tde": "Transparent data encryption at Alibaba RDS",
}


def facts(folder=None):
    """All published numbers: one row a number, columns as in the folder's README, `value` as a
    number (empty: lost in the copies, or a version) and `printed` as the file has it. None where
    the project has no published numbers: a page then shows its own alone."""
    folder = folder or paths.published()
    read = [pd.read_csv(f, dtype={"value": str}) for f in sorted(folder.glob("*.csv"))]
    frame = pd.concat(read, ignore_index=True) if read else pd.DataFrame(columns=FACTS)
    frame = frame.rename(columns={"value": "printed"})
    frame.insert(5, "value", pd.to_numeric(frame["printed"], errors="coerce"))
    return frame.astype({"threads": "Int64"})


def times(folder=None):
    """The backup document's `time` outputs, parsed from their text: arm phase wall user_sys (s)."""
    folder = (folder or paths.published()) / "backup-encryption"
    rows = []
    for path in sorted(folder.glob("*.txt")):
        arm, phase = path.stem.rsplit("-", 1)
        (result,) = parse.time(path.read_text())
        rows.append((arm, phase, result["real_s"], result["user_s"] + result["sys_s"]))
    return pd.DataFrame(rows, columns=["arm", "phase", "wall", "user_sys"])


def judge(facts, times, margin_pct=2.0, start=None):
    """The verdict table of all claims: the columns of every verdict table, then `claim_id`, `label`,
    `said` (the claim), `claimed_pct` (the source's own arithmetic), `floor_from`, `why`, `settle`.

    Positive overhead means worse. Holm runs over the claims of one source and metric. start: the
    start-to-start scatter of throughput ({"cv_pct", "df"}, the recorded one by default), which a
    mean over the thread counts of one server start still holds."""
    if facts.empty:
        return pd.DataFrame(columns=COLUMNS).astype({"threads": "Int64"})
    start = start or recorded_floor(own=False)["tps"]
    margin = math.log1p(margin_pct / 100)
    claims = [
        *_binlog(facts),
        *_tablespace(facts, start),
        *_backup(facts, times),
        *_ssl(facts),
        *_upgrade(facts),
        *_star(facts),
        *_thread_pool(facts),
        *_versions(facts),
        *_alibaba(facts),
    ]
    families = {}
    for claim in claims:
        families.setdefault((claim["study"], claim["metric"], claim["joint"]), []).append(claim)
    for family in families.values():
        adjusted = fixed.holm([c["estimate"].p for c in family])
        for claim, p in zip(family, adjusted, strict=True):
            claim["p_adjusted"] = p
    out = pd.DataFrame([_row(c, margin) for c in claims], columns=COLUMNS)
    out["threads"] = out["threads"].astype("Int64")
    out.attrs["margin_pct"] = margin_pct
    return out


def beside(facts, source="tablespace-encryption", claim="io-bound", label="published"):
    """A published table by thread count, to be drawn over our own: threads overhead_pct label."""
    if facts.empty:
        return pd.DataFrame(columns=["threads", "overhead_pct", "label"])
    d = _by_threads(facts, source, claim, "no encryption", "encrypted storage")
    return pd.DataFrame(
        {"threads": d.index.astype(int), "overhead_pct": 100 * np.expm1(d), "label": label}
    ).reset_index(drop=True)


def across(verdicts, claim, threads, label="published"):
    """One published number for all thread counts, to be drawn over our own: threads overhead_pct
    label."""
    size = verdicts.loc[verdicts["claim_id"] == claim, "overhead_pct"].to_list()
    rows = [(int(t), x, label) for t in threads for x in size[:1]]
    return pd.DataFrame(rows, columns=["threads", "overhead_pct", "label"])


def over(ours, published):
    """Rows of our verdict table with the published ones of the same metric and arm below each other,
    their workloads told apart: to be drawn together."""
    metric = ours["metric"].iloc[0] if len(ours) else ""
    theirs = published[(published["metric"] == metric) & published["arm"].isin(set(ours["arm"]))]
    both = [
        f.assign(workload=f["workload"].astype(str) + end)
        for f, end in ((ours[~plots.is_control(ours)], ", here"), (theirs, ", published"))
    ]
    kept = [c for c in ours.columns if c in theirs.columns]
    return pd.concat([f[kept] for f in both], ignore_index=True).sort_values(
        ["arm", "workload"], ignore_index=True
    )


# --- one source after the other -------------------------------------------------------------------


def _binlog(facts):
    tps = _values(facts, "binlog-encryption", metric="tps")
    worst = _values(facts, "binlog-encryption", metric="max_latency")
    common = dict(
        study="binlog-encryption", workload="oltp_read_write", threads=4,
        baseline="encryption off", arm="encryption on", n=(1, 1),
        floor_from="none: one run an arm, no control",
    )  # fmt: skip
    yield _claim(
        **common,
        claim_id="tps",
        metric="tps",
        label="TPS",
        said="similar, within the error",
        value=math.log(tps["encryption off"] / tps["encryption on"]),
        why="QPS and mean latency repeat the same measurement, so there is one number an arm and "
        "nothing that shows how much runs scatter",
    )
    yield _claim(
        **common,
        claim_id="max-latency",
        metric="max_latency",
        label="maximum latency",
        said="15.5 % higher, proof of an effect",
        value=math.log(worst["encryption on"] / worst["encryption off"]),
        claimed=_claimed(facts, "binlog-encryption", "max-latency"),
        refused="a maximum is one transaction of some 66,000: of two identical servers one is more "
        "than 10 % above the other in most pairs of runs",
        settle="p99 of repeated runs; no number of maxima",
    )


def _tablespace(facts, start):
    """The in-memory table holds no decryption: its differences are the noise of the other one."""
    source, arms = "tablespace-encryption", ("no encryption", "encrypted storage")
    control = _by_threads(facts, source, "in-memory", *arms)
    hard = _by_threads(facts, source, "io-bound", *arms)
    k = len(control)
    part = (float(np.mean(control**2)), k)
    few = control[control.index <= 32]
    narrow = (float(np.mean(few**2)), len(few))
    floor = f"its own in-memory table: {k} differences where nothing is decrypted"
    starts = fixed.floor(start["cv_pct"], start["df"])
    also = (
        f"; recorded start-to-start CV {start['cv_pct']:.2g} %, that no mean over threads removes"
    )
    common = dict(
        study=source, workload="oltp_read_only, I/O-bound", metric="tps", baseline=arms[0],
        arm=arms[1], floor_from=floor,
    )  # fmt: skip
    stated = _rows(facts, source, "io-bound", metric="claimed_ratio").set_index("threads")["value"]
    for threads, value in hard.items():
        claimed = 100 * (stated[threads] - 1)
        yield _claim(
            **common,
            claim_id="io-bound",
            threads=threads,
            n=(1, 1),
            key=threads == 32,
            label=f"{threads} thread{'s' if threads > 1 else ''}",
            said=f"ratio {stated[threads]:.2f}",
            claimed=claimed,
            value=value,
            parts=(part,),
            why=f"the control's differences scatter by {100 * math.sqrt(part[0]):.1f} %",
        )
    groups = (
        (hard[hard.index <= 16], "1 to 16 threads", "up to 9 % penalty"),
        (hard[hard.index >= 64], "64 to 2048 threads", "no difference"),
    )  # fmt: skip
    for group, where, said in groups:
        low = where.startswith("1 ")
        mean, n = float(group.mean()), len(group)
        strict = fixed.Estimate(mean, ((narrow[0] / n, narrow[1]), starts))
        yield _claim(
            **{**common, "floor_from": floor + also},
            claim_id="io-bound",
            joint=True,
            n=(n, n),
            label=f"{where} together",
            said=said,
            claimed=9.0 if low else 0.0,
            value=mean,
            parts=((part[0] / n, part[1]), starts),
            why=f"by the control's four rows up to 32 threads alone the floor would be "
            f"{fixed.percent(strict.half()):.1f} %, and the verdict {strict.verdict(0.0)}"
            if low
            else "all wait for a disk that gives no more, which hides the CPU that decryption "
            "takes, and one server start an arm cannot show that two arms are the same",
        )
    common |= {
        "workload": "oltp_read_only, in memory",
        "floor_from": "its own scatter over thread counts" + also,
    }
    yield _claim(
        **common,
        claim_id="in-memory",
        joint=True,
        n=(k, k),
        label="all data in memory",
        said="no difference",
        claimed=0.0,
        value=float(control.mean()),
        parts=((float(control.var(ddof=1)) / k, k - 1), starts),
        why="nothing is decrypted here, so the mean shows that the control does not lean; one "
        "server start an arm cannot show that two arms are the same",
    )


def _backup(facts, times):
    """`sm4` and `sm4-cbc` are one cipher under two names: their difference is the noise."""
    table = times.set_index(["arm", "phase"]).sort_index()
    for metric, what in (("wall", "time"), ("user_sys", "CPU time")):
        v = np.log(table[metric])
        gaps = [v["sm4", phase] - v["sm4-cbc", phase] for phase in ("backup", "restore")]
        one = float(np.mean(np.square(gaps))) / 2  # variance of one run
        for phase in ("backup", "restore"):
            twins = (v["sm4", phase] + v["sm4-cbc", phase]) / 2
            for arm, value, n in (
                ("aes-128-cbc", v["aes-128-cbc", phase], 1),
                ("sm4", twins, 2),
            ):
                stated = _claimed(facts, "backup-encryption", f"{phase}-{arm}")
                yield _claim(
                    study="backup-encryption",
                    workload=phase,
                    metric=metric,
                    baseline="none",
                    arm=arm,
                    n=(1, n),
                    key=metric == "wall" or arm != "sm4",
                    claim_id=f"{phase}-{arm}",
                    label=f"{phase} with {arm}, {what}",
                    said=f"{stated:.2f} % longer" if metric == "wall" else "not claimed",
                    claimed=stated if metric == "wall" else None,
                    value=float(value - v["none", phase]),
                    parts=((one * (1 + 1 / n), 2),),
                    floor_from="sm4 against sm4-cbc, one cipher under two names: two differences",
                    why="one run an arm, but the document repeats one of its arms without knowing",
                    warnings=[
                        "the two repetitions were made one after the other: a lower bound on noise",
                        "the arm without encryption ran first, on a colder cache than the others",
                    ],
                )
    size = _rows(facts, "backup-encryption", "file-size")["value"].iloc[0]
    rounding = math.log((size + 0.05) / (size - 0.05))
    yield _claim(
        study="backup-encryption",
        workload="backup",
        metric="backup_size",
        baseline="none",
        arm="any cipher",
        n=(1, 3),
        key=False,
        claim_id="file-size",
        label="size of the backup",
        said="no difference",
        claimed=0.0,
        value=0.0,
        parts=(((rounding / plan.t_quantile(0.975, math.inf)) ** 2, math.inf),),
        floor_from="rounding to 0.1G; four equal numbers",
        why="a size does not scatter; four files agree within what the rounding can hide",
    )


def _ssl(facts):
    rates = _rows(facts, "ssl-connections", "tunnel", metric="connections_per_second")
    tunnel = rates.loc[rates["arm"] == "ssh tunnel", "value"].min()
    native = rates.loc[rates["arm"] == "native TLS", "value"].max()
    common = dict(
        study="ssl-connections", metric="connections_per_second",
        floor_from="lost: ten runs an arm with their sd stood in a table that no copy holds",
    )  # fmt: skip
    yield _claim(
        **common,
        claim_id="tunnel",
        workload="100 connections, 4096-bit keys",
        baseline="ssh tunnel",
        arm="native TLS",
        n=(10, 10),
        label="native, against an SSH tunnel",
        said="100 or 22 against 470-480 a second",
        value=math.log(tunnel / native),
        why="more than fourfold even between the nearest ends, hard to explain by noise, but the "
        "table with mean and sd is lost and the sentence names no server",
        settle="ten repetitions of each, with key length, session resumption and server named",
    )
    yield _claim(
        **common,
        claim_id="distance",
        workload="round trips of 40 and 170 ms",
        baseline="no encryption",
        arm="TLS 1024 bit",
        n=(10, 10),
        label="over a long distance",
        said="hardly matters with 1024 bit",
        value=math.nan,
        refused="both tables are lost; one ping line (44.6 ms, mdev 3.2 ms) is left",
        settle="connections per second at 0, 40 and 170 ms with both kinds of connection",
    )


def _upgrade(facts):
    stated = _rows(facts, "version-upgrade")
    change = stated.loc[stated["metric"] == "claimed_change", "value"].iloc[0]
    ratio = stated.loc[stated["metric"] == "claimed_ratio", "value"].iloc[0]
    for claim_id, factor, label, said, why in (
        ("upgrade-16", 1 + change / 100, "4 cores",
         "about 16 % faster",
         "the numbers stood in a chart that is lost; operating system and redo log differ between "
         "the arms as well, so that not all of it could be the version's"),
        ("upgrade-2x", ratio, "32 cores",
         "about twice as fast",
         "hearsay: neither numbers nor settings, only that it was reported"),
    ):  # fmt: skip
        yield _claim(
            study="version-upgrade",
            workload="oltp_read_write, thread pool",
            metric="tps",
            baseline="8.0.42",
            arm="8.4.5",
            n=(1, 1),
            claim_id=claim_id,
            label=label,
            said=said,
            claimed=fixed.percent(-math.log(factor)),
            value=-math.log(factor),
            floor_from="none: repetitions not stated",
            why=why,
            settle="the same operating system and redo log in both arms, one factor at a time, "
            "{plan}",
        )


def _star(facts):
    """Three repetitions an arm: Welch on logs."""
    rows = _rows(facts, "star-bnl").assign(
        run=lambda f: f["where_in_source"].str.extract(r"repetition (\d)", expand=False)
    )
    wide = rows.pivot(index=["arm", "run"], columns="metric", values="value")
    wide["user_sys"] = wide["user"] + wide["sys"]
    for metric, what in (("wall", "time"), ("user_sys", "CPU time")):
        v = np.log(wide[metric])
        for arm, base, said in (
            ("weak", "off", "weak cipher"),
            ("strong", "off", "strong cipher"),
            ("strong with compression", "strong", "compression added"),
        ):
            x, y = v[base].to_numpy(), v[arm].to_numpy()
            yield _claim(
                study="star-bnl",
                workload="database API",
                metric=metric,
                baseline=f"TLS {base}" if base != "strong" else "strong",
                arm=f"TLS {arm}" if base == "off" else arm,
                n=(len(x), len(y)),
                key=(metric == "wall") == (base == "off"),
                claim_id=f"tls-{arm.replace(' ', '-')}",
                label=f"{said}, {what}",
                said="times only",
                value=float(y.mean() - x.mean()),
                parts=fixed.welch(x, y),
                floor_from="three repetitions an arm (Welch on logs)",
                why="three repetitions an arm show how much they scatter",
                warnings=[
                    "3 runs an arm: a rank test of fewer than 4 cannot reach 5 %",
                    "repetitions one after the other, on one server start as far as is known",
                ],
                sd=math.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2),
            )


def _thread_pool(facts):
    for tier in ("2GB", "12GB"):
        rows = _rows(facts, "percona-lab-thread-pool", f"thread-pool-{tier}")
        x, y = (np.log(rows.loc[rows["arm"] == arm, "value"]) for arm in ("no pool", "pool"))
        yield _claim(
            study="percona-lab-thread-pool",
            workload=f"tier {tier}",
            metric="tps",
            threads=512,
            baseline="no pool",
            arm="pool",
            n=(2, 2),
            claim_id=f"thread-pool-{tier}",
            label=f"pool on, {tier}",
            said="{:.0f}-{:.0f} against {:.0f}-{:.0f} TPS".format(
                *np.exp([y.min(), y.max(), x.min(), x.max()])
            ),
            value=float(x.mean() - y.mean()),
            parts=fixed.welch(x, y),
            sd=math.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2),
            floor_from="the two ends of each range as two runs",
            why="a range is all that is recorded; its ends are two runs, and more runs within the "
            "same range would only narrow the interval",
        )


def _versions(facts):
    qps = _rows(facts, "mdcallag-versions").set_index("arm")["value"]
    steps = [*zip(qps.index[:-1], qps.index[1:], strict=True), (qps.index[0], qps.index[-1])]
    for old, new in steps:
        yield _claim(
            study="mdcallag-versions",
            workload="point queries, cached",
            metric="qps",
            threads=1,
            baseline=old,
            arm=new,
            n=(1, 1),
            claim_id="version-ladder",
            label=f"{old} to {new}",
            said=f"{qps[old]:,.0f}, then {qps[new]:,.0f} QPS",
            claimed=fixed.percent(math.log(qps[old] / qps[new])),
            value=math.log(qps[old] / qps[new]),
            floor_from="none: one number a version",
            why="five versions in falling order, but no repetition of any",
        )


def _alibaba(facts):
    for claim_id, where in (("tde-low", "low"), ("tde-high", "high")):
        loss = _rows(facts, "alibaba-tde", claim_id)["value"].iloc[0]
        value = -math.log1p(-loss / 100)
        yield _claim(
            study="alibaba-tde",
            workload=f"{where} concurrency",
            metric="tps",
            baseline="no TDE",
            arm="TDE",
            n=(1, 1),
            claim_id=claim_id,
            label=f"{where} concurrency",
            said=f"{'up to' if where == 'low' else 'under'} {loss:.0f} % loss",
            claimed=fixed.percent(value),
            value=value,
            floor_from="none: a bound without numbers behind it",
            why="neither workload nor repetitions are told",
        )


# --- what the numbers say about each other ----------------------------------------------------------


def checks(facts, times):
    """Numbers that must agree because they measure the same thing or were computed from each other:
    source check stated recomputed finding."""
    rows = [*_binlog_checks(facts), *_backup_checks(facts, times), *_tablespace_checks(facts)]
    prepared, ran = (
        _rows(facts, "version-upgrade", metric=f"table_size_{step}")["value"].iloc[0]
        for step in ("prepare", "run")
    )
    rows.append(
        ("version-upgrade", "rows a table: prepare command, run command", prepared, ran,
         "nine tenths of the rows that the run asks for were never made, if both commands are as used")
    )  # fmt: skip
    return pd.DataFrame(rows, columns=["source", "check", "stated", "recomputed", "finding"])


def _binlog_checks(facts):
    source = "binlog-encryption"
    tps, qps, mean, worst = (
        _values(facts, source, metric=m) for m in ("tps", "qps", "mean_latency", "max_latency")
    )
    for arm in tps.index:
        yield (
            *(source, f"TPS, {arm}: 4 threads / mean latency", tps[arm], 4000 / mean[arm]),
            "Little's law: mean latency is the same measurement as TPS, not a second witness",
        )
        yield (
            *(source, f"queries a transaction, {arm}", 20.0, qps[arm] / tps[arm]),
            "QPS is TPS times 20, not a third witness",
        )
    yield (
        *(source, "rise of the maximum latency, %", _claimed(facts, source, "max-latency")),
        100 * (worst["encryption on"] / worst["encryption off"] - 1),
        "computed correctly, and no evidence",
    )


def _backup_checks(facts, times):
    source = "backup-encryption"
    table = times.set_index(["arm", "phase"]).sort_index()
    for arm in ("aes-128-cbc", "sm4", "sm4-cbc"):
        for phase in ("backup", "restore"):
            exact = 100 * (table["wall"][arm, phase] / table["wall"]["none", phase] - 1)
            yield (
                *(source, f"{phase} with {arm}, % longer", _claimed(facts, source, f"{phase}-{arm}")),
                exact,
                "the document divides rounded seconds",
            )  # fmt: skip
    for arm, stated in (("aes-128-cbc", 20.0), ("sm4", 50.0)):
        more = table["user_sys"][arm, "backup"] - table["user_sys"]["none", "backup"]
        yield (
            *(source, f"CPU of openssl {arm} during the backup, %", stated),
            100 * more / table["wall"][arm, "backup"],
            "extra user + sys per second of wall time; the document read a monitor",
        )


def _tablespace_checks(facts):
    source = "tablespace-encryption"
    hard = np.exp(_by_threads(facts, source, "io-bound", "no encryption", "encrypted storage"))
    stated = _rows(facts, source, "io-bound", metric="claimed_ratio").set_index("threads")["value"]
    worst = (hard.round(2) - stated).abs().idxmax()
    yield (
        *(
            source,
            f"printed ratio that fits worst, {plots.threads_label(int(worst))}",
            stated[worst],
            hard[worst],
        ),
        "all eleven printed ratios are the quotients of the two columns, rounded",
    )


# --- parts ------------------------------------------------------------------------------------------


def _rows(facts, source, claim=None, metric=None):
    kept = facts[facts["source"] == source]
    kept = kept if claim is None else kept[kept["claim_id"] == claim]
    return kept if metric is None else kept[kept["metric"] == metric]


def _values(facts, source, metric):
    return _rows(facts, source, metric=metric).set_index("arm")["value"]


def _claimed(facts, source, claim):
    """The percentage that the source itself prints for a claim."""
    rows = _rows(facts, source, claim)
    rows = rows[rows["metric"].str.endswith("claimed_change") & ~rows["arm"].str.contains(" and ")]
    return float(rows["value"].iloc[0])


def _by_threads(facts, source, claim, baseline, arm):
    """Log overhead by thread count from two columns of throughput."""
    rows = _rows(facts, source, claim, "tps")
    wide = rows.pivot(index="threads", columns="arm", values="value")
    return np.log(wide[baseline] / wide[arm]).sort_index()


def _claim(
    *,
    value,
    n,
    parts=((math.inf, 1.0),),
    threads=None,
    joint=False,
    claimed=None,
    refused="",
    why="",
    settle="{plan}",
    sd=None,
    warnings=(),
    key=True,
    **words,
):
    """One claim before it is judged; `key` claims stand in the figure."""
    estimate = fixed.Estimate(value, parts)
    return dict(
        words, estimate=estimate, n=n, threads=threads, joint=joint, claimed=claimed,
        refused=refused, why=why, settle=settle, sd=sd, warnings=list(warnings), key=key,
    )  # fmt: skip


def _row(c, margin):
    e, n = c["estimate"], c["n"]
    word = "cannot tell" if c["refused"] else e.verdict(margin, c["p_adjusted"])
    half = e.half()
    judged = e.known and not c["refused"]
    numbers = math.isfinite(e.value)
    open_ = word == "cannot tell" and numbers and not c["refused"]
    pair_sd = math.sqrt(2) * c["sd"] if c["sd"] else two.RECORDED_PAIR_SD["tps"]
    needed = plan.units_needed(e.value, pair_sd, margin) if open_ else None
    minutes = needed * 2 * (two.SLICE_S + two.GAP_S) / 60 if needed and not c["sd"] else None
    warnings = c["warnings"]
    if word != "cannot tell" and (limit := _start_limit(e, margin, word)):
        warnings = [
            *warnings,
            "stands unless what no repetition here shows (server start, cache, time of day) "
            f"scatters by more than {limit:.1f} % (CV)",
        ]
    return {
        **{k: c.get(k) for k in COLUMNS},
        "title": TITLES[c["study"]],
        "n_baseline": n[0],
        "n_arm": n[1],
        "overhead_pct": fixed.percent(e.value) if numbers else math.nan,
        "lo_pct": fixed.percent(e.value - half) if judged else math.nan,
        "hi_pct": fixed.percent(e.value + half) if judged else math.nan,
        "p": e.p if judged else math.nan,
        "p_adjusted": c["p_adjusted"] if judged else math.nan,
        "verdict": word,
        "noise_floor_pct": fixed.percent(half) if judged else math.nan,
        "deciding_cv_pct": fixed.deciding_cv(e.value, n)
        if numbers and e.value and not c["refused"] and not c["joint"]
        else math.nan,
        "runs_needed": needed if needed else math.nan,
        "minutes_needed": minutes if minutes else math.nan,
        "warnings": warnings,
        "claimed_pct": math.nan if c["claimed"] is None else c["claimed"],
        "why": c["refused"] or c["why"],
        "settle": _settle(c, word, needed, minutes),
    }


def _settle(c, word, needed, minutes):
    """What would settle a claim, in words; a pair is of short slices unless the source's runs have
    a scatter of their own."""
    if word != "cannot tell":
        return ""
    text = "more runs, in coin-flipped pairs"
    if minutes:
        text = f"{needed} coin-flipped pairs of {two.SLICE_S} s slices ({minutes:.0f} min), if pairs scatter as recorded"
    elif needed:
        text = f"{needed} coin-flipped pairs, if runs scatter as these do"
    return c["settle"].format(plan=text)


def _start_limit(e, margin, word):
    """Start-to-start CV in percent beyond which a verdict would fall; None when any would do."""
    reach = margin - abs(e.value) if word == "same" else abs(e.value)
    spare = (reach / (e.half() / math.sqrt(e.variance))) ** 2 - e.variance
    return 100 * math.sqrt(spare / 2) if spare > 0 else None


# --- for the page -----------------------------------------------------------------------------------


def headline(verdicts):
    """How many comparisons have which verdict, in one sentence. Raises paths.NotFound."""
    if verdicts.empty:
        raise paths.NotFound(f"no published numbers are in {paths.shown(paths.published())}")
    counts = verdicts["verdict"].value_counts()
    words = [f"{counts[w]} {w}" for w in ("slower", "faster", "same") if w in counts]
    return (
        f"{len(verdicts)} comparisons from {verdicts['study'].nunique()} published sources, judged "
        f"by their own data: for {counts.get('cannot tell', 0)} of them nobody can tell whether the "
        f"difference is noise; {', '.join(words)}."
    )


def box(verdicts):
    """The box at the top of the page: the headline and the findings."""
    items = "".join(f"<li>{html.escape(f)}</li>" for f in findings(verdicts))
    word = report.badge("cannot tell")
    share = f"{(verdicts['verdict'] == 'cannot tell').sum()} of {len(verdicts)}"
    return plots.Shown(
        f'<section class="nf-verdict nf-cannot-tell" aria-label="Verdict"><p class="nf-word">{word} '
        f'<span class="nf-num">{share}</span></p><p class="nf-headline">'
        f'{html.escape(headline(verdicts))}</p><ul class="nf-notes">{items}</ul></section>',
        headline(verdicts),
    )


def findings(verdicts):
    """The answers that readers ask for, one sentence each, from the verdict table."""
    v = verdicts.set_index(["study", "label"])

    def row(study, label):
        return v.loc[(study, label)]

    def said(r):
        return f"{r['verdict']}, {plots.percent(r['overhead_pct'])}"

    tps = row("binlog-encryption", "TPS")
    low, high = (
        row("tablespace-encryption", f"{w} together") for w in ("1 to 16 threads", "64 to 2048 threads")
    )  # fmt: skip
    mid = row("tablespace-encryption", "32 threads")
    backup, restore = (
        [row("backup-encryption", f"{phase} with aes-128-cbc, {t}") for t in ("time", "CPU time")]
        for phase in ("backup", "restore")
    )
    return [
        f"221.19 TPS without and 229.41 with binary log encryption: {said(tps)}. It would be real "
        f"if runs scattered by less than {tps['deciding_cv_pct']:.1f} % (CV). QPS and mean latency "
        "are the same measurement, the 15.5 % in maximum latency is no evidence.",
        f"Tablespace encryption with heavy reads, 1 to 16 threads: {said(low)} "
        f"({plots.interval(low['lo_pct'], low['hi_pct'])}). At 32 threads: {said(mid)}, less than "
        f"the {mid['noise_floor_pct']:.1f} % that the source's own control cannot exclude. From 64 "
        f"threads on: {said(high)}.",
        f"A backup through aes-128-cbc: {said(backup[0])} in time and {said(backup[1])} in CPU. The "
        f"restore: {said(restore[0])} in time, but {said(restore[1])} in CPU, which the document "
        "does not mention.",
    ]


def shown(verdicts, source):
    """The claims of one source as a table for reading, with the reasons below it."""
    kept = verdicts[verdicts["study"] == source]
    percent = {
        "noise_floor_pct": dict(sign=False),
        "overhead_pct": {},
        "deciding_cv_pct": dict(digits=2, sign=False),
    }
    text = {
        c: [plots.percent(x, **style) if pd.notna(x) else "–" for x in kept[c]]
        for c, style in percent.items()
    }
    plans = [
        f"{n:.0f} pairs" if pd.notna(n) and math.isfinite(n) else "–" for n in kept["runs_needed"]
    ]
    frame = pd.DataFrame(
        {
            "compared": kept["label"],
            "verdict": kept["verdict"].map(report.badge),
            "overhead": text["overhead_pct"],
            "claimed": kept["said"],
            "interval": [
                plots.interval(*ends) if pd.notna(ends[0]) else "–"
                for ends in zip(kept["lo_pct"], kept["hi_pct"], strict=True)
            ],
            "noise floor": text["noise_floor_pct"],
            "CV limit": text["deciding_cv_pct"],
            "to settle it": plans,
        }
    )
    right = ("overhead", "interval", "noise floor", "CV limit", "to settle it")
    floors = dict.fromkeys("; ".join(kept["floor_from"]).split("; "))
    caption = f"{TITLES[source]}. Noise floor: {'; '.join(floors)}."
    table = report.table(frame, caption, name=f"claims-{source}", numbers=right, raw=("verdict",))
    notes = "".join(f"<li>{html.escape(n)}</li>" for n in reasons(kept))
    return plots.Shown(f'{table.markup}<ul class="nf-notes">{notes}</ul>', table.text)


def reasons(kept):
    """Why each verdict is what it is, what would settle it, and what to mind: sentences."""
    lines = []
    for why, group in kept.groupby("why", sort=False):
        names = [*group["label"]] if len(group) < len(kept) or len(kept) == 1 else ["all"]
        names = names if len(names) < 4 else [names[0], "…", names[-1]]
        other = dict.fromkeys(s for s in group["settle"] if s and not s[0].isdigit())
        settle = f" To settle it: {'; '.join(other)}." if other else ""
        lines.append(f"{', '.join(names)}: {why}.{settle}".replace(", …,", " …"))
    weakest = kept[kept["verdict"].ne("cannot tell")]["warnings"].explode().dropna()
    return lines + [f"{w[0].upper()}{w[1:]}." for w in dict.fromkeys(weakest) if "stands" not in w]


def lost(facts):
    """What the copies lost: one row a number that a source must have had."""
    gone = facts[facts["printed"].isna()]
    return gone[["source", "arm", "metric", "threads", "where_in_source", "note"]]
