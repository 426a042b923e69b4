"""What InnoDB has not yet written: dirty pages, old rows, the redo log."""

import contextlib
import time
from collections.abc import Iterator

from noisefloor.servers.sandbox import ServerError, looks
from noisefloor.servers.server import Server
from noisefloor.servers.session import Session


def settle(server: Session, limit_s: float, share: float = 0.1) -> dict[str, float]:
    """Wait, at most `limit_s`, until dirty pages are under `share` of the pool (below
    innodb_max_dirty_pages_pct_lwm, 10 % by default, the server stops flushing ahead) and the
    history list is under 1,000; returns `settled`, `seconds`, `dirty_pages` and `history`."""
    began = time.monotonic()
    for _ in looks(limit_s, 0.05):
        pages = server.status("Innodb_buffer_pool_pages_dirty", "Innodb_buffer_pool_pages_total")
        dirty, total = pages.values()
        history = _history(server)
        seconds = round(time.monotonic() - began, 3)
        if settled := dirty <= share * total and history < 1000:
            break
    return dict(settled=settled, seconds=seconds, dirty_pages=dirty, history=history)


def flush(server: Session, limit_s: float) -> dict[str, float]:
    """As `settle`, until hardly a page is dirty. For before the disk is made slow: else a slice would
    also measure the flushing of earlier changes."""
    with _eager_flushing(server):
        return settle(server, limit_s, 0.002)


def write_out(server: Server) -> None:
    """Wait until every page changed so far is in its file: a checkpoint. Raises ServerError."""
    wanted, _ = redo(server)
    with _eager_flushing(server):
        if not any(redo(server)[1] >= wanted for _ in looks(20)):
            raise ServerError("the server wrote no checkpoint within 20 s")


def redo(server: Server) -> tuple[float, float]:
    """(end of the redo log, start of a recovery) in bytes (LSN). Raises ServerError."""
    written, checkpoint = server.kind.LSN
    at = server.status(written, checkpoint)
    if len(at) < 2:
        raise ServerError("the server does not report the position of its redo log")
    return at[written], at[checkpoint]


def shrink_redo(server: Server) -> None:
    """Make the redo log small, before the data directory is copied, if the settings give its size: a
    copy makes it large again at its start. Raises ServerError."""
    name, small = server.kind.REDO, 96 << 20
    if name not in server.settings:
        return
    server.query(f"SET GLOBAL {name} = {small}")
    size = "Innodb_redo_log_physical_size"
    for _ in looks(20):
        if server.status(size).get(size, 0) <= small:  # MariaDB lacks it: its SET waits
            return
    raise ServerError("the redo log did not become smaller within 20 s")


@contextlib.contextmanager
def _eager_flushing(server: Session) -> Iterator[None]:
    names = ("innodb_max_dirty_pages_pct_lwm", "innodb_max_dirty_pages_pct")
    before = {n: v for n, v in server.variables().items() if n in names}
    try:
        server.set(dict.fromkeys(names, "0"))
        yield
    finally:
        server.set({n: before[n] for n in reversed(names)})


def _history(server: Session) -> float:
    """Length of the history list, the old rows that are not yet purged. 0 for a guest, which must not
    read other schemas."""
    if not isinstance(server, Server):
        return 0.0
    counted = "SELECT count AS n FROM information_schema.innodb_metrics WHERE name = :name"
    left = server.query(counted, name="trx_rseg_history_len")
    return float(left[0]["n"]) if left else 0.0
