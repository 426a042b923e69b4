"""Independent tasks, in processes of this machine or by the workers of a Dask cluster.

Both have the executor interface of ``concurrent.futures``, so a command has one code path. A task
is a function of this package with its arguments. It must be repeatable, because a cluster gives the
tasks of a dead worker to another one.
"""

import contextlib
import json
import multiprocessing
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from noisefloor.text import Refusal

PATIENCE_S = 5  # for a scheduler that does not answer, and for its first worker
_NEEDED = ("papermill", "nbconvert")  # of a page: a second and a half to import
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Unreachable(Refusal):
    """A cluster that cannot be used: address and reason; code 2 for a malformed address."""

    code = 1


@contextlib.contextmanager
def pool(
    cluster: str = "",
    workers: int | None = None,
    *,
    apart: bool = False,
    environment: Mapping[str, str] | None = None,
    sees: Iterable[str | Path] = (),
) -> Iterator[Any]:
    """An executor: the workers of `cluster`, else `workers` local processes (default: one a core);
    its attribute `width` is their number.

    apart: without a cluster each task has a process of its own, so that its death harms no other;
    environment: that of such a process (default: this one's). sees: folders that every worker of
    the cluster must find under the same path. Raises Unreachable, also if the cluster is lost."""
    if cluster:
        with connect(cluster, sees) as client:
            from distributed import KilledWorker
            from distributed.client import FuturesCancelledError

            executor = client.get_executor(pure=False)
            executor.width = max(1, len(client.nthreads()))
            try:
                yield executor
            except KilledWorker as e:
                why = f"a task of {cluster} killed every worker it was given to ({first(e)})"
                raise Unreachable(why) from None
            except (CancelledError, FuturesCancelledError):
                why = f"the scheduler at {cluster} went away; nothing was finished"
                raise Unreachable(why) from None
        return
    width = workers or os.cpu_count() or 1
    given = os.environ if environment is None else environment
    here: Any = _Apart(width, given) if apart else ProcessPoolExecutor(width, initializer=_end_with)
    with here:
        here.width = width
        yield here


class _Apart(ThreadPoolExecutor):
    """Each task in a process of its own, with this environment."""

    def __init__(self, width: int, environment: Mapping[str, str]) -> None:
        super().__init__(width)
        self.environment = dict(environment)

    def submit(self, task: Callable[..., Any], /, *args: Any, **given: Any) -> Future[Any]:
        return super().submit(_alone, self.environment, task, *args, **given)


def _alone(
    environment: dict[str, str], task: Callable[..., Any], /, *args: Any, **given: Any
) -> Any:
    context = multiprocessing.get_context("forkserver")  # it has imported what every task needs
    context.set_forkserver_preload([task.__module__, *_NEEDED])
    with ProcessPoolExecutor(
        1, mp_context=context, initializer=_begin, initargs=(environment,)
    ) as process:
        return process.submit(task, *args, **given).result()


def _begin(environment: dict[str, str]) -> None:
    """Replace the environment: a process of the fork server starts with the one that the server had
    when it began."""
    os.environ.clear()
    os.environ.update(environment)
    _end_with()


def _end_with() -> None:
    """End this process when its parent ends, however that ends."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None  # this is a child
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def connect(cluster: str, sees: Iterable[str | Path] = ()) -> Iterator[Any]:
    """The Dask client of a cluster whose workers have this version and one thread each.

    cluster: ``tcp://host:port``, ``tls://host:port`` (keys as Dask is configured) or the path of a
    scheduler file. Raises Unreachable within seconds."""
    at = address(cluster)
    import asyncio

    import distributed

    try:
        asyncio.run(_reach(at))  # a client that fails would go on trying in the background
        client = distributed.Client(at, timeout=PATIENCE_S, set_as_default=False)
    except Exception as e:  # another program may listen there and answer anything
        raise Unreachable(
            f"no Dask scheduler answers at {cluster} within {PATIENCE_S} s "
            f"({first(e)}); nothing was run"
        ) from None
    with client:
        _check(client, cluster, [str(Path(p).resolve()) for p in sees])
        yield client


def address(cluster: str) -> str:
    """The tcp:// or tls:// address: `cluster` itself, or that in the scheduler file of that path.
    Raises Unreachable."""
    asked = cluster
    if "://" not in cluster:
        try:
            cluster = json.loads(Path(cluster).read_text())["address"]
        except (OSError, ValueError, KeyError, TypeError):
            cluster = ""
    url = urlsplit(cluster)
    with contextlib.suppress(ValueError):
        named = url.hostname and url.port and "@" not in cluster  # Dask has no passwords
        if url.scheme in ("tcp", "tls") and named:
            return cluster
    raise Unreachable(
        f"{asked}: tcp://host:port, tls://host:port or a scheduler file is needed; nothing was run",
        2,
    )


async def _reach(at: str) -> None:
    from distributed.comm import connect as reach
    from distributed.security import Security

    comm = await reach(at, timeout=PATIENCE_S, **Security().get_connection_args("client"))
    await comm.close()


def _check(client: Any, cluster: str, folders: list[str]) -> None:
    """Raise Unreachable unless every worker has one thread, our versions, and these folders."""
    why, deadline = "", time.monotonic() + PATIENCE_S
    by_worker: dict[str, tuple[dict[str, str], list[str]]] = {}
    while not (by_worker or why):
        with contextlib.suppress(TimeoutError):
            client.wait_for_workers(1, timeout=PATIENCE_S)
        threads = client.nthreads()
        if not threads:
            why = f"{cluster} has no worker after {PATIENCE_S} s"
        elif wide := [w for w, n in threads.items() if n != 1]:
            why = f"{wide[0]} has {threads[wide[0]]} threads; every worker needs exactly one"
            why += " (dask worker --nthreads 1 --nworkers auto)"
        else:
            try:
                by_worker = client.run(_about, folders)
            except Exception as e:  # of any kind: a worker without our package cannot run tasks
                if not isinstance(e, OSError) or time.monotonic() > deadline:
                    why = f"the workers of {cluster} cannot run noisefloor ({first(e)})"
                # else the worker died meanwhile; its successor is asked in the next round
    here, _ = _about(folders)
    for worker, (versions, missing) in by_worker.items():
        if differ := [f"{k} {v} instead of {here[k]}" for k, v in versions.items() if v != here[k]]:
            why = f"{worker} has {', '.join(differ)}"
        elif missing:
            why = f"{worker} does not see {Path(missing[0]).name}: every worker needs the folder"
            why += " under the same path"
    if why:
        raise Unreachable(f"{why}; nothing was run")


def _about(folders: list[str]) -> tuple[dict[str, str], list[str]]:
    """The versions of a worker, and the folders that it does not see."""
    versions = {name: metadata.version(name) for name in ("noisefloor", "numpy", "pandas")}
    versions["Python"] = platform.python_version().rpartition(".")[0]
    return versions, [f for f in folders if not os.path.exists(f)]


def first(e: BaseException) -> str:
    """The first line of an exception's text, at most 200 characters; its type if it has none."""
    lines = str(e).splitlines()
    return lines[0][:200] if lines else type(e).__name__


def in_the_clear(cluster: str) -> bool:
    """Whether data go to the cluster over a network, unencrypted. Raises Unreachable."""
    url = urlsplit(address(cluster))
    return url.scheme != "tls" and url.hostname not in _LOOPBACK
