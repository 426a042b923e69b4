"""Executes every cell of a notebook, in a kernel that no other user can reach."""

import logging
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.show.report.pieces import OUT
from noisefloor.show.report.words import ReportError


def execute(source: Path, target: Path, values: dict[str, Any], timeout: float) -> Any:
    """The executed notebook, also written to `target`. values: its parameters; timeout: seconds a
    cell. Raises ReportError when any cell did not run."""
    import papermill
    from jupyter_client import AsyncKernelManager
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    class Kernel(AsyncKernelManager):
        """Without stderr: cells print through messages; only Jupyter writes there, as it ends."""

        async def _async_launch_kernel(self, kernel_cmd: list[str], **given: Any) -> None:
            given["env"] = {**given.get("env", os.environ), OUT: str(target.parent)}
            await super()._async_launch_kernel(kernel_cmd, stderr=subprocess.DEVNULL, **given)

    logging.getLogger("papermill").setLevel(logging.ERROR)
    name, sockets = source.stem, str(target.parent / "kernel")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = papermill.execute_notebook(
                source,
                target,
                values,
                kernel_name="python3",
                language="python",
                progress_bar={"desc": name, "leave": False, "disable": None},  # in a terminal
                execution_timeout=timeout,
                cwd=paths.root(),
                kernel_manager_class=Kernel,
                # unix sockets in our private folder: nobody else can talk to the kernel
                config=Config({"KernelManager": {"transport": "ipc", "ip": sockets}}),
            )
    except PapermillExecutionError as problem:
        error = " ".join(str(problem.evalue).split())
        raise ReportError(
            f"{name} stopped in cell {problem.exec_count}: {problem.ename}: {error[:400]}"
        ) from None
    except CellTimeoutError:
        raise ReportError(f"{name} stopped: a cell took longer than {timeout} s") from None
    except RuntimeError as problem:  # an early death of the kernel has no class of its own
        if not isinstance(problem, DeadKernelError) and "Kernel died" not in str(problem):
            raise
        raise ReportError(f"{name} stopped: its kernel was killed or died") from None
    for number, cell in enumerate(book.cells, 1):
        if cell.cell_type == "code" and cell.source.strip() and not cell.execution_count:
            raise ReportError(f"{name} ended early: cell {number} of {len(book.cells)} never ran")
    return book
